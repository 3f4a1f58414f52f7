"""What is rounded to bf16 and goes on as float32, in PTX."""

import re

import pytest

from inferno.target import find_target
from inferno.targets import nvptx
from inferno.targets.bf16_roundings import round_in_words
from inferno.targets.toolkit import find_tool

TARGET = find_target("sm_90a")


def ptx_of(last: str) -> str:
    """A kernel that rounds a number, adds it to itself as float32, and ends with ``last``."""
    return nvptx.to_ptx(f"""
define ptx_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) {{
  %x = load float, ptr addrspace(1) %p
  %r = fptrunc float %x to bfloat
  %w = fpext bfloat %r to float
  %s = fadd float %w, %x
  store float %s, ptr addrspace(1) %p
  {last}
  ret void
}}
""", TARGET)


def test_a_rounded_number_is_one_instruction():
    ptx = ptx_of("")
    assert re.search(r"cvt\.rn\.bf16x2\.f32 \t%word0, %r\d+, 0f00000000;", ptx) and "cvt.rn.bf16.f32" not in ptx and "cvt.f32.bf16" not in ptx
    if find_tool("ptxas") is None:
        pytest.skip("no ptxas")
    cubin, resources = nvptx.assemble(ptx, TARGET)
    assert cubin[:4] == b"\x7fELF" and resources["k"].spills == 0


def test_what_is_stored_stays_16_bits():
    ptx = ptx_of("store bfloat %r, ptr addrspace(1) %q")
    assert "cvt.rn.bf16.f32" in ptx and "%word" not in ptx


def test_each_function_has_its_own_registers():
    body = "{\n\tcvt.rn.bf16.f32 \t%rs1, %r1;\n\tcvt.f32.bf16 \t%r2, %rs1;\n\tcvt.f32.bf16 \t%r3, %rs1;\n}\n"
    other = "{\n\tcvt.rn.bf16.f32 \t%rs1, %r1;\n\tmov.b16 \t%rs2, %rs1;\n\tcvt.f32.bf16 \t%r3, %rs1;\n}\n"
    made = "{\n\t.reg .b32 \t%word<1>;\n\tcvt.rn.bf16x2.f32 \t%word0, %r1, 0f00000000;\n\tmov.b32 \t%r2, %word0;\n\tmov.b32 \t%r3, %word0;\n}\n"
    assert round_in_words(f".entry a()\n{body}.entry b()\n{other}.entry c()\n{body}") == f".entry a()\n{made}.entry b()\n{other}.entry c()\n{made}"

"""LLVM IR to PTX and cubin for every GPU target, with libdevice linked."""

import pytest

from inferno.errors import CompileError
from inferno.target import TARGETS
from inferno.targets import libdevice, nvptx
from inferno.targets.toolkit import find_tool

TEXT = """
define ptx_kernel void @k(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %e = call float @__nv_expf(float %x)
  %s = fmul float %e, 1.000000e-01
  store float %s, ptr addrspace(1) %p
  ret void
}
declare float @__nv_expf(float)
"""
GPUS = [t for t in TARGETS.values() if t.kind == "nvptx"]


@pytest.mark.parametrize("target", GPUS, ids=lambda t: t.name)
def test_builds_for_every_gpu(target):
    ptx = nvptx.to_ptx(TEXT, target)
    assert f".target {target.name}" in ptx and "__nv_expf" not in ptx
    if find_tool("ptxas") is None:
        pytest.skip("no ptxas")
    cubin, resources = nvptx.assemble(ptx, target)
    assert cubin[:4] == b"\x7fELF"
    assert 0 < resources["k"].registers < 64 and resources["k"].spills == 0


def test_ptx_is_not_newer_than_the_driver_reads():
    assert all(t.ptx <= 90 for t in GPUS)


def test_a_missing_libdevice_function_is_named():
    with pytest.raises(CompileError, match="__nv_nothing"):
        libdevice.cut(frozenset({"__nv_nothing"}))


@pytest.mark.skipif(find_tool("ptxas") is None, reason="no ptxas")
def test_ptxas_errors_are_ours():
    with pytest.raises(CompileError, match="ptxas refused"):
        nvptx.assemble(".version 8.0\n.target sm_80\n.address_size 64\nnonsense;", TARGETS["sm_80"])


def test_report_is_read_by_kernel():
    report = """ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
    assert nvptx.parse_report(report) == {
        "a": nvptx.Resources(registers=40, shared=1024, stack=16, spills=12),
        "b": nvptx.Resources(registers=8, shared=0, stack=0, spills=0),
    }

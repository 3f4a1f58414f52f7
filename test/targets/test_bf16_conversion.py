"""The function that rounds float32 to bf16 on processors without an instruction for it."""

import ctypes
import math

import pytest
import torch

import inferno
from inferno.errors import CompileError
from inferno.mlir import ExecutionEngine, idle_context, ir
from inferno.targets.bf16_conversion import add_bf16_conversion
from inferno.targets.cpu import NativeCode

# Called by its name, as LLVM calls it: on a processor that has the instruction nothing else would.
_CALL = """
llvm.func @convert(%from: !llvm.ptr, %to: !llvm.ptr, %count: i64) attributes {llvm.emit_c_interface} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %a = llvm.getelementptr %from[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %b = llvm.getelementptr %to[%i] : (!llvm.ptr, i64) -> !llvm.ptr, bf16
  %x = llvm.load %a : !llvm.ptr -> f32
  %y = llvm.call @__truncsfbf2(%x) : (f32) -> bf16
  llvm.store %y, %b : bf16, !llvm.ptr
  %j = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %j, %count : i64
  llvm.cond_br %more, ^loop(%j : i64), ^end
^end:
  llvm.return
}
"""


def convert(x):
    made = torch.empty(x.shape, dtype=torch.bfloat16)
    context = idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse("llvm.func @unused(bf16)")
        add_bf16_conversion(module)
        both = ir.Module.parse(str(module).rstrip().removesuffix("}") + _CALL.replace(" attributes {llvm.emit_c_interface}", "") + "}")
        engine = ExecutionEngine(both, opt_level=2)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("convert"))
        values = [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(made.data_ptr()), ctypes.c_int64(x.numel())]
        call(ctypes.cast((ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values)), ctypes.c_void_p))
    return made


def test_it_rounds_as_torch_does():
    given = torch.randint(-(2**31), 2**31, (100_000,)).to(torch.int32).view(torch.float32)  # all kinds of bits
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1 + 2**-8, 1 + 2**-8 + 2**-20, 1 + 3 * 2**-8, 3.4e38, 1e-45]
    x = torch.cat([given, torch.tensor(special)])
    made, expected = convert(x), x.to(torch.bfloat16)
    nan = x.isnan()
    assert torch.equal(made.isnan(), nan) and torch.equal(made[~nan].view(torch.int16), expected[~nan].view(torch.int16))


def test_choices_of_bf16_compile_on_any_processor():
    x, places, source = torch.randn(4, 5).bfloat16(), torch.tensor([0, 2, 2]), torch.randn(3, 5).bfloat16()

    def model(x, places, source):
        return torch.index_reduce(x, 0, places, source, "amax"), torch.where(x > 0, x, x[:, :1])

    assert all(torch.equal(a, b) for a, b in zip(inferno.compile(model, (x, places, source))(x, places, source), model(x, places, source)))


def test_code_that_does_not_link_is_an_error_of_ours():
    text = "module { llvm.func @inferno_has_no_such_function()\n llvm.func @f() { llvm.call @inferno_has_no_such_function() : () -> ()\n llvm.return } }"
    with pytest.raises(CompileError, match="f: its machine code does not link"):
        NativeCode([text]).function("f")

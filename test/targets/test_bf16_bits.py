"""On the CPU bf16 are 16 bits of an integer: LLVM gets none, and numbers round as torch rounds them."""

import math

import pytest
import torch

import inferno
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.targets.bf16_bits import store_as_bits
from inferno.targets.cpu import NativeCode

BF16 = torch.bfloat16


def test_it_rounds_as_torch_does():
    given = torch.randint(-(2**31), 2**31, (100_000,)).to(torch.int32).view(torch.float32)  # all kinds of bits
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1 + 2**-8, 1 + 2**-8 + 2**-20, 1 + 3 * 2**-8, 3.4e38, 1e-45]
    x = torch.cat([given, torch.tensor(special)])
    made, expected = inferno.compile(lambda x: x.to(BF16), (x,), target="cpu")(x), x.to(BF16)
    nan = x.isnan()
    assert torch.equal(made.isnan(), nan) and torch.equal(made[~nan].view(torch.int16), expected[~nan].view(torch.int16))


def test_choices_of_bf16_compile_on_any_processor():
    x, places, source = torch.randn(4, 5).bfloat16(), torch.tensor([0, 2, 2]), torch.randn(3, 5).bfloat16()

    def model(x, places, source):
        return torch.index_reduce(x, 0, places, source, "amax"), torch.where(x > 0, x, x[:, :1])

    assert all(torch.equal(a, b) for a, b in zip(inferno.compile(model, (x, places, source))(x, places, source), model(x, places, source)))


@pytest.mark.parametrize("rows, columns", [(8, 32), (8, 33), (5, 7)])
def test_a_column_of_constants_beside_numbers(rows, columns):
    """Of 8x32 LLVM could not select instructions where the processor has AVX512-BF16, which ended the process."""
    x = torch.randn(rows, columns).to(BF16)
    model = lambda x: torch.cat([torch.ones(rows, 1, dtype=BF16), x], 1)  # noqa: E731
    fast = inferno.compile(model, (x,), target="cpu", fallback=False)
    assert torch.equal(fast(x), model(x))
    assert "bf16" not in fast.ir("llvm")


def test_products_that_add_up_round_each_step():
    x = (1 + torch.randn(6, 20) / 8).to(BF16)
    fast = inferno.compile(lambda x: x.cumprod(1), (x,), target="cpu", fallback=False)
    assert "bf16" not in fast.ir("llvm")
    torch.testing.assert_close(fast(x).double(), x.double().cumprod(1), rtol=0.05, atol=0)


def test_constants_keep_their_bits():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse("""
            llvm.mlir.global private constant @table(dense<[1.0, -2.0, 0x7F80, 0x7FC0]> : tensor<4xbf16>) : !llvm.array<4 x bf16>
            llvm.func @f(%p: !llvm.ptr, %i: i16) -> vector<2xbf16> {
              %a = llvm.mlir.constant(-1.500000e+00 : bf16) : bf16
              %b = llvm.mlir.constant(dense<1.0> : vector<2xbf16>) : vector<2xbf16>
              %c = llvm.bitcast %i : i16 to bf16
              %q = llvm.getelementptr %p[1] : (!llvm.ptr) -> !llvm.ptr, bf16
              llvm.store %a, %q : bf16, !llvm.ptr
              llvm.store %c, %p : bf16, !llvm.ptr
              llvm.return %b : vector<2xbf16>
            }""")
        store_as_bits(module)
        module.operation.verify()
        text = str(module)
    assert "bf16" not in text and "bitcast" not in text
    for constant in ("dense<[16256, -16384, 32640, 32704]> : tensor<4xi16>", "constant(-16448 : i16)", "dense<16256> : vector<2xi16>"):
        assert constant in text


def test_code_that_does_not_link_is_an_error_of_ours():
    text = "module { llvm.func @inferno_has_no_such_function()\n llvm.func @f() { llvm.call @inferno_has_no_such_function() : () -> ()\n llvm.return } }"
    with pytest.raises(CompileError, match="f: its machine code does not link"):
        NativeCode([text]).function("f")

"""What a program rounds, and what several read of a value in 16 bits, is what it is in eager."""

import pytest
import torch
from rounding_cases import CASTS, SHARED

import inferno


@pytest.mark.parametrize("through", ["inferno.compile", "torch.compile"])
def test_casts(through):
    x = torch.randn(33, 70)
    for name, f in CASTS.items():
        run = inferno.compile(f, (x,), fallback=False) if through == "inferno.compile" else torch.compile(f, backend="inferno", options={"fallback": False})
        assert torch.equal(run(x), f(x)), name


def test_casts_in_training():
    x = torch.randn(8, 16, requires_grad=True)

    def f(x):
        return (x - x.bfloat16().float()) * x

    fast = torch.compile(f, backend="inferno", options={"fallback": False})
    assert torch.equal(fast(x), f(x)) and torch.equal(*(torch.autograd.grad(g(x).sum(), x)[0] for g in (fast, f)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_that_several_read(dtype):
    x, r = torch.randn(40, 70).to(dtype), torch.randn(70).to(dtype)
    for name, f in SHARED.items():
        assert torch.equal(inferno.compile(f, (x, r), fallback=False)(x, r), f(x, r)), name


def test_what_is_only_computed_with_is_not_rounded():
    """It has the smaller error without, and where a linear layer's bias is added again by each reader, the product is rounded already."""
    x, b = torch.randn(40, 70).bfloat16(), torch.randn(70).bfloat16()
    assert "inferno.rounds" not in inferno.compile(lambda x, b: (y := x + b).softmax(-1) * y, (x, b)).ir("fused")

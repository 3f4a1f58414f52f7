"""What a program rounds, and what several read of a value in 16 bits, is what it is in eager."""

import pytest
import torch
from torch import nn
from rounding_cases import CASTS, COMPARED, PLACED, SHARED

import inferno


@pytest.mark.covering(most=1)
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


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_that_several_read(dtype):
    x, r = torch.randn(40, 70).to(dtype), torch.randn(70).to(dtype)
    for name, f in SHARED.items():
        assert torch.equal(inferno.compile(f, (x, r), fallback=False)(x, r), f(x, r)), name


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_compared_with_a_tensor(dtype):
    x, r = torch.randn(40, 70).to(dtype), torch.randn(70).to(dtype)
    for name, f in COMPARED.items():
        tensors = (x, r, (x * r).amax(0))
        assert torch.equal(inferno.compile(f, tensors, fallback=False)(*tensors), f(*tensors)), name


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_of_the_greatest(dtype):
    x = torch.randn(40, 70).to(dtype)
    for name, f in PLACED.items():
        ours, eager = inferno.compile(f, (x,), fallback=False)(x), f(x)
        pairs = zip(ours, eager) if isinstance(ours, tuple) else [(ours, eager)]
        assert all(torch.equal(*p) for p in pairs), name


def test_what_is_compared_with_a_number_is_not_rounded():
    assert "arith.truncf" not in inferno.compile(lambda x: ((x * 3).relu() > 1) & (x * x < 2), (torch.randn(40, 70).bfloat16(),)).ir("fused")


GREATEST = {
    "of products": lambda x: (x.flip(1) * x).amax(0),
    "of a chain": lambda x: (torch.exp(x) * x.flip(1) - x).amax(1, keepdim=True),
    "least": lambda x: torch.aminmax(torch.tanh(x) * x.flip(1), dim=0)[0],
    "of all": lambda x: (nn.functional.gelu(x) * x + x.exp()).max(),
    "of a layer": lambda x: nn.functional.gelu(nn.functional.layer_norm(x, x.shape[1:])).amax(0),
    "of distances": lambda x: torch.cdist(x, x.flip(0)).amax(1),
    "behind views": lambda x: (lambda y: y.view(32, 20).unsqueeze(0).amax(2) + y.neg().sum())(torch.exp(x) * x.flip(1) - x),
    "norm": lambda x: torch.linalg.vector_norm(torch.tanh(x) * x.flip(1) - x, float("inf"), 0),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", GREATEST)
def test_gradients_of_the_greatest(name, dtype):
    """Each is given to the elements that are equal to it, of which there is one: also where these are not in memory any more."""
    x, f = torch.randn(64, 10).to(dtype).requires_grad_(), GREATEST[name]
    fast = torch.compile(f, backend="inferno", options={"fallback": False})
    (ours,), (eager,) = (torch.autograd.grad(g(x).sum(), x) for g in (fast, f))
    assert ours.isfinite().all()
    torch.testing.assert_close(ours.sum(), eager.sum(), rtol=0.1, atol=0.1)


def test_what_is_only_computed_with_is_not_rounded():
    """It has the smaller error without, and where a linear layer's bias is added again by each reader, the product is rounded already."""
    x, b = torch.randn(40, 70).bfloat16(), torch.randn(70).bfloat16()
    assert "inferno.rounds" not in inferno.compile(lambda x, b: (y := x + b).softmax(-1) * y, (x, b)).ir("fused")


@pytest.mark.parametrize("dtype, suffix", [(torch.float16, "f16"), (torch.bfloat16, "bf16")])
def test_products_on_a_gpu_are_rounded_before_they_are_added(dtype, suffix):
    """A fused multiply-add in 16 bits would not round the product of which eager subtracts another."""
    x, r = torch.randn(140, 270).to(dtype), torch.randn(270).to(dtype)
    ptx = inferno.compile(SHARED["first of a row"], (x, r), target="sm_90a", fallback=False).ir("ptx")
    assert f"mul.rn.{suffix}x2" in ptx and f"fma.rn.{suffix}" not in ptx

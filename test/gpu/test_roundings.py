"""What a program rounds to 16 bits on the way, on a GPU."""

import pytest
import torch
from rounding_cases import CASTS, COMPARED, PLACED, SHARED

import inferno


def test_casts():
    x = torch.randn(133, 270, device="cuda")
    for name, f in CASTS.items():
        assert torch.equal(inferno.compile(f, (x,), fallback=False)(x), f(x)), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_that_several_read(dtype):
    x, r = torch.randn(140, 270, device="cuda").to(dtype), torch.randn(270, device="cuda").to(dtype)
    for name, f in SHARED.items():
        assert torch.equal(inferno.compile(f, (x, r), fallback=False)(x, r), f(x, r)), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_compared_with_a_tensor(dtype):
    x, r = torch.randn(140, 270, device="cuda").to(dtype), torch.randn(270, device="cuda").to(dtype)
    for name, f in COMPARED.items():
        tensors = (x, r, (x * r).amax(0))
        assert torch.equal(inferno.compile(f, tensors, fallback=False)(*tensors), f(*tensors)), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_of_the_greatest(dtype):
    x = torch.randn(140, 270, device="cuda").to(dtype)
    for name, f in PLACED.items():
        ours, eager = inferno.compile(f, (x,), fallback=False)(x), f(x)
        pairs = zip(ours, eager) if isinstance(ours, tuple) else [(ours, eager)]
        assert all(torch.equal(*p) for p in pairs), name


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(1490, 59), (64, 4096), (4096, 96)])
def test_nothing_is_larger_than_the_largest(shape, dim):
    """A difference of a product and the largest of these is no fused multiply-add, whose result would be the product's rounding error."""
    def f(x, y):
        product = torch.nn.functional.silu(x) * y
        less = product - product.amax(dim, keepdim=True)
        return (less > 0).sum(), (less == 0).any(dim), torch.sqrt(-less)

    x, y = (torch.randn(shape, device="cuda") for _ in range(2))
    more, any_largest, roots = inferno.compile(f, (x, y), fallback=False)(x, y)
    assert more == 0 and any_largest.all() and not roots.isnan().any()

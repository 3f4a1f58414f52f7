"""What a program rounds to 16 bits on the way, on a GPU."""

import pytest
import torch
from rounding_cases import CASTS, COMPARED, SHARED

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

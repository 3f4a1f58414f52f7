"""Sorts of what maps make, and maps of what is sorted, on a GPU: one kernel, along any dimension, of rows of one tile and of several."""

import pytest
import torch
from checks import assert_right

import inferno


def around(dim):
    return lambda x: torch.relu(torch.tanh(x * 2).sort(dim).values + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("shape, dim, kernels", [
    ((256, 128), 0, 1), ((8, 64, 96), 1, 1), ((64, 197, 256), 1, 1), ((128, 32, 48), 0, 1), ((1000, 333), 1, 1), ((20, 9000), 1, None), ((20000, 8), 1, None),
])
def test_right(shape, dim, kernels, dtype):
    torch.manual_seed(0)
    compiled = assert_right(around(dim), (torch.randn(shape, device="cuda").to(dtype),))
    assert kernels in (None, compiled.explain().launches), compiled.explain()


@pytest.mark.parametrize("dim", [0, 1])
def test_ends_and_places(dim):
    """Zeros of both signs, infinite numbers and what is no number are computed again when they are written; equals stay in their order."""
    def model(x, y):
        v = torch.where(x > 1, torch.inf, torch.relu(x)) * torch.sign(x)
        found = torch.sort(torch.where(x < -2, torch.nan, v), dim=dim, stable=True)
        return found.values - y, found.indices + 1

    torch.manual_seed(0)
    x, y = torch.randn(300, 200, device="cuda"), torch.randn(300, 200, device="cuda")
    compiled = inferno.compile(model, (x, y), fallback=False)
    assert compiled.explain().launches == 1, compiled.explain()
    for ours, theirs in zip(compiled(x, y), model(x, y)):
        torch.testing.assert_close(ours, theirs, equal_nan=True)

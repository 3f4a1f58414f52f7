"""Sums of products of which each factor is read once, against float64."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper
from product_cases import CASES

pytestmark = on_hopper


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("scale", [1, 30])
@pytest.mark.parametrize("name", CASES)
def test_right(exact_float32, name, scale, dtype):
    function, shapes = CASES[name]
    compiled = assert_right(function, tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes(scale)))
    assert "universal" not in {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_factors_of_which_places_tell(exact_float32, dtype):
    """Few rows of each count, in products of few rows and few terms."""
    def function(w, x):
        return torch.einsum("tnm,tmd->tnd", w, torch.where(torch.arange(5, device=x.device)[:, None] < 3, x * 2, 0))

    compiled = assert_right(function, tuple(torch.randn(s, device="cuda").to(dtype) for s in ((200, 4, 5), (200, 5, 256))))
    assert "universal" not in {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_ones_times_a_weight_that_others_read(exact_float32, dtype):
    def function(x, w):
        return torch.ones_like(x) @ w * torch.sigmoid(x @ w), x @ w

    compiled = assert_right(function, (torch.randn(512, 384, device="cuda").to(dtype), torch.randn(384, 256, device="cuda").to(dtype)))
    assert "universal" not in {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("batch, heads, rows, terms, columns", [
    (64, 16, 16, 16, 32), (16, 8, 49, 49, 32), (8, 16, 256, 256, 64), (8, 4, 4, 77, 64), (3, 5, 33, 31, 17), (2, 4, 300, 300, 5), (8, 8, 64, 64, 8),
])
def test_heads_are_written_beside_each_other(exact_float32, dtype, batch, heads, rows, terms, columns):
    def together(a, b):
        return (a @ b).transpose(1, 2).reshape(batch, rows, heads * columns)

    given = [torch.randn(s, device="cuda").to(dtype) for s in ((batch, heads, rows, terms), (batch, heads, terms, columns), (batch, rows, heads * columns))]
    assert len(assert_right(together, tuple(given[:2])).explain().rows) == 1
    assert len(assert_right(lambda a, b, c: together(a, b).relu() * 2 + c, tuple(given)).explain().rows) == 1

"""Sums of products of which each factor is read once, by the simulator: reductions, whatever ends them."""

import pytest
import torch
from checks import check
from product_cases import CASES
from scheduled_program import assert_right
from universal_program import SimulatedModel

import inferno
from inferno.schedule.assign import choose
from inferno.target import find_target


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    torch.manual_seed(2)
    function, shapes = CASES[name]
    args = tuple(torch.randn(s).to(dtype) for s in shapes(1))
    rows = inferno.compile(function, args, target="sm_90a").explain().rows
    assert all(row.generator in ("reductions", "rows", "columns", "one_block") for row in rows)
    passes = "fuse-rows{target=sm_90a},fuse-reductions{target=sm_90a}"
    found = check(SimulatedModel(function, args, choose=lambda k: choose(k, find_target("sm_90a")), passes=passes, expand=True), function, args)
    assert found.right, str(found)


def test_factors_that_are_read_again_stay():
    """A matrix times a vector is for generators of contractions."""
    x, y = torch.randn(64, 512).bfloat16(), torch.randn(512).bfloat16()
    row, = inferno.compile(lambda x, y: torch.relu(x @ y), (x, y), target="sm_90a").explain().rows
    assert row.generator in ("vectors", "wgmma")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_factors_of_which_places_tell(dtype):
    """Few rows of each count, in products of few rows and few terms: no kernel of products computes that."""
    torch.manual_seed(2)

    def function(w, x):
        return torch.einsum("tnm,tmd->tnd", w, torch.where(torch.arange(5)[:, None] < 3, x * 2, 0))

    assert "universal" not in assert_right(function, (torch.randn(20, 4, 5).to(dtype), torch.randn(20, 5, 32).to(dtype)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_ones_times_a_weight_that_others_read(dtype):
    """Which is its sums."""
    torch.manual_seed(2)

    def function(x, w):
        return torch.ones_like(x) @ w * torch.sigmoid(x @ w)

    assert "universal" not in assert_right(function, (torch.randn(32, 48).to(dtype), torch.randn(48, 32).to(dtype)))

"""Reductions whose last operation transposes what they made: one kernel, whose loops are in the order of the result."""

import pytest
import torch
from scheduled_program import assert_right_of, launches

import inferno

F = torch.nn.functional


def softmax(x, y, z):
    return torch.softmax(x, 0).t().contiguous()


def chosen(x, y, z):
    return torch.softmax(torch.where(x > 0, x, y) * z, 0).t().contiguous()


def middle(x, y, z):
    x = x.reshape(2, -1, x.shape[1])
    return F.normalize(x, dim=1).permute(2, 0, 1).contiguous()


def two_results(x, y, z):
    x = torch.softmax(x, 0)
    return (x * y[:1]).t().contiguous(), x.sum(0)


def beside_its_own(x, y, z):
    """The sums are of rows and of columns of one tensor."""
    return (torch.softmax(x, 0) + x.sum(1, keepdim=True)).t().contiguous()


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("program", [softmax, chosen, middle, two_results, beside_its_own])
@pytest.mark.parametrize("shape", [(4, 48), (46, 44), (130, 12)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    text = assert_right_of(program, shape, dtype, 3)
    if program in (softmax, chosen):
        assert launches(text) == 1, text[:3000]


@pytest.mark.parametrize(("columns", "count"), [(32, 1), (5, 2)])
def test_softmax_of_many_rows(columns, count):
    """Rows that a thread holds are one kernel where what it gives back of each has whole sectors."""
    rows = inferno.compile(lambda x: torch.softmax(x, 0).t().contiguous(), (torch.empty(columns, 96768),), target="sm_90a").explain().rows
    assert len(rows) == count

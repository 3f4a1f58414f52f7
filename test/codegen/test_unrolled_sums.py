"""Totals of a few rows that all of their points read are computed with each of them, in the kernel that goes over the rows."""

import pytest
import torch
from scheduled_program import assert_right, assert_right_of, launches

F = torch.nn.functional

# What is computed, and in how many launches.
PROGRAMS = {
    "less the mean": (lambda x, y: torch.softmax(x - x.mean(0, keepdim=True), -1), 1),
    "of a product": (lambda x, y: F.layer_norm((z := x * y[:, :1]) - z.mean(0), x.shape[1:]), 1),
    "largest, flipped": (lambda x, y: torch.log_softmax((x - x.amax(0)).flip(-1), -1) * y, 2),
    "of three dimensions": (lambda x, y: torch.softmax((x := x.reshape(x.shape[0], 2, -1)) - x.sum(0), -1), 1),
    "returned, too": (lambda x, y: (torch.softmax(x - (m := x.mean(0)), -1), m), 2),
}


@pytest.mark.covering(most=6, also=lambda name, shape, dtype: name == "of three dimensions" and shape == (2, 1856) and dtype == torch.float32)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 48), (3, 534), (2, 1856)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shape, dtype):
    program, most = PROGRAMS[name]
    text = assert_right_of(program, shape, dtype, 2)
    assert launches(text) <= most, text[:3000]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_rows_of_a_few_points_beside_totals_of_columns(dtype):
    def program(x, y):
        return (torch.softmax(x.t(), 0) * y.sum(-1, keepdim=True) / 4).contiguous()

    text = assert_right(program, (torch.randn(4, 320).to(dtype), torch.randn(320, 4).to(dtype)))
    assert launches(text) == 1, text[:3000]

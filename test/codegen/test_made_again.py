"""What ends a softmax or a norm is made anew where it is read in another order, flipped, in part, or as a piece."""

import pytest
import torch
from scheduled_program import assert_right_of, launches

F = torch.nn.functional

# What is read of each, and how many launches at most.
PROGRAMS = {
    "flipped": (lambda x, y: torch.softmax(x, -1).flip(-1), 1),
    "flipped between": (lambda x, y: F.layer_norm(torch.softmax(x, -1).flip(-1) * y, x.shape[1:]), 1),
    "flipped rows": (lambda x, y: torch.softmax(x, -1).flip(0) + y, 2),
    "rows of a table": (lambda x, y: torch.softmax(x, -1)[y[:, 0].abs().mul(100).long() % x.shape[0]], 2),
    "a piece": (lambda x, y: torch.cat((torch.softmax(x, -1), y), -1), 2),
    "a part": (lambda x, y: torch.softmax(x, -1)[:, : x.shape[1] // 2 + 1], 2),
    "a part of a norm": (lambda x, y: F.gelu(F.layer_norm(x, x.shape[1:], y[0])[:, 3:20]), 2),
    "a part of a sum": (lambda x, y: torch.softmax(x * y, -1)[:, : x.shape[1] // 2].sum(-1), 2),
    "a part of taken rows": (lambda x, y: F.layer_norm(x[y[:, 0].abs().mul(100).long() % x.shape[0]], x.shape[1:])[:, : x.shape[1] // 2 + 1], 2),
    "a part of running sums": (lambda x, y: F.silu((z := x.cumsum(-1)[:, : x.shape[1] // 2 + 1]) - z.amax(-1, keepdim=True)), 1),
    "transposed": (lambda x, y: torch.softmax(x, -1).t().contiguous(), 2),
    "transposed and read": (lambda x, y: ((e := torch.softmax(x, -1)).t().contiguous(), e.sum(0)), 4),
    "transposed columns": (lambda x, y: torch.softmax(x, 0).t().contiguous(), 1),
    "both": (lambda x, y: (e := torch.exp(x - x.amax(-1, keepdim=True))) / e.sum(-1, keepdim=True) + e.flip(-1), 2),
}


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 48), (34, 49), (130, 24)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shape, dtype):
    program, most = PROGRAMS[name]
    text = assert_right_of(program, shape, dtype, 2)
    assert launches(text) <= most, text[:3000]

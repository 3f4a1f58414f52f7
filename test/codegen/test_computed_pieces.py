"""Rows of a concatenation of which pieces are computed are read from what these are made of, and one of what is computed is selected."""

import pytest
import torch
from scheduled_program import assert_right, launches

F = torch.nn.functional

# What is computed of two tensors of the same rows, and in how many launches at most.
PROGRAMS = {
    "gated": (lambda x, y: torch.softmax(torch.cat((F.silu(x) * x.sin(), y), -1), -1), 1),
    "several tensors in one piece": (lambda x, y: torch.cat((x * x.flip(0)[:1], y, x + y[:, :1], y * y[0]), -1).cumsum(-1), 3),
    "scaled by rows and columns": (lambda x, y: F.layer_norm(torch.cat((y * y[0], x * x[:, :1]), -1), (x.shape[1] + y.shape[1],)), 1),
    "and wanted": (lambda x, y: ((z := torch.cat((x.exp(), y - 1), -1)), F.normalize(z, dim=-1)), 1),
    "a number beside it": (lambda x, y: torch.log_softmax(torch.cat((torch.tanh(x), torch.zeros_like(y), y), -1), -1), 2),
    "of wider numbers": (lambda x, y: torch.cat((x.float().exp(), y.float()), -1).logsumexp(-1), 1),
}


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shapes", [((30, 39), (30, 40)), ((7, 16), (7, 8)), ((5, 1), (5, 130)), ((40, 24), (40, 520))], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shapes, dtype):
    program, most = PROGRAMS[name]
    torch.manual_seed(0)
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    assert launches(text) <= most, text[:3000]


def test_what_may_trap_is_not_computed_of_other_pieces():
    """Nor is it refused: it is put together first."""
    x, y = torch.randint(1, 90, (30, 24)), torch.zeros(30, 24, dtype=torch.int64)
    text = assert_right(lambda x, y: torch.cat((100 // x, y), -1).cumsum(-1), (x, y))
    assert "arith.divsi" in text or "arith.floordivsi" in text or "divf" in text

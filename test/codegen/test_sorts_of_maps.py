"""Sorts of what maps make, and maps of what is sorted: one kernel, on a simulated GPU."""

import pytest
import torch
from scheduled_program import assert_right, launches

BF16 = torch.bfloat16


def around(dim):
    return lambda x: torch.relu(torch.tanh(x * 2).sort(dim).values + 1)


def places(x, y):
    """Values, beside what lies where they come to, and numbers of their places."""
    found = torch.sort(x + y, dim=1, descending=True, stable=True)  # eager's may leave equals in any order otherwise
    return found.values * y, found.indices + torch.arange(x.shape[2])


def ends(x):
    """Zeros of both signs, infinite numbers and what is no number, which are computed again when they are written."""
    return (torch.where(x > 1, torch.inf, torch.relu(x)) * torch.sign(x)).sort(0).values - 1


PROGRAMS = {  # what is computed, shapes of arguments, launches
    "columns": (around(0), [(96, 70)], 1), "the middle": (around(1), [(3, 70, 33)], 1), "rows": (around(-1), [(30, 77)], 1),
    "in front alone": (lambda x: (x * 3 + 1).sort(1).values, [(3, 70, 33)], 1), "behind alone": (lambda x: x.sort(0).values.exp(), [(96, 70)], 1),
    "both": (lambda x: tuple(torch.sort(x.sin(), dim=0, stable=True)), [(96, 70)], 1), "places": (places, [(3, 70, 33), (3, 70, 33)], 1),
    "ends": (ends, [(96, 70)], 1), "broadcasts": (lambda x, y: (x * y).sort(1).values + y, [(3, 70, 33), (33,)], 1),
    "rows of tiles": (lambda x: torch.sigmoid(x).sort(-1).values * 2, [(2, 9000)], 3),
    "sorted, and as it was": (lambda x: (y := torch.tanh(x), y.sort(0).values)[1] + y, [(96, 70)], 2),
    "short rows": (around(1), [(20000, 8)], 3), "the first few": (lambda x: torch.tanh(x).topk(4, 0).values + 1, [(200, 70)], 3),
}


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, BF16)[n % 2]) for n, name in enumerate(PROGRAMS)], ids=str)
def test_right(name, dtype):
    torch.manual_seed(0)
    program, shapes, most = PROGRAMS[name]
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    assert launches(text) <= most, text[:3000]


def test_whole_numbers():
    torch.manual_seed(0)
    text = assert_right(lambda x: (x * 2 - 5).sort(0).values * 3, (torch.randint(-99, 99, (96, 40)),))
    assert launches(text) == 1, text[:3000]

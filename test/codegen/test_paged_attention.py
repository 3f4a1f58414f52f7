"""Keys and values in pages, which the kernel looks up itself, on the simulator against float64."""

import pytest
import torch
from attention_program import simulate
from checks import assert_close_to_float64
from paged_cases import CASES, cache_of, operands, poisoned

from inferno.schedule.attention import Attention


@pytest.mark.parametrize("name, rows, schedule, early", [
    ("index", 16, Attention(1, 32, turns=False, bounded=True, staged=False), False),
    ("heads", 64, Attention(1, 32, turns=False, parts=2), True),
    ("joint", 16, Attention(1, 48, turns=False, splits=2, bounded=True, staged=False), True),
    ("select", 32, Attention(1, 32, turns=False, overlap=False), False),
])
def test_by_the_simulator(name, rows, schedule, early):
    """Pages behind the lengths are not there where the kernel is told that nobody needs them; copies as late as they may be, and as early."""
    torch.manual_seed(0)
    args = operands(rows, 96 // rows + 1, [90, 17], queries=2, table=torch.int64 if name == "heads" else torch.int32)
    wanted = cache_of(name, args)
    given = cache_of(name, poisoned(args)) if schedule.bounded else wanted
    assert_close_to_float64(simulate(CASES[name], given, schedule, early), CASES[name], wanted)

"""Keys and values in pages, which the kernel looks up itself, on the simulator against float64."""

import pytest
import torch
from attention_program import simulate, simulated
from checks import assert_close_to_float64
from paged_cases import CASES, cache_of, operands, poisoned
from torch.export import Dim

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


def test_sizes_that_vary():
    """The batch and the number of pages that a sequence may have are known at the call."""
    torch.manual_seed(0)
    dims = {0: Dim("b", min=1, max=8), 1: Dim("n", min=1, max=64)}
    shapes = {"q": {0: dims[0]}, "k": None, "v": None, "table": dims, "lengths": {0: dims[0]}}
    schedule = Attention(1, 32, turns=False, splits=2, bounded=True, staged=False)
    compiled = simulated(CASES["index"], operands(16, 4, [40, 17], many=20), schedule, dynamic_shapes=shapes)
    for pages, lengths in ((4, [40, 17]), (7, [100]), (2, [1, 32, 20])):
        args = operands(16, pages, lengths, many=20)
        found = compiled(*poisoned(args))
        assert_close_to_float64(found, CASES["index"], args)

"""Keys and values in pages, which the kernel looks up itself, on the simulator against float64."""

import pytest
import torch
from attention_cases import fused, read
from attention_program import simulate, simulated
from checks import assert_close_to_float64
from paged_cases import CASES, cache_of, operands, poisoned
from torch.export import Dim

from inferno.mlir import idle_context, ir
from inferno.schedule.attention.schedule import Attention


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, rows, schedule, early", [
    ("index", 16, Attention(1, 32, turns=False, bounded=True, staged=False), False),
    ("heads", 64, Attention(1, 32, turns=False, parts=2), True),
    ("joint", 16, Attention(1, 48, turns=False, splits=2, bounded=True, staged=False), True),
    ("slots", 32, Attention(1, 32, turns=False, overlap=False), False),
])
def test_by_the_simulator(name, rows, schedule, early):
    """Pages behind the lengths are not there where the kernel is told that nobody needs them; copies as late as they may be, and as early."""
    torch.manual_seed(0)
    args = operands(rows, 96 // rows + 1, [90, 17], queries=2, table=torch.int64 if name == "heads" else torch.int32)
    wanted = cache_of(name, args)
    given = cache_of(name, poisoned(args)) if schedule.bounded else wanted
    assert_close_to_float64(simulate(CASES[name], given, schedule, early), CASES[name], wanted)


def test_float32():
    """The launch that makes pieces of numbers reads the pages."""
    torch.manual_seed(0)
    args = operands(16, 4, [60, 17], dtype=torch.float32)
    schedule = Attention(1, 32, turns=False, overlap=False, pieces=3)
    assert_close_to_float64(simulate(CASES["by hand"], args, schedule), CASES["by hand"], args)


@pytest.mark.thorough
def test_sizes_that_vary():
    """The batch and the number of pages that a sequence may have are known at the call."""
    torch.manual_seed(0)
    dims = {0: Dim("b", min=1, max=8), 1: Dim("n", min=1, max=64)}
    shapes = {"q": {0: dims[0]}, "k": None, "v": None, "table": dims, "lengths": {0: dims[0]}}
    schedule = Attention(1, 32, turns=False, splits=2, bounded=True, staged=False)
    compiled = simulated(CASES["index"], operands(16, 4, [40, 17], many=20), schedule, dynamic_shapes=shapes)
    for pages, lengths in ((7, [100]), (2, [1, 32, 20])):
        args = operands(16, pages, lengths, many=20)
        found = compiled(*poisoned(args))
        assert_close_to_float64(found, CASES["index"], args)


def _of_columns(q, k, v, table, lengths):
    """Another page for each column."""
    at = table.long().flatten(0, 1)[:, None, None].expand(-1, *k.shape[1:])
    k, v = (torch.gather(x, 0, at).view(*table.shape[:2], *x.shape[1:]).flatten(1, 2).transpose(1, 2) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _of_rows(q, k, v, table, lengths):
    """The first row of each page."""
    k, v = (x.flatten(0, 1)[table].transpose(1, 2) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, pages", [(CASES["gather"], 2), (CASES["by hand"], 2), (_of_columns, 0), (_of_rows, 0)])
def test_what_is_in_pages(function, pages):
    args = operands(16, 4, [3, 50])
    if function is _of_columns:
        args = *args[:3], args[3][:, :, None].expand(-1, -1, 16).contiguous(), args[4]
    with idle_context(), ir.Location.unknown():
        a, _ = read(fused(function, args), args)
        assert len(a.pages) == pages
        assert all((p.rows, p.entry, p.of.count, p.of.step) == (16, 1, len(args[1]), 16 * 2 * 16) for p in a.pages)

"""Rows that are added to others, each of which looks for its own: their numbers on a simulated GPU, whichever rows get how much."""

from functools import partial

import pytest
import torch
from added_row_cases import add, assert_extremes, assert_launches_right, put, simulated_with
from choices import generators
from scheduled_program import assert_right, launches
from test_sorted_rows import equal, half_equal, of, scattered, uniform, zipf

from inferno.capture.devices import capturing_for
from inferno.schedule.scatters import matched_rows
from inferno.schedule.scatters.matched_rows import MatchedRows

simulated = partial(simulated_with, matched_rows)
BF16, F16 = torch.bfloat16, torch.float16

# Rows, columns, how many are added, of which type; the schedule, if not the chosen one.
SIZES = {
    "a look is enough": (20, 48, 50, torch.float32, None), "bf16": (100, 256, 64, BF16, None), "f16, parts of rows": (5, 1040, 30, F16, None),
    "warps that share": (40, 64, 700, BF16, None), "float64": (20, 6, 30, torch.float64, None), "whole numbers": (20, 4, 90, torch.int32, None),
    "whole numbers of 64 bits": (20, 3, 90, torch.int64, None), "odd columns": (30, 77, 60, BF16, None), "a column": (70, 1, 300, torch.float32, None),
    "several looks": (9, 28, 400, torch.float32, MatchedRows(4, 8, 2, 2, 2, 2)), "looks of warps that share": (9, 28, 900, BF16, MatchedRows(4, 4, 1, 4, 1, 3)),
    "many rows": (900, 8, 500, F16, None),
}


@pytest.mark.covering(most=24)
@pytest.mark.parametrize("where", [uniform, zipf, equal, half_equal, scattered], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", SIZES)
def test_right(name, where):
    torch.manual_seed(0)
    rows, columns, count, type_, schedule = SIZES[name]
    x, i = of((rows, columns), type_), where(rows, count)
    args = x, i, of((len(i), columns), type_)
    assert_launches_right(simulated(put, args, schedule), put, args, 1)


MODELS = {
    "of several dimensions": (add, (30, 4, 6), (50, 4, 6)), "to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y), (20, 32), (30, 32)),
    "to ones": (lambda x, i, y: torch.ones_like(x).index_add(0, i, y), (20, 32), (30, 32)),
    "rows of a table": (lambda x, i, y: x.index_add(0, i, x[i.flip(0)] * y), (20, 8), (30, 1)),
    "parts of rows": (lambda x, i, y: x.index_add(0, i, y[:, 8:]), (20, 8), (30, 16)),
    "of what is computed": (lambda x, i, y: x.index_put(((i * 3) % 20,), y * y - 1, accumulate=True), (20, 8), (30, 8)),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models(name, dtype):
    torch.manual_seed(0)
    model, shape, added = MODELS[name]
    args = of(shape, dtype), half_equal(shape[0], added[0]), of(added, dtype)
    assert_launches_right(simulated(model, args), model, args, 1)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float64], ids=str)
@pytest.mark.parametrize("kind, include_self", [("amin", True), ("amax", False)])
def test_extremes(kind, include_self, dtype):
    assert_extremes(matched_rows, kind, include_self, dtype)


def along_rows(x, i, y):
    return x.index_add(1, i, torch.relu(y))


@pytest.mark.parametrize("program, shapes, rows", [
    (add, [(100, 256), (64, 256)], 100), (along_rows, [(3, 32, 64), (3, 40, 64)], 32),
    (lambda x, i, y: torch.zeros_like(x).index_add(1, i, torch.tanh(y)), [(3, 32, 64), (3, 40, 64)], 32),
])
def test_chosen(program, shapes, rows):
    """What is few, with maps in front, is one kernel."""
    torch.manual_seed(0)
    x, y = (of(s, BF16) for s in shapes)
    with capturing_for(True):  # the arguments are examples, and no program's for a CPU
        text = assert_right(program, (x, uniform(rows, y.shape[0 if program is add else 1]), y))
    assert launches(text) == 1 and 'generator = "matched_rows"' in text, text[:3000]


@pytest.mark.parametrize("rows, count, columns", [(4096, 65536, 64), (4, 4096, 64), (100000, 16, 64)])
def test_left_to_others(rows, count, columns):
    """Many places for many rows, many for few of them, and rows of which most stay as they are."""
    with torch.device("meta"):
        args = torch.empty(rows, columns), torch.empty(count, dtype=torch.long), torch.empty(count, columns)
    assert "matched_rows" not in generators(add, args)

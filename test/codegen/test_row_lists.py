"""Rows that are added to others by lists: their numbers on a simulated GPU."""

from functools import partial

import pytest
import torch
from added_row_cases import add, put, simulated_with
from checks import check

from inferno.schedule import row_lists
from inferno.schedule.row_lists import RowLists

simulated = partial(simulated_with, row_lists)


def of(shape, type_=torch.float32):
    return lambda: torch.randn(shape).mul(4).to(type_)


CASES = {
    "added": (add, of((20, 32)), 50, of((50, 32))),
    "put": (put, of((20, 32)), 50, of((50, 32))),
    "to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y), of((20, 32)), 50, of((50, 32))),
    "bf16": (put, of((300, 24), torch.bfloat16), 40, of((40, 24), torch.bfloat16)),
    "f16, of several dimensions": (add, of((30, 4, 6), torch.float16), 70, of((70, 4, 6), torch.float16)),
    "float64": (put, of((20, 6), torch.float64), 30, of((30, 6), torch.float64)),
    "whole numbers": (add, of((20, 4), torch.int32), 90, of((90, 4), torch.int32)),
    "rows of a table": (lambda x, i, y: x.index_add(0, i, x[i.flip(0)] * y), of((20, 8)), 30, of((30, 1))),
    "of what is computed": (lambda x, i, y: x.index_put(((i * 3) % 20,), y * y - 1, accumulate=True), of((20, 8)), 30, of((30, 8))),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, x, count, y = CASES[name]
    x = x()
    args = x, torch.randint(0, len(x), (count,)), y()
    made = simulated(model, args)
    assert len(made.program.plan.steps) == 3, made.program.gpu
    found = check(made, model, args)
    assert found.right, str(found)


def test_updates_are_exchanged_for_what_was_there():
    """The simulator takes the number of an atomic operation for what it is meant to be."""
    args = torch.randn(20, 8), torch.randint(0, 20, (6,)), torch.randn(6, 8)
    gpu = simulated(add, args).program.gpu
    assert gpu.count("memref.atomic_rmw") == gpu.count("memref.atomic_rmw assign") == 1


@pytest.mark.parametrize("schedule", [RowLists(64, 2), RowLists(128, 4, 2), RowLists(64, 4, 8)], ids=str)
def test_schedules(schedule):
    args = torch.randn(9, 32), torch.randint(0, 9, (40,)), torch.randn(40, 32)
    found = check(simulated(add, args, schedule), add, args)
    assert found.right, str(found)


@pytest.mark.parametrize("far, there", [(-1, True), (-20, True), (-21, False), (20, False), (1 << 40, False), ((1 << 32) + 1, False)])
def test_places(far, there):
    """Negative ones count from the end; those outside are left alone."""
    x, i, y = torch.randn(20, 8), torch.randint(0, 20, (6,)), torch.randn(6, 8)
    made = simulated(put, (x, i, y))
    i[2] = far
    kept = torch.ones(6, dtype=bool)
    kept[2] = there
    torch.testing.assert_close(made(x, i, y), put(x, i[kept], y[kept]))

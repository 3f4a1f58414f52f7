"""Rows that are given back in another order by way of shared memory, and of which programs."""

import re
from dataclasses import replace

import pytest
import torch
from scheduled_program import assert_right_changed, launches

import inferno
from inferno.schedule.rows import rows
from inferno.schedule.rows.gathered_results import written_apart
from inferno.target import find_target

F = torch.nn.functional


def running_sums(x, y):
    return (torch.cumsum(x * y.sum(-1, keepdim=True) / 45, -1) + y).t().contiguous()


def both_orders(x, y):
    x = torch.log_softmax(x, -1)
    return x * y, (x + y).t().contiguous(), x.sum(-1)


def two_transposed(x, y):
    x = F.normalize(x, dim=-1)
    return (x + y).t().contiguous(), (x * y).float().t().contiguous()


def images(x, y):
    x, y = x.reshape(2, -1, x.shape[1]), y.reshape(2, -1, y.shape[1])
    return (torch.softmax(x, -1) * y).permute(2, 0, 1).contiguous()


def gather(kernel, schedule):
    c = rows.read(kernel, find_target("sm_90a"))
    if schedule.generator != "rows" or not written_apart(c):
        return schedule
    return replace(schedule, threads=128, across=8, cluster=1, held=True, gathers=True, packed=False)


@pytest.mark.covering(most=5)
@pytest.mark.parametrize("program", [running_sums, both_orders, two_transposed, images])
@pytest.mark.parametrize("shape", [(34, 45), (16, 64), (70, 20)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    text, schedule = assert_right_changed(program, shape, dtype, gather)
    assert launches(text) == 1 and schedule.gathers, text[:3000]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shape, gathers", [
    ((195361, 45), "across=8,.*threads=512"), ((195361, 200), "across=8,.*threads=512"), ((200000, 32), "across=4,.*threads=512"),
    ((1000, 45), ""), ((20000, 1001), ""),
])
def test_large_results_go_through_shared_memory(shape, gathers):
    args = tuple(torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    found = inferno.compile(running_sums, args, target="sm_90a").explain().rows
    schedules = [str(row.schedule) for row in found]
    if not gathers:
        assert not any("gathers=true" in s for s in schedules)
    else:
        assert len(schedules) == 1 and "gathers=true" in schedules[0] and re.search(gathers, schedules[0]), schedules

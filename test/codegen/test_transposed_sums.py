"""Sums of several tensors that lie differently: their numbers on a simulated GPU, and which sums are such."""

import pytest
import torch
from checks import check
from joined_row_cases import PASSES
from transposed_sum_cases import IMAGE_SIZES, IMAGES, SCHEDULES, SIZES, TABLES, choose, images, tables
from universal_program import SimulatedModel

import inferno

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def right(model, args, schedule):
    found = []
    run = SimulatedModel(model, args, choose=choose(schedule, found), passes=PASSES)
    verdict = check(run, model, args)
    assert verdict.right, str(verdict)
    return found


@pytest.mark.covering
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", TABLES)
def test_tables(name, schedule, size, dtype):
    torch.manual_seed(0)
    right(TABLES[name], tables(size, dtype), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", IMAGE_SIZES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", IMAGES)
def test_images(name, schedule, size, dtype):
    torch.manual_seed(0)
    right(IMAGES[name], images(size, dtype), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["sums of rows", "sums of columns", "mean of all", "largest of all"])
def test_that_they_are_transposed(name, schedule):
    torch.manual_seed(0)
    assert right(TABLES[name], tables((203, 92), torch.bfloat16), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_other_types(schedule):
    torch.manual_seed(0)
    x, y = tables((70, 48), torch.float64)
    assert right(lambda x, y: (x * y.t()).sum(1), (x, y.float()), schedule)
    x, y = ((t * 4).to(torch.int32) for t in tables((70, 48), torch.float32))
    assert right(lambda x, y: torch.maximum(x, y.t()).sum(1), (x, y), schedule)


def schedules(model, args):
    return [r.schedule for r in inferno.compile(model, args, target="sm_90a", fallback=False).explain().rows]


def test_which_are_transposed():
    x, y = tables((400, 300), torch.float32)
    assert "transposed=true" in schedules(lambda x, y: (x * y.t()).sum(1), (x, y))[0]
    assert "transposed=true" in schedules(lambda x, y: (x - y.t()).square().mean(), (x, y))[0]
    assert "transposed=true" not in str(schedules(lambda x, y: (x * y).sum(1), (x, y.t().contiguous())))
    assert "transposed=true" not in str(schedules(lambda x, y: x @ y, (x[:3].contiguous(), y[:, :5].contiguous()[:300])))

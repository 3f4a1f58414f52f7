"""Sums of several tensors that lie differently, on a GPU: the numbers of every schedule, and of large tensors by the chosen one."""

import pytest
import torch
from checks import check, poison_memory
from joined_row_cases import PASSES
from on_gpu import on_hopper
from transposed_sum_cases import IMAGE_SIZES, IMAGES, SCHEDULES, SIZES, TABLES, choose, images, tables
from universal_program import compile_universal

import inferno

pytestmark = on_hopper
DTYPES = [torch.bfloat16, torch.float32]


def right(compiled, model, args):
    poison_memory()
    verdict = check(compiled, model, args)
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", TABLES)
def test_tables(name, schedule, size, dtype):
    torch.manual_seed(0)
    args = tables(size, dtype, "cuda")
    right(compile_universal(TABLES[name], args, args[0].device, "sm_90a", choose(schedule, []), passes=PASSES), TABLES[name], args)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", IMAGE_SIZES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", IMAGES)
def test_images(name, schedule, size, dtype):
    torch.manual_seed(0)
    args = images(size, dtype, "cuda")
    right(compile_universal(IMAGES[name], args, args[0].device, "sm_90a", choose(schedule, []), passes=PASSES), IMAGES[name], args)


@pytest.mark.parametrize("dtype", [torch.float16, *DTYPES], ids=str)
@pytest.mark.parametrize("name, size", [*((n, (2207, 1344)) for n in TABLES), *((n, (700, 3001)) for n in TABLES)])
def test_large_tables(name, size, dtype):
    torch.manual_seed(0)
    args = tables(size, dtype, "cuda")
    right(inferno.compile(TABLES[name], args), TABLES[name], args)


@pytest.mark.parametrize("dtype", [torch.float16, *DTYPES], ids=str)
@pytest.mark.parametrize("name, size", [*((n, (8, 96, 56, 56)) for n in IMAGES), *((n, (5, 33, 57, 41)) for n in IMAGES)])
def test_large_images(name, size, dtype):
    torch.manual_seed(0)
    args = images(size, dtype, "cuda")
    right(inferno.compile(IMAGES[name], args), IMAGES[name], args)

"""Sums over rows that are read as if several were one, on a GPU: the numbers of every schedule, of large tensors by the chosen one, and the same each time."""

import inspect

import pytest
import torch
from checks import assert_close_to_float64, check, poison_memory
from joined_row_cases import DEEP, INTEGERS, MODELS, PASSES, PLACES, SCHEDULES, SHAPES, SIZED, VARIANCES, choose, columns, pairs
from on_gpu import on_hopper
from torch.export import Dim
from universal_program import compile_universal

import inferno

pytestmark = on_hopper


def made(model, args, schedule, passes=PASSES):
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(schedule, found := []), passes=passes)
    assert any(s is not None and s.rows for s in found)
    poison_memory()
    return compiled


def numbers(model, shape, dtype):
    torch.manual_seed(0)
    return tuple(torch.randn(shape, device="cuda").to(dtype) for _ in inspect.signature(model).parameters)


def right(compiled, model, args):
    verdict = check(compiled, model, args)
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, schedule, shape, dtype):
    args = numbers(MODELS[name], shape, dtype)
    right(made(MODELS[name], args, schedule), MODELS[name], args)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, schedule, dtype):
    torch.manual_seed(0)
    x = (torch.randn(203, 23, device="cuda") * 4).to(dtype)
    found, expected = made(INTEGERS[name], (x,), schedule)(x), INTEGERS[name](x)
    for a, b in pairs(found, expected):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PLACES)
def test_places(name, schedule, dtype):
    torch.manual_seed(0)
    x = columns(11, 333, dtype)
    found, expected = made(PLACES[name], (x.cuda(),), schedule)(x.cuda()), PLACES[name](x)
    for a, b in pairs(found, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", DEEP)
def test_other_dimensions(name, schedule):
    model, shape = DEEP[name]
    args = numbers(model, shape, torch.bfloat16)
    right(made(model, args, schedule), model, args)


@pytest.mark.parametrize("width", [23, 6])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SIZED)
def test_sizes_that_vary(name, schedule, width):
    torch.manual_seed(0)
    x = torch.randn(300, width, device="cuda").half()
    compiled = compile_universal(SIZED[name], (x,), x.device, "sm_90a", choose(schedule, found := []), ({0: Dim.AUTO},), PASSES)
    assert any(s is not None and s.rows for s in found)
    for rows in (300, 2, 7, 8, 41, 1000):
        x = torch.randn(rows, width, device="cuda").half()
        assert_close_to_float64(compiled(x), SIZED[name], (x,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(1375950, 23), (2000003, 3), (300001, 45), (100003, 129)], ids=str)
@pytest.mark.parametrize("name", [*MODELS, *VARIANCES])
def test_large(name, shape, dtype):
    model = MODELS.get(name) or VARIANCES[name]
    args = tuple(x / 16 for x in numbers(model, shape, dtype))  # whose squares' sums float16 holds
    compiled = inferno.compile(model, args, fallback=False)
    poison_memory()
    right(compiled, model, args)
    for a, b in pairs(compiled(*args), compiled(*args)):
        assert torch.equal(a, b)

"""Sums over rows that are read as if several were one: their numbers on a simulated GPU, and which sums are."""

import inspect

import pytest
import torch
from checks import assert_close_to_float64, check
from joined_row_cases import DEEP, INTEGERS, MODELS, PASSES, PLACES, SCHEDULES, SHAPES, SIZED, TARGET, VARIANCES, choose, columns, pairs
from torch.export import Dim
from universal_program import SimulatedModel, assert_assembles

from inferno.capture import capture
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.reductions import reductions

F = torch.nn.functional


def simulated(model, args, schedule, passes=PASSES):
    found = []
    run = SimulatedModel(model, args, choose=choose(schedule, found), passes=passes)
    assert any(s is not None and s.rows for s in found)
    return run


def right(model, args, schedule, passes=PASSES):
    verdict = check(simulated(model, args, schedule, passes), model, args)
    assert verdict.right, str(verdict)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, schedule, shape, dtype):
    torch.manual_seed(0)
    right(MODELS[name], tuple(torch.randn(shape).to(dtype) for _ in inspect.signature(MODELS[name]).parameters), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("dtypes", [(torch.float64, torch.float64), (torch.float16, torch.float32), (torch.float32, torch.bfloat16)], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_other_types(schedule, dtypes):
    torch.manual_seed(0)
    right(lambda x, y: (x.abs() + y * x[:, :1]).amax(0), tuple(torch.randn(203, 23).to(d) for d in dtypes), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, schedule, dtype):
    torch.manual_seed(0)
    x = (torch.randn(203, 23) * 4).to(dtype)
    found, expected = simulated(INTEGERS[name], (x,), schedule)(x), INTEGERS[name](x)
    for a, b in pairs(found, expected):
        assert torch.equal(a, b)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PLACES)
def test_places(name, schedule, dtype):
    torch.manual_seed(0)
    x = columns(11, 333, dtype)
    found, expected = simulated(PLACES[name], (x,), schedule)(x), PLACES[name](x)
    for a, b in pairs(found, expected):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.covering
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", DEEP)
def test_other_dimensions(name, schedule):
    torch.manual_seed(0)
    model, shape = DEEP[name]
    right(model, tuple(torch.randn(shape).bfloat16() for _ in inspect.signature(model).parameters), schedule)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_map_that_is_given_back(schedule):
    torch.manual_seed(0)
    args = tuple(torch.randn(60011, 23).half() for _ in range(2))

    def model(x, y):
        z = F.silu(x) * y
        return z, z.sum(0)

    run = simulated(model, args, schedule)
    assert len({s.kernel.partition("::")[0] for s in run.program.plan.steps}) == 1
    verdict = check(run, model, args)
    assert verdict.right, str(verdict)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", VARIANCES)
def test_moments(name, dtype):
    torch.manual_seed(0)
    x = (torch.randn(9000, 23) * 3 + 1).to(dtype)
    right(VARIANCES[name], (x,), "all threads", "merge-variances{target=sm_90a},fuse-sum-maps{target=sm_90a}")


@pytest.mark.covering
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("width", [23, 6])
@pytest.mark.parametrize("name", SIZED)
def test_sizes_that_vary(name, width, schedule):
    torch.manual_seed(0)
    run = SimulatedModel(SIZED[name], (torch.randn(300, width).half(),), ({0: Dim.AUTO},), choose(schedule, found := []), passes=PASSES)
    assert any(s is not None and s.rows for s in found)
    for rows in (300, 2, 7, 8, 41, 1000):
        x = torch.randn(rows, width).half()
        assert_close_to_float64(run(x), SIZED[name], (x,))


def picked(function, *shape, dtype=torch.float16, sizes=None, passes="inferno-fuse"):
    """The schedule of a function's kernel."""
    linalg, _ = jobs.lower_to_linalg(capture(function, (torch.empty(shape, dtype=dtype, device="meta"),), dynamic_shapes=sizes).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, passes)
        (kernel,) = kernels(module)
        return reductions.planned(kernel, TARGET)[1]


@pytest.mark.covering
@pytest.mark.parametrize("width, dtype, across, vector", [
    (23, torch.float16, 23, 8), (3, torch.bfloat16, 3, 8), (18, torch.float16, 9, 8), (45, torch.float32, 45, 4), (100, torch.bfloat16, 25, 8),
    (7, torch.int8, 7, 8), (5, torch.float64, 5, 2),
])
def test_what_is_joined(width, dtype, across, vector):
    s = picked(lambda x: x.sum(0), 1000003, width, dtype=dtype)
    assert (s.across, s.vector, s.rows * width) == (across, vector, across * vector) and 400 <= s.threads <= 512 and 140 < s.chunks <= 264
    assert s == picked(lambda x: x.sum(0), 1000003, width, dtype=dtype, sizes=({0: Dim.AUTO},))


@pytest.mark.parametrize("model, shape", [
    (lambda x: x.sum(0), (1 << 20, 32)), (lambda x: x.sum(0), (1 << 16, 1001)), (lambda x: x.sum(0), (1000, 23)), (lambda x: x[1:].sum(0), (1 << 20, 23)),
    (lambda x: x[:, :7].sum(0), (1 << 20, 23)), (lambda x: x.sum(1), (1 << 20, 23)), (lambda x: x.t().sum(1), (23, 1 << 20)),
])
def test_what_is_not(model, shape):
    assert not picked(model, *shape).rows


def test_more_sums_than_registers_have_room_for_are_not():
    """Of float64, together in one kernel, of one lane each."""
    s = picked(lambda x: tuple((x * i + i).relu().sum(0) for i in range(1, 12)), 300000, 23, dtype=torch.float64, passes=f"inferno-fuse,{PASSES}")
    assert s.vector == 1 and not s.rows


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["sum", "largest of a chain", "softmax"])
def test_assembles(name):
    torch.manual_seed(0)
    args = tuple(torch.randn(203, 23).half() for _ in inspect.signature(MODELS[name]).parameters)
    assert_assembles(simulated(MODELS[name], args, "one at once").program.gpu, TARGET)

"""Scans in kernels that go over rows: their numbers on a simulated GPU with every kind of schedule, and which scans become part of such kernels."""

import pytest
import torch
from checks import check
from row_scan_cases import CASES, PASSES, SCHEDULES, choose, norm_and_largest, top_p, twice
from universal_program import SimulatedModel, assert_assembles

from inferno.capture import capture
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.target import find_target

TARGET = find_target("sm_90a")
randn, bf16 = torch.randn, torch.bfloat16


def right(model, args, change=()):
    used = []
    simulated = SimulatedModel(model, args, choose=choose(dict(change), used), passes=PASSES)
    assert len(simulated.program.plan.steps) == len(used) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)
    return used[0]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    right(model, make())


PARTS = {
    "begin": lambda x: x[:, :37].cumsum(-1), "odd": lambda x: x[:, 3:40].cumsum(-1), "aligned": lambda x: x[2:, 16:48].cumsum(-1),
    "of a softmax": lambda x: torch.softmax(x, -1)[:, :21].cumsum(-1), "every other": lambda x: x[:, 1::2].cumsum(-1),
    "and what follows": lambda x: torch.softmax((x[:, 5:60] * 2)[:, :51].cumsum(-1) / 51, -1),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("dtype", [torch.float32, bf16])
@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read_in_place(name, dtype):
    torch.manual_seed(0)
    model, args = PARTS[name], (randn(5, 64).to(dtype),)
    simulated = SimulatedModel(
        model, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a},fold-slices{target=sm_90a},fuse-scans{target=sm_90a}")
    assert len(simulated.program.plan.steps) == (2 if name == "of a softmax" else 1)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
@pytest.mark.parametrize("model, dtype", [(twice, torch.float32), (top_p, bf16), (twice, torch.int64)])
def test_schedules(model, dtype, schedule):
    torch.manual_seed(0)
    x = torch.randint(-9, 9, (5, 200)) * 8.0 if dtype == torch.int64 else randn(5, 200).to(dtype)
    right(model, (x,), SCHEDULES[schedule])


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("columns, dtype, schedule", [
    (1001, torch.float32, {"threads": 64, "across": 64}), (1003, bf16, {"threads": 64, "across": 32, "packed": True}), (771, bf16, {"packed": False}),
    (1003, torch.float32, {"threads": 64, "across": 64, "cluster": 2, "sends": True}),
])
def test_rows_that_begin_anywhere(columns, dtype, schedule):
    """What a vector has of the row in front is no part of a running value."""
    torch.manual_seed(0)
    args = 100 + randn(5, columns).to(dtype), randn(columns).to(dtype)
    assert right(norm_and_largest, args, schedule).ragged


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 3 * 2**-24), (bf16, 1.01 * 2**-8)])
def test_long_rows(dtype, bound):
    """Of 16000 terms of one sign running values are off by no more than the last roundings: the lanes of a float32 row meet in float64, of a bf16 row in
    float32."""
    torch.manual_seed(0)
    x = torch.rand(2, 16000).to(dtype)
    simulated = SimulatedModel(lambda x: (x + x.amin(-1, keepdim=True)).cumsum(-1), (x,), choose=choose({}), passes=PASSES)
    (ours,) = torch.utils._pytree.tree_leaves(simulated(x))
    exact = (x + x.amin(-1, keepdim=True)).double().cumsum(-1)
    assert ((ours.double() - exact).abs() / exact).max() < bound


def test_not_a_number_and_infinity():
    """They reach what lies behind them, of their row alone."""
    x = torch.zeros(4, 600)
    x[0, 7], x[1, 300], x[2, 599] = torch.nan, torch.inf, -torch.inf
    model = lambda x: (x.cumsum(-1) + 1).cumsum(-1)  # noqa: E731
    simulated = SimulatedModel(model, (x,), choose=choose({}), passes=PASSES)
    (ours,) = torch.utils._pytree.tree_leaves(simulated(x))
    assert torch.equal(ours.isnan(), model(x).isnan()) and torch.equal(ours.nan_to_num(), model(x).nan_to_num())


def generators(model, *args):
    """Of the kernels that a program becomes, in order."""
    linalg, _ = jobs.lower_to_linalg(capture(model, args).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,fuse-reductions{target=sm_90a},fuse-scans{target=sm_90a}")
        return [assign.choose(k, TARGET).generator for k in kernels(module)]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model, shapes, dtype, found", [
    (top_p, [(512, 4096)], torch.float32, ["rows"]),
    (top_p, [(512, 2001)], bf16, ["rows"]),
    (lambda x: (x * 2).cumsum(-1) + 1, [(512, 4096)], torch.float32, ["scans"]),  # what has only maps beside it
    (lambda x: x.flip(-1).cumsum(-1) * x, [(512, 4096)], torch.float32, ["rows"]),  # maps that pick elements, which `scans` do not take
    (top_p, [(64, 100000)], torch.float32, ["rows"]),  # by a cluster of blocks
    (top_p, [(64, 400000)], torch.float32, ["rows", "scans"]),  # rows that none holds
    (lambda x: torch.softmax(x, -1).cumsum(0), [(512, 512)], torch.float32, ["rows", "scans"]),  # of other rows
])
def test_what_becomes_one_kernel(model, shapes, dtype, found):
    assert generators(model, *(torch.empty(s, dtype=dtype, device="meta") for s in shapes)) == found


@pytest.mark.covering
@pytest.mark.parametrize("name, schedule", [("softmax bf16", "chosen"), ("two, one behind the other", "warps"), ("sums of exponentials", "a warp")])
def test_assembles(name, schedule):
    model, make = CASES[name]
    assert_assembles(SimulatedModel(model, make(), choose=choose(SCHEDULES[schedule]), passes=PASSES).program.gpu, TARGET)


@pytest.mark.parametrize("change", [{"held": False}, {"threads": 64, "across": 64, "cluster": 2, "sends": False}])
def test_schedules_that_do_not_fit(change):
    with pytest.raises(CompileError, match="scans no rows"):
        SimulatedModel(top_p, (randn(5, 300),), choose=choose(change), passes=PASSES)

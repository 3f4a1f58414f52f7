"""Sorts and selections: what they give on a simulated GPU, that their kernels assemble, and which schedules they get."""

import pytest
import torch
from sort_cases import CASES, PASSES, choose, numbers, sort
from universal_program import SimulatedModel, assert_assembles

import inferno
from inferno.codegen.sort_keys import network
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.select import Select, pick
from inferno.schedule.sort_kernel import SortKernel
from inferno.schedule.sorts import Sorts
from inferno.target import find_target


def same(found, wanted) -> bool:
    """Equal, NaN with NaN."""
    pairs = zip(*((x,) if isinstance(x, torch.Tensor) else tuple(x) for x in (found, wanted)), strict=True)
    return all(a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in pairs)


@pytest.mark.covering(most=5)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make, schedule, launches = CASES[name]
    x = make()
    simulated = SimulatedModel(model, (x,), choose=choose(schedule), passes=PASSES)
    assert len(simulated.program.plan.steps) == launches
    assert same(simulated(x), model(x))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["sort f64 along the middle", "merged", "select by warps", "select many", "select of parts", "kthvalue in the middle"])
def test_assembles(name):
    model, make, schedule, _ = CASES[name]
    assert_assembles(SimulatedModel(model, (make(),), choose=choose(schedule), passes=PASSES).program.gpu, find_target("sm_90a"))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["sort", "sort bf16 along the first", "sort f64 along the middle", "sort i64", "select many", "kthvalue in the middle"])
def test_on_the_cpu(name):
    """Where all is compiled, sorts are merged as well."""
    torch.manual_seed(0)
    model, make, _, _ = CASES[name]
    x = make()
    assert same(inferno.compile(model, (x,), fallback=False)(x), model(x))


def test_bits_of_numbers_stay():
    """Zeros keep their signs, and NaN its bits."""
    x = numbers(3, 200)
    found = SimulatedModel(sort(), (x,), choose=choose(), passes=PASSES)(x)[0]
    assert torch.equal(found.view(torch.int32), x.gather(-1, torch.sort(x, stable=True)[1]).view(torch.int32))


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("count", range(1, 17))
def test_networks_sort(count):
    """By the principle of zeros and ones: what sorts all rows of these sorts any."""
    rows = torch.arange(1 << count).unsqueeze(1).bitwise_right_shift(torch.arange(count)) & 1
    for low, high in network(count):
        rows[:, low], rows[:, high] = rows[:, [low, high]].amin(1), rows[:, [low, high]].amax(1)
    assert (rows.diff(dim=1) >= 0).all()


@pytest.mark.parametrize("schedule", [Sorts(96, 8), Sorts(64, 32), Select(128, 64, 4, 64), Select(128, 128, 4, 8)])
def test_schedules_that_do_not_fit(schedule):
    with pytest.raises(CompileError):
        SimulatedModel(lambda x: x.topk(6, -1), (torch.randn(4, 9),), choose=choose(schedule), passes=PASSES)


@pytest.mark.parametrize("length, begin, count, wanted", [
    (32, 0, 8, None), (256, 0, 8, Select(128, 32, 8, 64)), (1024, 0, 8, Select(64, 64, 16, 64)), (1024, 0, 64, Select(128, 128, 8, 128)),
    (8192, 0, 100, Select(256, 256, 32, 256)),
    (1 << 20, 0, 8, Select(256, 256, 32, 64)), (1 << 20, 500, 1, None), (4096, 0, 4096, None), (8192, 4000, 1, Select(256, 256, 32, 64)),
])
def test_picks(length, begin, count, wanted):
    with idle_context(), ir.Location.unknown():
        assert pick(SortKernel(0, (4, length), 1, ir.F32Type.get(), False, begin, count, ())) == wanted

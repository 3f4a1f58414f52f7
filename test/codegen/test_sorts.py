"""Sorts and selections: what they give on a simulated GPU, that their kernels assemble, and which schedules they get."""

import re

import pytest
import torch
from sort_cases import CASES, OF_ANY_NUMBER, PASSES, choose, numbers, other_rows, sort, values
from torch.export import Dim
from universal_program import SimulatedModel, assert_assembles

import inferno
from inferno.codegen.sorts.keys import network
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.schedule.sorts import short_sorts
from inferno.schedule.sorts.kernel import Kept, SortKernel
from inferno.schedule.sorts.select import Select, pick
from inferno.schedule.sorts.short_sorts import ShortSorts
from inferno.schedule.sorts.sorts import Sorts
from inferno.symbolic import Symbol, size_of
from inferno.target import find_target


def same(found, wanted) -> bool:
    """Equal, NaN with NaN."""
    pairs = zip(*((x,) if isinstance(x, torch.Tensor) else tuple(x) for x in (found, wanted)), strict=True)
    return all(a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in pairs)


@pytest.mark.covering(most=5, also=lambda name: name == "kthvalue in the middle")
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make, schedule, launches = CASES[name]
    x = make()
    simulated = SimulatedModel(model, (x,), choose=choose(schedule), passes=PASSES)
    assert len(simulated.program.plan.steps) == launches
    assert same(simulated(x), model(x))


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", OF_ANY_NUMBER)
def test_any_number_of_rows(name):
    torch.manual_seed(0)
    model, make, schedule, launches = CASES[name]
    x = make()
    simulated = SimulatedModel(model, (x,), ({0: Dim("n", min=2, max=1 << 20)},), choose=choose(schedule), passes=PASSES)
    assert len(simulated.program.plan.steps) == launches
    for other in (x, *other_rows(x)):
        assert same(simulated(other), model(other)), other.shape


def test_rows_of_any_number_that_are_merged_are_refused():
    c = SortKernel(0, (size_of(Symbol("n", 2, hint=4)), 9000), 1, None, True, 0, 9000, ())
    assert c.rows == size_of(Symbol("n", 2, hint=4)) and c.example.rows == 4
    with pytest.raises(CompileError, match="merges tiles of rows, whose number varies"):
        SimulatedModel(sort(), (numbers(4, 9000),), ({0: Dim("n", min=2, max=64)},), choose=choose(Sorts(128, 8)), passes=PASSES)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["sort f64 along the middle", "merged", "select by warps", "select many", "select of parts", "kthvalue in the middle",
                                  "short rows of 31 f64", "values of rows of 17", "values of short columns", "short rows between others"])
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
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("schedule", [ShortSorts(32, 1), ShortSorts(64, 2)])
def test_values_alone_stay_the_same(schedule, dtype, descending):
    """Zeros of both signs are in the order in which they were, and every NaN is there."""
    x = numbers(301, 9, dtype=dtype)
    found, wanted = SimulatedModel(values(-1, descending), (x,), choose=choose(schedule), passes=PASSES)(x), values(-1, descending)(x)
    assert same(found, wanted)
    assert torch.equal(torch.signbit(found) & (found == 0), torch.signbit(wanted) & (wanted == 0))
    if dtype != torch.bfloat16:  # of which the simulator has but one NaN
        assert torch.equal((torch.signbit(found) & found.isnan()).sum(-1), (torch.signbit(wanted) & wanted.isnan()).sum(-1))


def test_short_rows_without_places():
    """Elements are compared alone, two of 16 bits at a time, and memory is read by vectors."""
    for dtype, smaller in ((torch.float32, "min.s32"), (torch.bfloat16, "min.s16x2")):
        compiled = inferno.compile(lambda x: x.sort(-1)[0], (torch.randn(1 << 14, 8).to(dtype),), target="sm_90a", fallback=False)
        (row,) = compiled.explain().rows
        ptx = compiled.ir("ptx")
        assert row.generator == "short_sorts" and ptx.count(smaller) >= 19 and "min.u64" not in ptx
        assert re.findall(r"(?:ld|st)\.global\S*", ptx) and all(".v4." in x for x in re.findall(r"(?:ld|st)\.global\S*", ptx))


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("count", range(1, 17))
def test_networks_sort(count):
    """By the principle of zeros and ones: what sorts all rows of these sorts any."""
    rows = torch.arange(1 << count).unsqueeze(1).bitwise_right_shift(torch.arange(count)) & 1
    for low, high in network(count):
        rows[:, low], rows[:, high] = rows[:, [low, high]].amin(1), rows[:, [low, high]].amax(1)
    assert (rows.diff(dim=1) >= 0).all()


def test_longer_networks_sort():
    torch.manual_seed(0)
    for count in range(17, 33):
        rows = (torch.rand(5000, count) < torch.rand(5000, 1)).to(torch.int8)
        for low, high in network(count):
            rows[:, low], rows[:, high] = rows[:, [low, high]].amin(1), rows[:, [low, high]].amax(1)
        assert (rows.diff(dim=1) >= 0).all()


@pytest.mark.parametrize("schedule", [Sorts(96, 8), Sorts(64, 32), Select(128, 64, 4, 64), Select(128, 128, 4, 8), ShortSorts(96, 2, True), ShortSorts(80, 2)])
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


@pytest.mark.parametrize("shape, dim, type_, places, wanted", [
    ((1 << 21, 8), 1, "f32", False, ShortSorts(128, 1)),
    ((1 << 21, 8), 1, "bf16", False, ShortSorts(128, 2)),
    ((1 << 21, 8), 1, "bf16", True, ShortSorts(128, 1)),
    ((1 << 21, 2), 1, "f32", False, ShortSorts(256, 2)),
    ((1 << 13, 8), 1, "f32", False, ShortSorts(32, 1)),
    ((1 << 21, 17), 1, "bf16", False, ShortSorts(128, 2)),
    ((1 << 21, 32), 1, "f64", True, ShortSorts(64, 1)),
    ((1 << 21, 33), 1, "f32", False, None),
    ((1 << 13, 32), 1, "f32", False, None),
    ((1 << 13, 12), 1, "f32", True, ShortSorts(32, 1)),
    ((8, 1 << 21), 0, "bf16", False, ShortSorts(128, 8, True)),
    ((8, 1 << 21), 0, "f32", True, ShortSorts(128, 2, True)),
    ((1 << 16, 8, 3), 1, "f32", False, ShortSorts(128, 3)),
    ((1 << 16, 8, 33), 1, "f32", False, ShortSorts(128, 1, True)),
])
def test_picks_of_short_rows(shape, dim, type_, places, wanted):
    with idle_context(), ir.Location.unknown():
        c = SortKernel(0, shape, dim, ir.Type.parse(type_), False, 0, shape[dim], (Kept(1, places),))
        assert short_sorts.pick(c) == wanted and (wanted is None or wanted.fits(c))

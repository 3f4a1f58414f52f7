"""Kernels whose blocks have a part of each row: their numbers on a simulated GPU, how they are launched, and which programs they are chosen for."""

from types import SimpleNamespace

import pytest
import torch
from checks import check
from row_kernel_cases import GRIDS, PASSES, RAGGED, choose_grid, layer_norm, residual_norm, softmax
from universal_program import SimulatedModel, assert_assembles

from inferno.capture import capture
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import FEW, UNMEASURED
from inferno.runtime.device import features
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target

TARGET = find_target("sm_90a")
randn, bf16 = torch.randn, torch.bfloat16

CASES = {
    "softmax": lambda: (softmax, (randn(7, 1284),)),
    "softmax, gradient": lambda: (
        lambda g, y: torch.ops.aten._softmax_backward_data(g, torch.softmax(y, -1), -1, y.dtype), (randn(4, 1280), randn(4, 1280))),
    "log_softmax bf16": lambda: (lambda x: torch.log_softmax(x, -1), (randn(5, 2600).to(bf16),)),
    "softmax in float32": lambda: (  # or wider: what it is held against is float64
        lambda x: torch.softmax(x.to(torch.promote_types(x.dtype, torch.float32)), -1), (randn(3, 5120).half(),)),
    "layer_norm": lambda: (layer_norm, (randn(6, 1300), randn(1300), randn(1300))),
    "layer_norm and statistics": lambda: (
        lambda x, w: torch.ops.aten.native_layer_norm(x, w.shape, w, None, 1e-5), (randn(2, 3, 1300), randn(1300))),
    "residual and rms_norm": lambda: (residual_norm, (randn(5, 2608).to(bf16), randn(5, 2608).to(bf16), randn(2608).to(bf16))),
    "a row": lambda: (softmax, (randn(1, 3000),)),
    "integers": lambda: (lambda x: (x - x.amin(-1, keepdim=True)) * x.sum(-1, keepdim=True), (torch.randint(-9, 9, (4, 1280), dtype=torch.int32),)),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name, schedule", [
    *((name, "one group") for name in CASES), ("softmax", "groups"), ("layer_norm", "groups"), ("residual and rms_norm", "many blocks"),
])
def test_right(name, schedule):
    torch.manual_seed(0)
    model, args = CASES[name]()
    simulated = SimulatedModel(model, args, choose=choose_grid(GRIDS[schedule]), passes=PASSES)
    clearing, launch = simulated.program.plan.steps
    change = GRIDS[schedule]
    assert launch.cooperative and not clearing.cooperative and launch.grid[0] == change["share"] * change.get("groups", 1)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["softmax f32", "layer_norm", "residual and rms_norm"])
@pytest.mark.parametrize("columns", [1283, 2049])
def test_rows_that_begin_anywhere(name, columns):
    """With weights those of a group begin at the same place."""
    torch.manual_seed(0)
    model, args = RAGGED[name](columns)
    groups = {"layer_norm": 4, "residual and rms_norm": 8}.get(name, 1)
    args = tuple(a.repeat(2, 1) if a.dim() == 2 else a for a in args)
    change = {"threads": 32, "share": 3, "groups": groups, "ahead": 2, "ragged": True}
    found = check(SimulatedModel(model, args, choose=choose_grid(change), passes=PASSES), model, args)
    assert found.right, str(found)
    with pytest.raises(CompileError, match="does not fit"):
        SimulatedModel(model, args, choose=choose_grid({**change, "groups": groups + 1 if groups > 1 else 99}), passes=PASSES)


def test_rows_with_infinite_points():
    torch.manual_seed(0)
    x = randn(7, 1280) * 30
    x[0, 5], x[1, 1270], x[2, 3], x[3], x[4] = torch.nan, torch.inf, -torch.inf, -torch.inf, x[4] * 1e5
    for model in (softmax, lambda x: torch.log_softmax(x, -1)):
        for given in (x, x.to(bf16)):
            simulated = SimulatedModel(model, (given,), choose=choose_grid(GRIDS["one group"]), passes=PASSES)
            torch.testing.assert_close(simulated(given), model(given.double()).to(given.dtype), equal_nan=True)


@pytest.mark.parametrize("change", [{"lag": 1}, {"share": 133}, {"ahead": 500}, {"groups": 9}, {"threads": 1000}])
def test_what_does_not_fit(change):
    with pytest.raises(CompileError, match="does not fit 7 rows of 1284"):
        SimulatedModel(softmax, CASES["softmax"]()[1], choose=choose_grid({**GRIDS["one group"], **change}), passes=PASSES)


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_assembles(name):
    model, args = CASES[name]()
    assert_assembles(SimulatedModel(model, args, choose=choose_grid(GRIDS["many blocks"]), passes=PASSES).program.gpu, TARGET)


def chosen(model, *args, few=False, unmeasured=False):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(jobs.lower_to_linalg(capture(model, args).text)[0])
        for name in [*[UNMEASURED] * unmeasured, *[FEW] * few]:
            module.operation.attributes[name] = ir.UnitAttr.get()
        run_pipeline(module, "inferno-fuse,inferno-schedule{target=sm_90a}")
        return [from_attribute(k.attributes[ATTRIBUTE]) for k in kernels(module)]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model, rows, columns, dtype, weights, grid", [
    (softmax, 64, 1 << 20, torch.float32, 0, (132, 1)), (layer_norm, 128, 1 << 20, bf16, 2, (132, 1)), (softmax, 128, 1 << 20, bf16, 0, (66, 2)),
    (layer_norm, 1336, 50257, torch.float32, 2, (11, 12)), (layer_norm, 3355, 20011, torch.float32, 2, None), (layer_norm, 2671, 50257, bf16, 2, None),
    (softmax, 64, 1 << 20 | 1, torch.float32, 0, (132, 1)), (softmax, 64, 1 << 15, torch.float32, 0, None), (softmax, 512, 1 << 17, torch.float32, 0, None),
])
def test_chosen_for_long_rows(model, rows, columns, dtype, weights, grid):
    x, w = torch.empty(rows, columns, dtype=dtype, device="meta"), torch.empty(columns, dtype=dtype, device="meta")
    found = chosen(model, x, *[w] * weights)
    shapes = [(s.share, s.groups) for s in found if s.generator == "grid_rows"]
    assert shapes == ([] if grid is None else [grid]) and (grid is None or len(found) == 1)


def test_not_chosen_where_a_gpu_has_fewer_multiprocessors(monkeypatch):
    assert [s.generator for s in chosen(softmax, torch.empty(64, 1 << 20, device="meta"), few=True)] == ["rows"]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for count, named in (132, False), (114, True):
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i, n=count: SimpleNamespace(major=9, minor=0, multi_processor_count=n))
        assert ("few_multiprocessors" in features()) == named


def rms_norm(x, w):
    return torch.nn.functional.rms_norm(x, x.shape[1:], w)


def test_weights_of_16_bits_are_read_by_every_row():
    """Which clusters that go over all rows do not hide: a softmax of as many is theirs."""
    x, w = torch.empty(512, 1 << 18, dtype=bf16, device="meta"), torch.empty(1 << 18, dtype=bf16, device="meta")
    assert [s.generator for s in chosen(rms_norm, x, w)] == ["grid_rows"] and [s.generator for s in chosen(softmax, x)] == ["rows"]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model, rows, columns, dtype, weights, expected", [
    (softmax, 4, 1 << 20, torch.float32, 0, True), (softmax, 1, 1 << 17, torch.float32, 0, True), (softmax, 2, 1 << 18, bf16, 0, True),
    (softmax, 8, 1 << 19, bf16, 0, True), (layer_norm, 1, 1 << 19, torch.float32, 2, False), (layer_norm, 4, 1 << 19, bf16, 2, True),
    (softmax, 4, 1 << 17, torch.float32, 0, False), (softmax, 4, 1 << 18, bf16, 0, False), (softmax, 1, 1 << 16, torch.float32, 0, False),
    (layer_norm, 2, 1 << 19, torch.float32, 2, False), (layer_norm, 1, 1 << 17, bf16, 2, False), (rms_norm, 2, 1 << 20, torch.float32, 1, False),
])
def test_chosen_for_few_rows(model, rows, columns, dtype, weights, expected):
    x, w = torch.empty(rows, columns, dtype=dtype, device="meta"), torch.empty(columns, dtype=dtype, device="meta")
    generators = [s.generator for s in chosen(model, x, *[w] * weights)]
    assert ("grid_rows" in generators) == expected and (not expected or len(generators) == 1)


def test_what_was_not_timed_is_chosen_where_that_is_asked_for():
    x = torch.empty(7, 1 << 20, device="meta")
    found = ["grid_rows" in [s.generator for s in chosen(softmax, x, unmeasured=u)] for u in (False, True)]
    assert found == [False, True]

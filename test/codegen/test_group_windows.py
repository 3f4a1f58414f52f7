"""Convolutions in groups on tensor cores: their numbers on a simulated GPU, also of its warps and banks, and what the kernels are made of."""

import random
from dataclasses import replace

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET, build
from universal_program import Simulated
from window_cases import GROUPS, Case, parsed

import inferno
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.convolution import group_windows
from inferno.schedule.convolution.group_windows import GroupWindows


def check(case, schedule, early=False):
    torch.manual_seed(0)
    inputs = case.inputs()
    found = case.result(Simulated(case.text(), lambda kernel: schedule, early)(*case.arguments(*inputs))[0])
    assert_close_to_float64(found, case.eager, tuple(inputs))


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_right(name, seed):
    k = parsed(GROUPS[name], group_windows)
    assert k is not None
    schedule = random.Random(seed).choice(list(group_windows.schedules(k, TARGET)))
    check(GROUPS[name], schedule, early=seed == 1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [
    GroupWindows(1, 9, 10, 1, 24, 2), GroupWindows(3, 9, 10, 2, 24, 6), GroupWindows(2, 9, 10, 2, 8, 2), GroupWindows(1, 4, 7, 1, 8, 1),
    GroupWindows(2, 9, 10, 2, 24, 5, 2), GroupWindows(1, 4, 7, 2, 8, 1, 2),
])
def test_tiles_that_end_outside(schedule):
    check(GROUPS["24 of 24"], schedule)


def test_an_odd_number_of_features_is_left_alone():
    """Two neighbours are written together, which the last one of a pixel would not have."""
    assert parsed(Case((2, 24, 9, 10), (3, 24, 3, 3), padding=1, inner=True), group_windows) is None
    assert parsed(Case((2, 72, 9, 10), (9, 24, 3, 3), padding=1, inner=True), group_windows) is None
    check(Case((1, 48, 6, 6), (6, 24, 3, 3), padding=1, inner=True), GroupWindows(1, 2, 3, 1, 8, 2))


def test_rows_of_a_window_by_a_loop():
    """Of an odd number of pieces, so that each row of the window ends with one of zeros."""
    case, schedule = Case((1, 80, 12, 12), (40, 40, 3, 3), padding=1, inner=True), GroupWindows(1, 12, 12, 1, 40, 2)
    assert schedule.turns(parsed(case, group_windows)) == 3
    check(case, schedule)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("stride, dilation", [(2, 1), (2, 2), (3, 2)])
def test_rows_of_a_window_by_a_loop_with_a_stride(stride, dilation):
    """Rows of a tile that a stride is between lie side by side, so that those of a window do not follow each other."""
    case = Case((1, 160, 11, 12), (20, 80, 3, 3), stride, dilation, dilation, inner=True)
    schedule = next(s for s in group_windows.schedules(parsed(case, group_windows), TARGET) if s.turns(parsed(case, group_windows)) == 3)
    check(case, schedule)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("number", [float("inf"), float("nan")])
@pytest.mark.parametrize("name, schedule", [
    ("24 of 24", GroupWindows(1, 9, 10, 1, 24, 2)), ("24 of 24", GroupWindows(1, 9, 10, 2, 24, 2)), ("24 of 24", GroupWindows(1, 9, 10, 2, 24, 2, 2)),
    ("4 of 4", GroupWindows(1, 9, 10, 4, 8, 2, 4)), ("12 of 12, dilated", GroupWindows(1, 9, 8, 1, 24, 2)),
    ("2 of 1, 5x5 by 2", GroupWindows(1, 5, 6, 2, 16, 2, 2)),
])
def test_what_is_not_finite_stays_in_its_group(number, name, schedule):
    case = replace(GROUPS[name], epilogue=False)
    inputs = case.inputs()
    inputs[0][1, 30, 5, 4] = number
    inputs[1][3, 0, 1, 1] = number
    found = case.result(Simulated(case.text(), lambda kernel: schedule)(*case.arguments(*inputs))[0])
    wanted = case.eager(*inputs)
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf()) and (~wanted.isfinite()).sum() > 10


def test_products_and_addresses_are_all_there_is_in_a_step():
    built = build(Case((32, 96, 14, 14), (24, 24, 3, 3), padding=1, inner=True).text(main=False), "group_windows", GroupWindows(1, 14, 14, 1, 24, 4))
    assert built.count(r"mma\.sync") == 14 * 4 * 3  # of 27 pieces, 4 tiles and 24 features
    assert built.count("ldmatrix") == 14 * (4 + 2)
    if built.resources:
        assert built.resources.spills == built.resources.stack == 0


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("case, generator", [
    (Case((32, 336, 14, 14), (24, 24, 3, 3), padding=1, inner=True), "GroupWindows"),
    (Case((16, 512, 14, 14), (256, 256, 3, 3), padding=1, inner=True), "NoneType"),  # tiles of as many channels are faster
    (Case((32, 512, 14, 14), (64, 64, 3, 3), padding=1, inner=True), "NoneType"),
    (Case((32, 512, 14, 14), (16, 16, 3, 3), padding=1, inner=True), "GroupWindows"),
    (Case((32, 64, 56, 56), (32, 32, 3, 3), padding=1, inner=True), "GroupWindows"),
    (Case((32, 128, 56, 56), (4, 4, 3, 3), padding=1, inner=True), "GroupWindows"),  # CUDA cores took 127 us, this 29
    (Case((32, 48, 56, 56), (2, 1, 7, 7), 2, 3, inner=True), "GroupWindows"),
    (Case((32, 120, 28, 28), (12, 12, 3, 3), padding=1, inner=True), "GroupWindows"),
    (Case((32, 18, 56, 56), (18, 18, 3, 3), padding=1, inner=True), "GroupWindows"),
    (Case((32, 96, 28, 28), (2, 2, 3, 3), padding=1, inner=True), "GroupWindows"),  # CUDA cores took 5 times as long
    (Case((32, 64, 28, 28), (32, 64, 3, 3), padding=1, inner=True), "NoneType"),  # one group of whole pieces
])
def test_chosen_where_it_is_faster(case, generator):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(case.text(main=False))
        assert type(group_windows.choose(kernels(module)[0], TARGET)).__name__ == generator


@pytest.mark.parametrize("case", [
    Case((2, 48, 14, 14), (24, 24, 3, 3), padding=1, element="f32", inner=True),
    Case((2, 48, 14, 14), (24, 24, 3, 3), padding=1, last=False),
    Case((2, 48, 14, 14), (24, 24, 3, 3), padding=1),  # features innermost
    Case((2, 12, 14, 14), (3, 3, 3, 3), padding=1, inner=True),  # channels of 2 bytes
    Case((1, 32, 5, 6, 7), (16, 16, 3, 3, 3), padding=1, inner=True),
])
def test_others_are_left_to_others(case):
    assert parsed(case, group_windows) is None


def test_schedules_that_do_not_fit():
    with pytest.raises(CompileError, match=r"^@\w+ is not an? .* computes$"):
        build(GROUPS["24 of 24"].text(main=False), "group_windows", GroupWindows(1, 9, 10, 4, 24, 4))


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("stride", [1, 2])
def test_a_layer_is_one_kernel(stride):
    """The image's padding, bias, batch norm and activation are in it; what is made of batch norm's vectors alone is a small one."""
    model = torch.nn.Sequential(torch.nn.Conv2d(336, 336, 3, stride, 1, groups=14), torch.nn.BatchNorm2d(336), torch.nn.SiLU()).eval().bfloat16()
    x = torch.randn(32, 336, 28, 28).bfloat16().to(memory_format=torch.channels_last)
    rows = inferno.compile(model.to(memory_format=torch.channels_last), (x,), target="sm_90a").explain().rows
    large = [r for r in rows if r.bytes > 1e6]
    assert [r.generator for r in large] == ["group_windows"] and large[0].spills == 0

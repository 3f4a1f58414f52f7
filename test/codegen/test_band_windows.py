"""Depthwise convolutions on tensor cores: their numbers on a simulated GPU, also of its warps and banks, and what the kernels are made of."""

import random

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET, build, choose
from universal_program import Simulated
from window_cases import BANDS, NAMED, Case, parsed

from inferno.errors import CompileError
from inferno.schedule.convolution import band_windows
from inferno.schedule.convolution.band_windows import BandWindows


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", BANDS)
def test_right(name):
    def chosen(kernel):
        c = band_windows.read(kernel, TARGET)
        assert c is not None
        return random.Random(name).choice(list(band_windows.schedules(c)))

    case = BANDS[name]
    inputs = case.inputs()
    found = case.result(Simulated(case.text(), chosen)(*case.arguments(*inputs))[0])
    assert_close_to_float64(found, case.eager, tuple(inputs))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_windows(number):
    """Beside a window elements are multiplied by zeros of the band."""
    case = BANDS["7x7"]
    inputs = case.inputs()
    inputs[0][1, 5, 4, 3] = number
    found = case.result(Simulated(case.text(), lambda kernel: BandWindows(4, 5))(*case.arguments(*inputs))[0])
    wanted = case.eager(*inputs)
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf()) and (~wanted.isfinite()).sum() > 10
    assert_close_to_float64(found[0], lambda *x: case.eager(*x)[0], tuple(inputs))


@pytest.mark.parametrize("own", [2, 4])
def test_every_product_of_a_row_is_one_instruction(own):
    built = build(Case((8, 96, 28, 28), (1, 1, 7, 7), padding=3).text(main=False), "band_windows", BandWindows(own, 14))
    assert built.count(r"mma\.sync") == 7 * own  # of each channel, a row of the window each, in one loop
    assert built.count(rf"st\.shared\.v{own}") == 4 and built.count(r"st\.global\.v4") == own // 2
    if built.resources:
        assert built.resources.spills == built.resources.stack == 0


def test_chosen_for_large_windows_alone():
    large, text = Case((32, 96, 56, 56), (1, 1, 7, 7), padding=3), NAMED["3x3"].text(main=False)
    assert isinstance(choose(large.text(main=False), "band_windows"), BandWindows)
    assert choose(text, "band_windows") is None and choose(text, "windows") is not None


@pytest.mark.parametrize("case", [
    Case((2, 64, 14, 14), (1, 1, 7, 7), padding=3, element="f32"),
    Case((2, 64, 14, 14), (1, 1, 7, 7), padding=3, last=False),
    Case((2, 64, 14, 14), (1, 1, 7, 7), 2, 3),
    Case((2, 64, 24, 24), (1, 1, 7, 7), 1, 6, 2),
    Case((2, 60, 14, 14), (1, 1, 7, 7), padding=3),  # channels that are no whole vectors
    Case((2, 64, 14, 14), (1, 1, 9, 9), padding=3),
])
def test_others_are_left_to_cuda_cores(case):
    assert parsed(case, band_windows) is None


def test_few_images_are_left_to_cuda_cores():
    """A block's turns take longer, one after the other, than what there is to compute."""
    text = Case((1, 96, 56, 56), (1, 1, 7, 7), padding=3).text(main=False)
    assert choose(text, "band_windows") is None and choose(text, "windows") is not None


def test_schedules_that_do_not_fit():
    with pytest.raises(CompileError, match=r"^@\w+ is not an? .* computes$"):
        build(BANDS["7x7"].text(main=False), "band_windows", BandWindows(2, 10))

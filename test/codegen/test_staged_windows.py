"""Depthwise convolutions of rows that the copy engine brings: their numbers on a simulated GPU whose warps have roles, and what the kernels are made of."""

from dataclasses import replace

import pytest
from checks import assert_close_to_float64
from kernels import TARGET, build, check_arrivals, choose
from universal_program import Simulated
from window_cases import NAMED, STAGED, Case, any_number, parsed

from inferno.errors import CompileError
from inferno.schedule.convolution import staged_windows
from inferno.schedule.convolution.staged_windows import StagedWindows

LARGE = Case((32, 144, 56, 56), (1, 1, 3, 3), padding=1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", STAGED)
def test_right(name):
    case, schedule = STAGED[name]
    inputs = case.inputs()
    found = case.result(Simulated(case.text(), lambda kernel: schedule, early=case.last)(*case.arguments(*inputs))[0])
    assert_close_to_float64(found, case.eager, tuple(inputs))


def test_any_number_of_images():
    case, schedule = Case((17, 4, 5, 8), (1, 1, 3, 3), 1, 1, element="f32", last=False, epilogue=False), StagedWindows(1, 4, 3, 4, 2, 3, 2)
    run = Simulated(any_number(case), lambda kernel: schedule)
    for images in (1, 5):
        form = replace(case, image=(images, *case.image[1:]))
        inputs = form.inputs()
        assert_close_to_float64(form.result(run(*form.arguments(*inputs))[0]), form.eager, tuple(inputs))


def test_each_row_is_loaded_and_converted_once():
    built = build(replace(LARGE, epilogue=False).text(main=False), "staged_windows", StagedWindows(2, 8, 14, 36, 7, 6, 1))
    loads, arrivals = check_arrivals(built.ptx)
    assert (loads, arrivals) == (5 * 10, 5)  # two turns before the loop, one in it, two behind
    assert built.count(r"fma\.rn\.f32") == 8 * 2 * 3 * 9 and built.count(r"cp\.async\.bulk\.tensor\.4d") == 1
    assert built.accesses("global") == {"ld.global.nc.b16", "st.global.b32"}
    if built.resources:
        assert built.resources.registers <= 112 and built.resources.spills == built.resources.stack == 0


def test_places_side_by_side_are_vectors():
    built = build(replace(LARGE, last=False).text(main=False), "staged_windows", StagedWindows(1, 8, 14, 18, 7, 6, 4))
    assert built.accesses("shared") == {"ld.shared.v4.b32", "ld.shared.b16"} and "st.global.v4.b32" in built.accesses("global")
    if built.resources:
        assert built.resources.spills == built.resources.stack == 0


def test_chosen_where_it_is_the_fastest():
    text = replace(LARGE, last=False).text(main=False)
    assert choose(text, "staged_windows").strips  # planes as they lie in memory
    assert isinstance(choose(LARGE.text(main=False), "staged_windows"), StagedWindows)
    assert choose(replace(LARGE, element="f32").text(main=False), "staged_windows") is None
    assert choose(replace(LARGE, image=(1, 576, 14, 14)).text(main=False), "staged_windows") is None


@pytest.mark.parametrize("case", [
    NAMED["5x5, dilated by 3, every second"], NAMED["one dimension"], NAMED["three dimensions"], NAMED["two features a channel"], NAMED["groups of 4"],
    Case((2, 16, 14, 14), (1, 1, 3, 3), padding=1, last=False),  # rows of 28 bytes
    Case((2, 12, 14, 14), (1, 1, 3, 3), padding=1),  # places of 24 bytes
])
def test_others_are_left_alone(case):
    assert parsed(case, staged_windows) is None


@pytest.mark.parametrize("change", [{"vector": 3}, {"lanes": 5}, {"along": 11}, {"rows": 10}, {"stages": 40}])
def test_schedules_that_do_not_fit(change):
    case, schedule = STAGED["3x3"]
    with pytest.raises(CompileError, match=r"^@\w+ is not an? .* computes$"):
        build(case.text(main=False), "staged_windows", replace(schedule, **change))


def test_a_model_picks_what_fits():
    c = parsed(LARGE, staged_windows)
    s = staged_windows.pick(c, TARGET)
    assert staged_windows.fits(s, c) and s.chunks(c) * s.workers(c, TARGET) <= TARGET.multiprocessors * s.resident

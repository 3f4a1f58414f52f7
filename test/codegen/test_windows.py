"""Convolutions on CUDA cores: their numbers on a simulated GPU in any layout and with any schedule, and what the kernels are made of."""

import random
from dataclasses import replace

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET, build, choose
from universal_program import Simulated
from window_cases import NAMED, Case, any_number, parsed

from inferno.capture import capture
from inferno.errors import CompileError
from inferno.runtime.build import build_from
from inferno.schedule import assign
from inferno.schedule.convolution import windows
from inferno.schedule.convolution.windows import Windows


def right(case: Case, pick=None) -> None:
    def chosen(kernel):
        c = windows.read(kernel, TARGET)
        assert c is not None
        return pick(c) if pick else windows.pick(c, TARGET)

    inputs = case.inputs()
    found = case.result(Simulated(case.text(), chosen)(*case.arguments(*inputs))[0])
    assert_close_to_float64(found, case.eager, tuple(inputs))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", NAMED)
def test_right(name):
    right(NAMED[name])


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", ["3x3", "7x7 f32, channels first, every second", "5x5, dilated by 3, every second", "groups of 4", "one dimension"])
@pytest.mark.parametrize("seed", range(3))
def test_schedules(name, seed):
    right(NAMED[name], lambda c: random.Random(seed).choice(list(windows.schedules(c))))


@pytest.mark.parametrize("ahead", [True, False])
def test_a_loop_over_rows(ahead):
    """With less than all rows at a time, and more than a window's."""
    right(Case((1, 16, 17, 6), (1, 1, 3, 3), padding=1), lambda c: Windows(64, 2, 3, 9, 8, ahead))


@pytest.mark.parametrize("case", [
    Case((17, 16, 5, 6), (1, 1, 3, 3), padding=1), Case((17, 6, 9, 8), (1, 1, 3, 3), 2, 1, element="f32", last=False), Case((17, 3, 7, 6), (4, 3, 3, 3)),
], ids=["channels last", "channels first", "three channels"])
def test_any_number_of_images(case):
    def chosen(kernel):
        c = windows.read(kernel, TARGET)
        assert c is not None and c.images is not None
        return windows.pick(c, TARGET)

    run = Simulated(any_number(case), chosen)
    for images in (1, 4):
        form = replace(case, image=(images, *case.image[1:]))
        inputs = form.inputs()
        assert_close_to_float64(form.result(run(*form.arguments(*inputs))[0]), form.eager, tuple(inputs))


def test_rows_are_read_once_and_by_vectors():
    case = Case((32, 144, 56, 56), (1, 1, 3, 3), padding=1)
    built = build(case.text(main=False), "windows", Windows(128, 2, 4, 28, 24, False))
    # Two turns before the loop, one in it, two behind: 6 places of a row each, 4 of the residual in those three that end in results.
    assert built.count(r"ld\.global\.nc\.(b32|v2\.b16)") == 5 * 6 + 3 * 4 + 9 + 1 and built.count(r"st\.global\.b32") == 3 * 4
    # Each of 8 outputs has three products in each turn and of each row of the window that is in it, of 3 + 3 + 3 in five turns.
    assert built.count(r"fma\.rn\.f32") == 8 * 3 * 9
    assert not built.accesses() - {"ld.global.nc.b32", "ld.global.nc.v2.b16", "st.global.b32"}
    if built.resources:
        assert built.resources.registers <= 80 and built.resources.spills == built.resources.stack == 0


@pytest.mark.parametrize("case", [
    Case((32, 144, 56, 56), (1, 1, 5, 5), 1, 2, element="f32", last=False),
    Case((32, 144, 56, 56), (1, 1, 3, 3), 2, 1),
])
def test_what_the_model_picks_needs_no_stack(case):
    built = build(case.text(main=False), "windows")
    if built.resources:
        assert built.resources.registers <= 168 and built.resources.spills == built.resources.stack == 0


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(("window", "stride"), [(3, 1), (3, 2), (5, 1), (7, 1)])
@pytest.mark.parametrize(("batch", "channels", "size"), [(1, 96, 56), (1, 960, 7), (32, 144, 56), (32, 96, 112)])
def test_the_model_uses_all_multiprocessors(batch, channels, size, window, stride, last):
    c = parsed(Case((batch, channels, size, size), (1, 1, window, window), stride, window // 2, last=last))
    s = windows.pick(c, TARGET)
    assert s.blocks(c) >= 100 or s.count(c) < 100 * s.threads
    assert windows.fits(s, c) and s.registers(c) <= 200


@pytest.mark.parametrize("name", ["3x3", "groups of 4"])
def test_chosen(name):
    assert isinstance(choose(NAMED[name].text(main=False), "windows"), Windows)


@pytest.mark.parametrize("case", [
    Case((1, 64, 9, 9), (64, 64, 3, 3), padding=1),  # a sum over many channels is for tensor cores
    Case((1, 4, 30, 30), (1, 1, 13, 13)),  # more weights than registers
    Case((2, 32, 9, 9), (16, 16, 1, 1)),  # no window
])
def test_other_convolutions_are_left_alone(case):
    assert choose(case.text(main=False), "windows") is None


def test_other_paddings_are_left_alone():
    text = NAMED["3x3"].text(main=False)
    assert choose(text.replace("%none = arith.constant 0.0", "%none = arith.constant 1.0"), "windows") is None


@pytest.mark.parametrize("change", [{"vector": 3}, {"vector": 32}, {"across": 3}, {"along": 11}, {"threads": 48}])
def test_schedules_that_do_not_fit(change):
    schedule = replace(Windows(128, 2, 2, 4, 8), **change)
    with pytest.raises(CompileError, match=r"^@\w+ is not an? .* computes$"):
        build(NAMED["3x3"].text(main=False), "windows", schedule)


def test_a_model():
    """From torch: what the passes make of a depthwise convolution, its padding, a batch norm and an activation is one kernel that is taken."""
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3, 2, 1, groups=16, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU6()).eval()
    x = torch.randn(2, 16, 9, 8).contiguous(memory_format=torch.channels_last)
    found, taken = capture(model, (x,)), []

    def chosen(kernel):
        taken.append(windows.read(kernel, TARGET))
        return windows.pick(taken[-1], TARGET) if taken[-1] is not None else assign.choose(kernel, TARGET)

    text = build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"]
    (result,) = Simulated(text, chosen)(*(t.detach().contiguous() for t in found.signature.arguments_of((x,), {})))
    assert_close_to_float64(found.signature.results[0].as_eager(result), model, (x,))
    (c,) = [c for c in taken if c is not None]
    assert c.down.checked and c.along.checked and c.side_by_side and c.contraction.extras

"""Gradients of depthwise convolutions' weights: numbers on the simulator, what is taken, and that ptxas keeps the sums in registers."""

import random
from dataclasses import replace

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET, build, choose
from tap_sum_cases import NAMED, Case
from universal_program import Simulated
from warp_simulator import WarpSimulation

from inferno.capture import capture
from inferno.capture.decompositions import convolution_gradients
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.runtime.build import build_from
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.convolution import tap_sums
from inferno.schedule.convolution.tap_kernel import TapKernel
from inferno.schedule.convolution.tap_sums import TapSums

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def bank_conflicts(monkeypatch):
    """What estimates count, and is no error here."""
    monkeypatch.setattr(WarpSimulation, "check_banks", lambda *_: None)


def parsed(case: Case) -> TapKernel | None:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(case.text(main=False))
        return tap_sums.read(kernels(module)[0], TARGET)


def check(case: Case, schedule, early: bool = False) -> None:
    torch.manual_seed(0)
    inputs = case.operands()
    found = Simulated(case.text(), lambda kernel: schedule, early)(*case.arguments(*inputs))[0]
    assert_close_to_float64(found, case.expected, tuple(inputs))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", NAMED)
def test_right(name):
    k = parsed(NAMED[name])
    assert k is not None
    check(NAMED[name], tap_sums.pick(k, TARGET))


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("seed", range(3))
def test_schedules(name, seed):
    k = parsed(NAMED[name])
    check(NAMED[name], random.Random(seed).choice(list(tap_sums.schedules(k, TARGET))), early=seed == 1)


@pytest.mark.covering
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("name, schedule", [
    ("7x7", TapSums(1, 5, 3, 4, 2, 2, 1, 3)), ("7x7, channels first", TapSums(1, 1, 3, 8, 1, 2, 2, 1)), ("3x3", TapSums(2, 3, 2, 3, 2, 3, 1, 4)),
    ("one dimension, channels first", TapSums(1, 1, 1, 8, 5, 1, 1, 5)), ("channels last and first", TapSums(1, 5, 2, 4, 2, 3, 2, 3)),
    ("channels first and last", TapSums(1, 4, 2, 8, 1, 2, 2, 4)), ("channels first and last, 32 of 16 pixels", TapSums(1, 16, 3, 8, 2, 2, 1, 2)),
])
def test_tiles_that_end_outside(name, schedule, stages):
    """Of images, places and channels, with threads that have nothing to do; several blocks of a channel or one."""
    check(NAMED[name], replace(schedule, stages=stages))


@pytest.mark.covering(most=1, also=lambda case: case.mixed and not case.last)
@pytest.mark.parametrize("case", [
    Case((8, 96, 56, 56), (7, 7), low=(3, 3), high=(3, 3)), Case((8, 96, 56, 56), (7, 7), low=(3, 3), high=(3, 3), last=False),
    Case((8, 96, 56, 56), (7, 7), low=(3, 3), high=(3, 3), element="f32"), Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1)),
    Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), element="f32", last=False), Case((4, 64, 28, 28), (11, 11), low=(5, 5), high=(5, 5)),
    Case((32, 240, 28, 28), (5, 5), (2, 2), low=(2, 2), high=(1, 1)), Case((8, 512, 2048), (4,), low=(3,)),
    Case((32, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), last=False, mixed=True), Case((32, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), mixed=True),
    Case((32, 240, 28, 28), (3, 3), low=(1, 1), high=(1, 1), element="f32", last=False, mixed=True),
    Case((32, 480, 14, 14), (3, 3), low=(1, 1), high=(1, 1), last=False, mixed=True),
])
def test_what_the_model_picks_needs_no_stack(case):
    k = parsed(case)
    s = tap_sums.pick(k, TARGET)
    assert tap_sums.fits(s, k, TARGET) and s.blocks(k) >= 90 and tap_sums.estimate(s, k, TARGET) < 25
    built = build(case.text(main=False), "tap_sums", s)
    if built.resources:
        assert built.resources.spills == built.resources.stack == 0
    assert built.count(r"fma\.rn\.f32") == s.rows * s.along * k.taps * s.vector


def test_of_16_bits_and_odd_rows():
    """What no asynchronous copy is small enough for is loaded and stored."""
    assert "cp.async.ca" not in build(replace(NAMED["3x3, channels first"], image=(3, 6, 9, 7)).text(main=False), "tap_sums").ptx
    assert "cp.async.cg" in build(NAMED["3x3, channels first"].text(main=False), "tap_sums").ptx


@pytest.mark.parametrize("last", [True, False], ids=["image", "gradient"])
def test_one_of_both_has_channels_last(last):
    """Each comes by whole vectors as it lies: a block of one channel would read 2 of each 32 bytes."""
    case = Case((32, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), last=last, mixed=True)
    k = parsed(case)
    s = tap_sums.pick(k, TARGET)
    assert (k.last, k.gradient_last) == (last, not last) and s.channels * k.width >= 32
    assert s.region(k, True).vector == s.region(k, False).vector == 8
    built = build(case.text(main=False), "tap_sums", s)
    assert "cp.async.ca" not in built.ptx and not any("16" in access for access in built.accesses() if access.startswith("ld"))


def test_channels_apart_are_in_different_banks():
    """Of rows of their own, by which lanes read vectors of 16 bytes: 32 of them in the four turns that 512 bytes take."""
    k = parsed(Case((32, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), last=False, mixed=True))
    r = TapSums(1, 16, 7, 8, 7, 2).region(k, True)
    channel = r.strides[3]
    assert not r.along_channels and r.apart and channel % 8 == 0 and channel // 8 % 2 == 1
    assert len({lane * channel // 8 % 8 for lane in range(8)}) == 8


@pytest.mark.parametrize("last", [True, False])
def test_columns_are_neighbours(last):
    """Also where the window has one."""
    k = parsed(replace(NAMED["one column"], last=last))
    assert (k.down.taps, k.along.taps, k.along.image, len(k.images)) == (5, 1, 4 if last else 1, 1)


@pytest.mark.parametrize("change", [{"image": (1, 16, 9, 10)}, {"window": (12, 12), "image": (3, 16, 30, 30)}], ids=str)
def test_other_sums_are_left_alone(change):
    """Of so few terms that they are windows, and of more taps than a thread keeps."""
    case = replace(NAMED["3x3"], **change)
    assert parsed(case) is None


def test_other_paddings_are_left_alone():
    text = NAMED["3x3"].text(main=False)
    assert choose(text, "tap_sums") is not None
    assert choose(text.replace("%none = arith.constant 0.0", "%none = arith.constant 1.0"), "tap_sums") is None


@pytest.mark.parametrize("schedule", [TapSums(3, 4), TapSums(1, 1, 1, 4, 4, 4), TapSums(2, 8, 2, 4, 2, 2, parts=1000), TapSums(2, 8, 2, 4, 90, 9)], ids=str)
def test_schedules_that_do_not_fit(schedule):
    with pytest.raises(CompileError, match=r"^@\w+ is not an? .* computes$"):
        build(NAMED["3x3"].text(main=False), "tap_sums", schedule)


def test_the_schedule_is_an_attribute():
    found = choose(NAMED["7x7"].text(main=False), "tap_sums")
    with idle_context():
        assert from_attribute(to_attribute(found)) == found


LAYERS = {
    "3x3": (torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), (3, 8, 9, 8)),
    "7x7": (torch.nn.Conv2d(6, 6, 7, padding=3, groups=6), (2, 6, 10, 10)),
    "3x3 by 2, dilated": (torch.nn.Conv2d(8, 8, 3, 2, 2, 2, groups=8), (3, 8, 14, 14)),
    "one dimension": (torch.nn.Conv1d(8, 8, 4, padding=3, groups=8), (3, 8, 60)),
    "transposed": (torch.nn.ConvTranspose2d(8, 8, 3, 2, 1, groups=8), (2, 8, 9, 9)),
    "one image": (torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), (1, 8, 15, 14)),
    "more than windows reach": (torch.nn.Conv2d(8, 8, 3, 3, groups=8), (3, 8, 29, 25)),
}


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name, last, dtype, monkeypatch):
    """From torch: one kernel, which reads image and gradient as they lie."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)
    torch.manual_seed(0)
    layer, shape = LAYERS[name]
    x, weight = torch.randn(shape).to(dtype), layer.weight.detach().to(dtype)
    gradient = torch.randn(layer(x.float()).shape).to(dtype)
    if last and x.dim() == 4:
        x, weight, gradient = (t.contiguous(memory_format=torch.channels_last) for t in (x, weight, gradient))
    how = layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups
    run = lambda g, x, w: aten.convolution_backward(g, x, w, None, *how, [True, True, False])[:2]  # noqa: E731
    found, taken = capture(run, (gradient, x, weight)), []

    def chosen(kernel):
        taken.append(tap_sums.read(kernel, TARGET))
        return tap_sums.pick(taken[-1], TARGET) if taken[-1] is not None else assign.choose(kernel, TARGET)

    text = build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"]
    results = Simulated(text, chosen)(*(t.detach().contiguous() for t in found.signature.arguments_of((gradient, x, weight), {})))
    assert_close_to_float64(tuple(s.as_eager(r) for s, r in zip(found.signature.results, results)), run, (gradient, x, weight))
    (k,) = [k for k in taken if k is not None]
    assert k.last == (last and x.dim() == 4) and {k.image.argument, k.gradient.argument} == {0, 1}


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
def test_what_is_done_with_sums_is_in_their_kernel(last, monkeypatch):
    """A step of an optimizer."""
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)
    torch.manual_seed(0)
    args = [torch.randn(shape).bfloat16() for shape in ((3, 8, 9, 8), (3, 8, 9, 8), (8, 1, 5, 5), (8, 1, 5, 5))]
    args = [t.contiguous(memory_format=torch.channels_last) for t in args] if last else args

    def run(g, x, w, momentum):
        return 0.9 * momentum + aten.convolution_backward(g, x, w, None, [1, 1], [2, 2], [1, 1], False, [0, 0], 8, [False, True, False])[1]

    found, taken = capture(run, tuple(args)), []

    def chosen(kernel):
        taken.append(tap_sums.read(kernel, TARGET))
        return tap_sums.pick(taken[-1], TARGET)

    text = build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"]
    (result,) = Simulated(text, chosen)(*(t.detach().contiguous() for t in found.signature.arguments_of(tuple(args), {})))
    assert_close_to_float64(found.signature.results[0].as_eager(result), run, tuple(args))
    (k,) = taken
    assert len(k.contraction.extras) == 1

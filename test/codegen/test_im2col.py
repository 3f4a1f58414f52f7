"""Convolutions on Hopper's tensor cores: numbers on the simulator, the structure of what is emitted, what is taken, and that ptxas takes it."""

import random
import re
from dataclasses import replace

import pytest
from contractions import varying
from convolution_cases import CASES, RELU, SAME, TARGET, check, drawn, operands, schedules, wrong
from convolutions import Form, convolution
from kernels import build
from universal_program import Simulated

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.programs import UNMEASURED
from inferno.schedule.assign import choose as assign
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.convolution import halo
from inferno.schedule.convolution.im2col import Im2col, choose, parse_unfolded
from inferno.schedule.spaces import find

SMALL = Im2col(64, 64, 3, 1)
LAYER = Form((8, 56, 56, 64), 64, (3, 3), **SAME)


def chosen(form: Form | str, ask=choose):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(form if isinstance(form, str) else convolution(form))
        return ask(kernels(module)[0], TARGET)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    form, schedule = CASES[name]
    check(form, schedule, early=form.features % 16 == 0)


@pytest.mark.parametrize("seed", [33, 41])
def test_drawn_schedules(seed):
    draw = random.Random(seed)
    form = drawn(draw)
    schedule = draw.choice([s for s in schedules(form) if not s.stream])
    check(form, schedule, early=seed % 2 == 0, seed=seed)


def test_the_image_comes_in_im2col_mode():
    built = build(convolution(LAYER), "im2col", Im2col(128, 64, 6, 2))
    (load,) = re.findall(r"cp\.async\.bulk\.tensor\.4d\S*im2col\S* (.*);", built.ptx)
    assert re.fullmatch(r"\[\S+\], \[\S+, \{(\S+, ){3}\S+\}\], \[\S+\], \{\S+, \S+\}", load)
    (map_,) = re.findall(r'"inferno.pixel_map"\S+ \{(.*?)\}', built.gpu)
    assert map_ == ('box = [64, 128], element = "bf16", l2 = 256 : i64, lower = [-1, -1], '
                    "operandSegmentSizes = array<i32: 1, 0>, sizes = [64, 56, 56, 8], steps = [1, 1], "
                    "strides = [2, 128, 7168, 401408], swizzle = 128 : i64, upper = [-1, -1]")
    assert "box = [64, 64, 1, 1]" in built.gpu and "sizes = [64, 64, 3, 3]" in built.gpu  # weights, of which a tap is a position


def test_a_patch_is_a_box():
    """With its halo, once for all taps, which are places in it; what is outside of the image arrives as zeros."""
    built = build(convolution(LAYER), "im2col", Im2col(256, 64, 2, 2, patch=344, span=3, weights=4))
    assert not re.search(r"cp\.async\.bulk\.tensor\S*im2col", built.ptx) and "box = [64, 10, 34, 1]" in built.gpu
    assert "box = [64, 64, 1, 1]" in built.gpu and "box = [64, 8, 8, 1]" in built.gpu  # weights of a tap, and 8x8 pixels of the result
    assert built.resources is None or built.resources.spills == 0


def test_patches_of_every_other_pixel():
    """A pixel and the next one, and a row and the next one, are dimensions of the image that the copy engine is told."""
    form = replace(LAYER, steps=(2, 2))
    built = build(convolution(form), "im2col", Im2col(128, 64, 4, 2, patch=160, span=3, wide=2, weights=4))
    assert "box = [64, 17, 1, 9, 1]" in built.gpu and "sizes = [128, 28, 2, 28, 8]" in built.gpu and "strides = [2, 256, 7168, 14336, 401408]" in built.gpu
    assert built.resources is None or built.resources.spills == 0


@pytest.mark.parametrize("change", [
    {"patch": 336}, {"span": 2}, {"weights": 0}, {"tile_m": 192}, {"wide": 3}, {"width": 64}, {"inside": True}, {"kept": 4, "weights": 0}, {"row": 16},
], ids=str)
def test_patches_that_are_not_this_convolutions(change):
    with pytest.raises(CompileError, match="@conv"):
        build(convolution(LAYER), "im2col", replace(Im2col(256, 64, 2, 2, patch=344, span=3, weights=4), **change))


@pytest.mark.parametrize("change", [
    {"steps": (3, 3)}, {"steps": (2, 1)}, {"steps": (2, 2), "image": (8, 57, 56, 64)}, {"steps": (2, 2), "image": (8, 56, 56, 72)},
    {"window": (1, 3), "low": (0, 1), "high": (0, 1)}, {"transposed": True},
], ids=str)
def test_convolutions_without_patches(change):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(convolution(replace(LAYER, **change)))
        c = parse_unfolded(kernels(module)[0], TARGET)
        assert not list(halo.candidates(c, TARGET))


def asked(form: Form, ask, unmeasured: bool = False):
    """What ``ask`` says of the kernel, maybe in a module that takes what is not timed."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(convolution(form))
        if unmeasured:
            module.operation.attributes[UNMEASURED] = ir.UnitAttr.get()
        return ask(kernels(module)[0])


def test_patches_are_in_the_space():
    def ask(kernel):
        own, space = choose(kernel, TARGET), find("im2col")
        assert own.patch and space.valid(kernel, own, TARGET) and not space.valid(kernel, replace(own, patch=own.patch + 8), TARGET)
        assert from_attribute(to_attribute(own)) == own and own in dict((s, time) for time, s in space.space(kernel, TARGET))

    asked(replace(LAYER, image=(32, 256, 256, 128)), ask)


@pytest.mark.parametrize("form, taken", [
    (replace(LAYER, image=(32, 256, 256, 64)), True), (replace(LAYER, image=(1, 128, 128, 128), features=128), True),
    (Form((32, 56, 56, 96), 96, (3, 3), **SAME), True), (Form((32, 56, 56, 64), 64, (3, 3), **SAME, **RELU), True),
    (Form((32, 7, 7, 512), 512, (3, 3), **SAME), True), (Form((1, 7, 7, 512), 512, (3, 3), **SAME), False),
    (Form((32, 112, 112, 16), 16, (3, 3), **SAME), True), (Form((32, 56, 56, 64), 64, (7, 7), (), (), (3, 3), (3, 3)), True),
    (Form((2, 16, 56, 56, 128), 128, (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)), True),
    (Form((32, 14, 14, 64), 1024, (2, 2)), False), (Form((32, 56, 56, 64), 64, (3, 3), (2, 2), **SAME), True),
    (Form((32, 56, 56, 64), 64, (3, 3), (3, 3), **SAME), False), (Form((32, 57, 56, 64), 64, (3, 3), (2, 2), **SAME), False),
], ids=str)
def test_where_patches_are_chosen(form, taken):
    assert bool(asked(form, lambda kernel: choose(kernel, TARGET)).patch) == taken


@pytest.mark.parametrize("steps", [(1, 1), (2, 2)])
def test_tiles_have_few_features_that_there_are_not(steps):
    """Their weights, rows outside of a tensor, take the copy engine longer than others."""
    assert 320 % asked(Form((4, 64, 64, 320), 320, (3, 3), steps, **SAME), lambda kernel: choose(kernel, TARGET)).tile_n == 0


def test_windows_that_are_not_timed():
    form = Form((32, 128, 128, 64), 64, (2, 5), (), (), (1, 2), (0, 2))
    assert [bool(asked(form, lambda kernel: choose(kernel, TARGET), unmeasured).patch) for unmeasured in (False, True)] == [False, True]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [
    Im2col(128, 256, 4, 2), Im2col(256, 128, 4, 2, cluster=2, across=True), Im2col(128, 128, 6, 2, stream=True),
    Im2col(128, 128, 6, 2, split=4, persistent=False, spread=True),
], ids=["wide", "cluster", "stream", "split"])
def test_no_schedule_spills(schedule):
    built = build(convolution(Form((32, 29, 29, 264), 512, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), **RELU)), "im2col", schedule)
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0
    assert built.count(r"tensor\.4d\S*im2col") == 1


def test_kernels_for_the_tensor_core():
    s = chosen(LAYER)
    assert isinstance(s, Im2col) and chosen(LAYER, ask=assign) == s
    with idle_context():
        assert from_attribute(to_attribute(s)) == s
    assert chosen(replace(LAYER, element="f16")) and chosen(replace(LAYER, element="f32"))
    assert chosen(replace(LAYER, low=(0, 0), high=(0, 0))) and chosen(replace(LAYER, window=(1, 1), steps=(2, 2), low=(0, 0), high=(0, 0)))
    assert chosen(replace(LAYER, image=(1, 1000, 64), window=(9,), low=(4,), high=(4,), dilations=(100,)))


@pytest.mark.parametrize("change", [
    {"image": (8, 56, 56, 3)}, {"image": (8, 56, 56, 60)},  # channels that are not 16 bytes
    {"features": 1}, {"steps": (9, 1)}, {"low": (129, 1)}, {"dilations": (1, 128), "high": (1, 255)},
    {"window": (1, 1), "low": (0, 0), "high": (0, 0)},  # a product of matrices
    {"image": (2, 9, 9, 9, 64), "window": (3, 3, 3), "low": (17, 1, 1), "high": (1, 1, 1)},
    {"image": (2, 70, 9, 9, 64), "window": (2, 3, 3), "low": (0, 1, 1), "high": (0, 1, 1), "dilations": (32, 1, 1)},
], ids=str)
def test_other_kernels(change):
    assert chosen(replace(LAYER, **change)) is None


@pytest.mark.parametrize("size, features", [(28, 128), (14, 256), (7, 512)])
def test_images_stay_the_lhs(size, features):
    """Also where tiles with the sides exchanged would fill rounds better."""
    found = chosen(Form((32, size, size, features), features, (3, 3), **SAME))
    assert found is not None and not found.swapped


@pytest.mark.parametrize("image, features, window, taken", [
    ((32, 224, 224, 8), 64, 7, False), ((32, 56, 56, 32), 32, 3, True), ((32, 28, 28, 72), 72, 3, True),
])
@pytest.mark.parametrize("padding", [0, 1])
def test_few_channels_lie_side_by_side(image, features, window, taken, padding):
    """Where that is faster, also if the image has to be padded for it."""
    form = Form(image, features, (window, window), (2, 2), (), (padding, padding), (padding, padding))
    assert (chosen(form) is not None) == taken


@pytest.mark.parametrize("rows, taken", [(100, True), (300, False)])
def test_rows_that_no_window_reaches(rows, taken):
    """The box's corner may not be too far away."""
    text = convolution(replace(LAYER, low=(0, 0), high=(0, 0)))
    assert (chosen(text.replace("tensor<8x56x56x64xbf16>", f"tensor<8x{rows}x56x64xbf16>")) is not None) == taken


def test_only_zeros_are_padded():
    text = convolution(LAYER)
    for changed in (text.replace("%none = arith.constant 0.0", "%none = arith.constant 1.0"),
                    text.replace("tensor.yield %none", "%c = arith.constant 2.0 : bf16\ntensor.yield %c")):
        assert changed != text
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(changed)
            assert parse_unfolded(kernels(module)[0], TARGET) is None


def test_the_space_holds_the_choice():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(convolution(replace(LAYER, image=(8, 56, 56, 80))))
        kernel, space = kernels(module)[0], find("im2col")
        found = dict((s, time) for time, s in space.space(kernel, TARGET))
        own = choose(kernel, TARGET)
        assert own in found and len(found) > 100
        draw = random.Random(0)
        assert any(s.row < 128 for s in found) and all(space.valid(kernel, s, TARGET) for s in [own, *draw.sample(list(found), 5)])
        assert not space.valid(kernel, replace(own, tile_n=72), TARGET)


@pytest.mark.thorough
def test_any_number_of_images():
    """Schedules for ranges of it; with one of them, in the simulator."""
    kernel = varying(convolution(Form((17, 5, 7, 24), 40, (3, 3), **SAME)), {17: (1, 100)})
    assert isinstance(chosen(varying(convolution(Form((17, 5, 7, 24), 40, (3, 3), (2, 2), **SAME)), {17: (1, 100)}), ask=assign), Im2col)
    found = chosen(varying(convolution(Form((17, 9, 11, 128), 40, (3, 3), **SAME)), {17: (1, 100)}), ask=assign)
    assert isinstance(found, BySize) and isinstance(found.small, Im2col) and found.pads
    arguments = re.search(r"@conv\((.*), (%o0: \S+ {.*?})\) -> \(", kernel)[1]
    main = f"""func.func @main({arguments}) -> (tensor<?x5x7x40xbf16> {{inferno.sizes = affine_map<()[s0] -> (s0, 5, 7, 40)>}}) {{
      %o = tensor.empty(%n0) : tensor<?x5x7x40xbf16>
      %r = func.call @conv(%n0, %x, %w, %o) : (index, tensor<?x5x7x24xbf16>, tensor<40x3x3x24xbf16>, tensor<?x5x7x40xbf16>) -> tensor<?x5x7x40xbf16>
      return %r : tensor<?x5x7x40xbf16>
    }}"""
    for schedule in (SMALL, Im2col(64, 64, 2, 1, patch=104, span=3, weights=3)):
        run = Simulated(f"module {{ {main}\n{kernel} }}", lambda kernel, own=schedule: own)
        for images in (1, 3):
            form = Form((images, 5, 7, 24), 40, (3, 3), **SAME)
            tensors = operands(form)
            assert not wrong(form, tensors, run(*tensors))


def test_others_are_errors():
    with pytest.raises(CompileError, match="@conv is not a convolution for tensor cores"):
        build(convolution(replace(LAYER, features=1)), "im2col", SMALL)

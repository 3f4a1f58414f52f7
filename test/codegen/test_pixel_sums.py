"""Gradients of convolutions' weights on Hopper's tensor cores: numbers on the simulator, what is taken, and that ptxas takes it."""

from dataclasses import replace

import pytest
from convolution_cases import TARGET
from convolutions import Form
from kernels import build
from pixel_sum_cases import CASES, check, gradient, program

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import choose, kernels
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.convolution.pixel_sums import PixelSums

LAYER = Form((32, 56, 56, 64), 64, (3, 3), (), (), (1, 1), (1, 1))


def chosen(form: Form):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(program(form))
        return choose(kernels(module)[0], TARGET)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    check(*CASES[name], early=name.startswith(("3", "d")))


def test_kernels_for_the_tensor_core():
    found = chosen(LAYER)
    assert isinstance(found, PixelSums) and found.split > 1
    with idle_context():
        assert from_attribute(to_attribute(found)) == found
    for change in ({"image": (1, 500, 64), "window": (9,), "steps": (2,), "low": (4,), "high": (4,)}, {"image": (32, 7, 7, 512), "features": 512},
                   {"steps": (2, 2), "element": "f16"}, {"image": (8, 28, 28, 96), "features": 24}, {"image": (2, 8, 8, 256), "features": 512}):
        assert isinstance(chosen(replace(LAYER, **change)), PixelSums)


@pytest.mark.parametrize("change", [{"image": (2, 9, 9, 60)}, {"image": (2, 9, 9, 40)}, {"steps": (9, 1)}, {"low": (129, 1)}], ids=str)
def test_other_kernels(change):
    """Channels that are no whole panels of 16 bytes or more, steps and corners that the copy engine has not."""
    assert not isinstance(chosen(replace(LAYER, **change)), PixelSums)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [PixelSums(64, 64, 12, 1, split=8, persistent=False), PixelSums(128, 256, 4, 2)], ids=["split", "wide"])
def test_no_schedule_spills(schedule):
    built = build(gradient(replace(LAYER, image=(32, 28, 28, 128), features=128)), "pixel_sums", schedule)
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0
    assert built.count(r"tensor\.4d\S*im2col") == schedule.tile_n // 64


@pytest.mark.parametrize("schedule", [PixelSums(128, 128, 4, 2, cluster=2), PixelSums(64, 48, 8, 1), PixelSums(64, 64, 4, 1, swapped=True)], ids=str)
def test_others_are_errors(schedule):
    """A box of the second one would begin inside of a tap and end in the next one."""
    with pytest.raises(CompileError, match="@sums is not a sum over pixels"):
        build(gradient(LAYER), "pixel_sums", schedule)


def test_what_is_chosen():
    form = Form((2, 8, 9, 96), 64, (3, 3), (), (), (1, 1), (1, 1))
    check(form, chosen(form))

"""Resized images, read by vectors but for what is kept inside of the image: numbers on a simulated GPU, of kernels as they are chosen for large ones."""

import re

import pytest
import torch
from checks import check
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule.maps.elementwise import Elementwise

F = nn.functional
bf16 = torch.bfloat16


def resized(size, mode, **more):
    return lambda x: F.interpolate(x, size=size, mode=mode, **({} if "nearest" in mode else {"align_corners": False}), **more)


def beside(x, y):
    return torch.cat([F.interpolate(x, scale_factor=2.0, mode="bilinear"), y], 1)


# name: the model, shapes of its inputs, their type, the schedule, and how many elements each thread reads one by one.
CASES = {
    "twice": (resized((16, 32), "bilinear"), [(2, 2, 8, 16)], bf16, Elementwise(64, 8, windows=True), 6),
    "twice, several planes": (resized((64, 128), "bilinear"), [(4, 4, 32, 64)], bf16, Elementwise(256, 8, across=4, windows=True), 24),
    "float32": (resized((16, 32), "bilinear"), [(1, 2, 8, 16)], torch.float32, Elementwise(64, 4, windows=True), 8),
    "four times": (resized((16, 64), "bilinear"), [(1, 2, 4, 16)], bf16, Elementwise(64, 8, windows=True), 8),
    "eight times": (resized((64, 64), "bilinear"), [(1, 2, 8, 8)], torch.float16, Elementwise(64, 8, windows=True), 8),
    "half": (resized((8, 16), "bilinear"), [(1, 2, 16, 32)], bf16, Elementwise(64, 8, windows=True), 0),
    "bicubic": (resized((16, 32), "bicubic"), [(1, 2, 8, 16)], torch.float32, Elementwise(64, 4, windows=True), 32),
    "trilinear": (resized((4, 8, 16), "trilinear"), [(1, 1, 2, 4, 8)], bf16, Elementwise(64, 8, windows=True), 12),
    "one dimension": (resized(32, "linear"), [(3, 2, 16)], bf16, Elementwise(64, 8, windows=True), 3),
    "nearest": (resized((16, 32), "nearest"), [(1, 2, 8, 16)], bf16, Elementwise(64, 8), 0),
    "cut at the edges": (resized((8, 24), "bilinear"), [(1, 2, 4, 12)], bf16, Elementwise(64, 8, windows=True), 6),
    "beside another": (beside, [(2, 3, 4, 8), (2, 2, 8, 16)], bf16, Elementwise(64, 8, windows=True), None),
    "alone": (resized((16, 32), "bilinear"), [(1, 2, 8, 16)], bf16, Elementwise(64, 8), 32),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, shapes, dtype, schedule, alone = CASES[name]
    args = tuple(torch.randn(s).to(dtype) for s in shapes)
    built = SimulatedModel(model, args, choose=lambda kernel: schedule, expand=True)
    found = check(built, model, args)
    assert found.right, str(found)
    if alone is not None:
        assert len(re.findall(r"memref.load .*, 1>", built.program.gpu)) == alone


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_infinite_neighbours_are_those_that_eager_reads(mode):
    """A weight of 0 beside an infinite number is no number, at the image's edges, too."""
    x = torch.randn(1, 1, 8, 16)
    x[..., 1] = torch.inf
    model = resized((16, 32), mode)
    own = SimulatedModel(model, (x,), choose=lambda kernel: Elementwise(64, 4, windows=True), expand=True)(x)
    assert torch.equal(own.isnan(), model(x).isnan())


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_channels_stay_innermost(mode):
    x = torch.randn(1, 8, 4, 4).to(memory_format=torch.channels_last)
    model = resized((8, 8), mode)
    own = SimulatedModel(model, (x,), choose=lambda kernel: Elementwise(64, 4), expand=True)
    assert check(own, model, (x,)).right and own(x).is_contiguous(memory_format=torch.channels_last)
    assert own.program.gpu.count("gpu.func") == 1


def test_the_same_size_is_a_copy():
    x = torch.randn(1, 2, 4, 8)
    x[0, 0, 0, 1] = torch.inf
    model = resized((4, 8), "bilinear")
    assert torch.equal(SimulatedModel(model, (x,), expand=True)(x), x)

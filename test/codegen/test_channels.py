"""Images with few channels, which lie last, and results in which they are first: a thread has all channels of a point, on a simulated GPU."""

import re

import pytest
import torch
from checks import check
from scheduled_program import assert_right
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule.maps.elementwise import Elementwise

F = nn.functional
BF16 = torch.bfloat16


def resized(mode, **more):
    return lambda x: F.interpolate(x.permute(0, 3, 1, 2), mode=mode, **more).contiguous()


def added(x, y):
    """With maps of what is read beside it, of both layouts."""
    return (torch.relu(F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear")) + y).contiguous() * y


def scaled(x, s):
    """By a number of each channel, which is in a cache."""
    return F.interpolate(x.permute(0, 3, 1, 2) * s, scale_factor=2, mode="bilinear").contiguous()


PROGRAMS = {  # what is computed, shapes of arguments, channels of a thread
    "twice": (resized("bilinear", scale_factor=2), [(8, 36, 36, 8)], 8), "odd sizes": (resized("bilinear", size=(75, 71)), [(8, 36, 35, 8)], 8),
    "corners": (resized("bilinear", size=(72, 80), align_corners=True), [(8, 31, 37, 8)], 8),
    "bicubic": (resized("bicubic", size=(72, 80)), [(8, 36, 40, 4)], 4),
    "three": (resized("bilinear", size=(72, 80)), [(8, 36, 40, 3)], 3), "twelve": (resized("bilinear", size=(72, 80)), [(8, 36, 40, 12)], 12),
    "nearest": (resized("nearest", scale_factor=2), [(8, 36, 40, 8)], 8), "beside another": (added, [(8, 36, 36, 8), (8, 8, 72, 72)], 8),
    "many channels": (resized("bilinear", scale_factor=2), [(1, 36, 36, 48)], None),
    "scaled": (scaled, [(8, 36, 36, 8), (8, 8, 1, 1)], 8),
    "few points": (resized("bilinear", scale_factor=2), [(1, 12, 12, 8)], None),
}


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, BF16)[n % 2]) for n, name in enumerate(PROGRAMS)], ids=str)
def test_chosen(name, dtype):
    torch.manual_seed(0)
    program, shapes, channels = PROGRAMS[name]
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    found = {int(n) for n in re.findall(r"across = (\d+)", text)}
    assert channels in found if channels else max(found) <= 4, text[:3000]


@pytest.mark.covering
@pytest.mark.parametrize("dtype, vector, loads", [(torch.float32, 1, 8), (torch.float32, 2, 16), (BF16, 2, 8), (BF16, 4, 16)], ids=str)
def test_reads_of_a_point_are_vectors(dtype, vector, loads):
    """Of 16 bytes, all channels of each of four neighbours."""
    torch.manual_seed(0)
    model, args = resized("bilinear", size=(24, 32)), (torch.randn(24, 12, 16, 8).to(dtype),)
    built = SimulatedModel(model, args, choose=lambda kernel: Elementwise(64, vector, across=8), expand=True)
    found = check(built, model, args)
    assert found.right, str(found)
    assert len(re.findall(r"vector.load .*, 1>", built.program.gpu)) == loads and not re.findall(r"memref.load .*, 1>", built.program.gpu)

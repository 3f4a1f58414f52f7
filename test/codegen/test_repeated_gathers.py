"""What a few cheap operations make is made again where elements are gathered several times, as by resized images, unless that would cost more."""

import pytest
import torch
import torch.nn.functional as F
from checks import check
from choices import generators
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def up(x, mode="nearest"):
    return F.interpolate(x, scale_factor=2, mode=mode)


# Model, shapes of its arguments, and kernels.
CASES = {
    "scaled": (lambda x, s: up(x * s), [(2, 4, 6, 10), (2, 4, 1, 1)], 1),
    "scaled, channels last": (lambda x, s: up(x.permute(0, 3, 1, 2) * s), [(2, 6, 10, 8), (2, 8, 1, 1)], 1),
    "a sum": (lambda x, y: up(x + y), [(2, 4, 6, 10)] * 2, 1),
    "added to": (lambda x, y: y + up(F.relu(x)), [(2, 4, 6, 10), (2, 4, 12, 20)], 1),
    "four corners": (lambda x: up(F.relu(x), "bilinear"), [(2, 4, 6, 10)], 1),
    "flipped": (lambda x: up(x.flip(3), "bilinear"), [(2, 4, 6, 10)], 1),
    "shuffled": (lambda x, s: F.pixel_shuffle(up(x * s), 2), [(1, 8, 6, 10), (1, 8, 1, 1)], 1),
    "a triangle": (lambda x, s: x.tril().flip(1).repeat_interleave(2, 1) * s, [(1, 12, 16), (1, 24, 1)], 1),
    "whole numbers": (lambda x: up((x * 8).int().clamp(-3, 3).float()), [(2, 4, 6, 10)], 1),
    "exponentials": (lambda x: up(F.silu(x)), [(2, 4, 6, 10)], 2),
    "a sum at four corners": (lambda x, y: up(x + y, "bilinear"), [(2, 4, 6, 10)] * 2, 2),
    "sixteen corners": (lambda x: up(F.relu(x), "bicubic"), [(2, 4, 6, 10)], 2),
    "many times": (lambda x: F.interpolate(F.relu(x), scale_factor=8), [(2, 4, 6, 10)], 2),
    "across": (lambda x: up((x + x.transpose(2, 3)).contiguous()), [(2, 4, 10, 10)], 2),
}


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, torch.bfloat16)[i % 2]) for i, name in enumerate(CASES)])
def test_right(name, dtype):
    torch.manual_seed(0)
    model, shapes, _ = CASES[name]
    args = tuple(torch.randn(s).to(dtype) for s in shapes)
    found = check(SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET)), model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_kernels(name):
    model, shapes, count = CASES[name]
    found = generators(model, tuple(torch.empty(s) for s in shapes))
    assert len(found) == count, found

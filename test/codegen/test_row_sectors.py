"""Rows whose points are gathered from pieces of their tensor, as patches of an image are, are one kernel with what makes them."""

import re

import pytest
import torch
from checks import check
from choices import generators, scheduled
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")


def _cut(x, p):
    b, c, h, w = x.shape
    return x.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)


def layer_norm(x, w, b, p):
    return F.layer_norm(_cut(x * 2 - 1, p), w.shape, w, b)


def softmax(x, w, b, p):
    return torch.softmax(_cut(x.float().sin(), p) * w + b, -1)


def largest(x, w, b, p):
    y = _cut(x * 2 - 1, p)
    return y.abs().amax(-1), y


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("p", (4, 7))
@pytest.mark.parametrize("model", (layer_norm, softmax, largest))
def test_right(model, p, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s, dtype=dtype) for s in ((2, 3, 2 * p, 3 * p), (3 * p * p,), (3 * p * p,)))

    def cut(x, w, b):
        return model(x, w, b, p)

    simulated = SimulatedModel(cut, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}", expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, cut, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize(("c", "p"), ((3, 16), (3, 14), (8, 8)))
def test_large_patches_are_one_kernel(c, p, dtype):
    """Each row uses all of the sectors that its points lie in, or others do soon: nothing is moved for what it is worth to be moved once more."""
    args = tuple(torch.empty(s, dtype=dtype) for s in ((64, c, 32 * p, 32 * p), (c * p * p,), (c * p * p,)))
    text = scheduled(lambda x, w, b: layer_norm(x, w, b, p), args)
    assert re.findall(r'generator = "(\w+)"', text) == ["rows"] and re.search(r"vector = 1\b", text), text


@pytest.mark.thorough
def test_rows_with_a_number_of_each_sector_are_not():
    """Points of which none has a neighbour in its row: a norm over the channels that are first is not read as they lie apart."""
    def norm(x, w, b):
        return F.layer_norm((x * 2 - 1).flatten(2).transpose(1, 2), w.shape, w, b)

    args = tuple(torch.empty(s) for s in ((64, 256, 64, 64), (256,), (256,)))
    assert "rows" not in generators(norm, args)

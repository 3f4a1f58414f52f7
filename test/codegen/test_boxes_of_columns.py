"""Losses of boxes: what is read of few columns, in parts, by sums of rows and through concatenations of corners, is one kernel."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def corners(b):
    return torch.cat((b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2), -1)


def overlap(a, b):
    sides = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    return sides[:, 0] * sides[:, 1]


def loss(p, t):
    a, b = corners(p), corners(t)
    inter = overlap(a, b)
    union = p[:, 2] * p[:, 3] + t[:, 2] * t[:, 3] - inter
    around = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    apart = (p[:, :2] - t[:, :2]).square().sum(-1)
    return (1 - inter / (union + 1e-3) + apart / (around.square().sum(-1) + 1e-3)).mean()


def weighed(p, t):
    """Sums of rows beside columns, in a largest element."""
    return ((p * t + 1).square().sum(-1) / (p[:, 1] + t[:, 3] + 1)).amax()


def given_back(p, t):
    """The concatenation is read as a whole besides."""
    a = corners(p)
    return a * t, a[:, 2] - a[:, 0]


MODELS = (loss, weighed, given_back)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, dtype):
    torch.manual_seed(0)
    args = tuple(torch.rand(200, 4, dtype=dtype) + 0.1 for _ in range(2))
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (loss, weighed))
def test_boxes_are_read_once(model, dtype):
    args = tuple(torch.empty(1 << 18, 4, dtype=dtype) for _ in range(2))
    (row,) = inferno.compile(model, args, target="sm_90a").explain().rows
    assert row.generator == "reductions" and row.bytes <= 2 * args[0].nbytes + 64 and not row.spills

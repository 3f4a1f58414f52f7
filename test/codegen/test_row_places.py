"""Rows of pieces that lie apart, and whose totals the pieces are made of, are one kernel."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")


def rotated(q, c, s):
    y = F.rms_norm(q, q.shape[-1:])
    a, b = y.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def transposed(q, c, s):
    y = F.rms_norm(q, q.shape[-1:])
    a, b = y.chunk(2, -1)
    return y * c + torch.cat((-b, a), -1) * s


def merged(x, w, b):
    corners = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
    return F.layer_norm(corners, corners.shape[-1:], w, b)


def swapped(x, y):
    """The halves of rows the other way round, beside others'."""
    n = x.shape[-1] // 2
    return torch.softmax(torch.cat((x[..., n:], y[..., 3:9], x[..., :n]), -1), -1)


CASES = {
    "rotated": (rotated, lambda: (torch.randn(2, 3, 5, 16), torch.randn(5, 8), torch.randn(5, 8))),
    "transposed": (transposed, lambda: (torch.randn(2, 3, 5, 16), torch.randn(5, 16), torch.randn(5, 16))),
    "merged": (merged, lambda: (torch.randn(2, 6, 8, 4), torch.randn(16), torch.randn(16))),
    "swapped": (swapped, lambda: (torch.randn(7, 20), torch.randn(7, 12))),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    torch.manual_seed(0)
    model, make = CASES[name]
    args = tuple(a.to(dtype) for a in make())
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}", expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize(("model", "shapes"), (
    (rotated, ((4, 16, 1024, 128), (1024, 64), (1024, 64))), (transposed, ((4, 16, 1024, 128), (1024, 128), (1024, 128))),
    (merged, ((16, 64, 64, 64), (256,), (256,))),
))
def test_one_kernel(model, shapes):
    args = tuple(torch.randn(s, dtype=torch.bfloat16) for s in shapes)
    assert generators(model, args) == ["rows"]

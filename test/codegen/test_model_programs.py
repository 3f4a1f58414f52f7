"""Losses, boxes and gates as models write them: one kernel each, or two where all of a tensor is added up."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def areas(x):
    sides = (x[:, 2:] - x[:, :2]).clamp(min=0)
    return sides[:, 0] * sides[:, 1]


def overlaps(a, b):
    """Intersection over union of each box with each."""
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = (high - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    first, second = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]), (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return both / (first[:, None] + second[None] - both + 10)


def best(a, b):
    return overlaps(a, b).max(1).values


def middle(x):
    """A dimension in the middle is left out, and each part is computed by what numbers its place."""
    y = torch.sin(x) + torch.arange(x.shape[1], dtype=x.dtype)[None, :, None]
    return y[:, 1] * y[:, 2] - y[:, 0]


def weighted_loss(x, y, w):
    return ((x - y).abs() * w[:, None]).sum()


def masked_loss(x, y, m):
    return ((x - y) ** 2 * (m > 0)).mean()


def gate_gradients(x, dy):
    gate, up = x.chunk(2, -1)
    share = gate.sigmoid()
    return torch.cat((dy * up * share * (1 + gate * (1 - share)), dy * gate * share), -1)


def decoded(d, a):
    centre, size = a[:, :2] + d[:, :2] * a[:, 2:], a[:, 2:] * d[:, 2:].exp()
    return torch.cat((centre - size / 2, centre + size / 2), -1)


def stacked(x):
    e = x.exp()
    return torch.stack((e, 2 * e, 1 - e), -1)


CASES = {
    "areas": (areas, (40, 4)), "overlaps": (overlaps, (12, 4), (9, 4)), "best": (best, (12, 4), (9, 4)), "middle": (middle, (5, 3, 7)),
    "weighted_loss": (weighted_loss, (12, 30), (12, 30), (12,)), "masked_loss": (masked_loss, (2, 3, 4, 5), (2, 3, 4, 5), (2, 1, 4, 5)),
    "gate_gradients": (gate_gradients, (6, 40), (6, 20)), "decoded": (decoded, (30, 4), (30, 4)), "stacked": (stacked, (6, 7)),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    torch.manual_seed(0)
    model, *shapes = CASES[name]
    args = tuple(torch.randn(s, dtype=dtype) for s in shapes)
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_few_kernels(name):
    model, *shapes = CASES[name]
    large = tuple(tuple(n * 64 if d == 0 else n for d, n in enumerate(s)) for s in shapes)
    report = inferno.compile(model, tuple(torch.randn(s) for s in large), target="sm_90a").explain()
    assert len(report.rows) == 1 and report.launches <= 2

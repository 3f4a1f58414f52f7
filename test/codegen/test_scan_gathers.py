"""Scans of what is shifted, padded or begins with a constant are one kernel, and so are exclusive ones."""

import pytest
import torch
from checks import check
from choices import generators
from torch.nn.functional import pad
from universal_program import SimulatedModel

import inferno
from inferno.schedule.scans import scans
from inferno.schedule.scans.scan_schedule import Scans
from inferno.target import find_target

TARGET = find_target("sm_90a")
PASSES = "shift-scans{target=sm_90a},fuse-scans{target=sm_90a}"
randn, bf16 = torch.randn, torch.bfloat16


def weights(a):
    """Of samples along rays."""
    return a * torch.cumprod(torch.cat([torch.ones_like(a[:, :1]), 1 - a[:, :-1] + 1e-10], -1), -1)


def sums(dim, by=1):
    """Exclusive ones, or of what is further in front."""
    def model(x):
        before = [0, 0] * (x.ndim - 1 - dim % x.ndim)
        return pad(x.cumsum(dim).narrow(dim, 0, x.shape[dim] - by), (*before, by, 0))
    return model


def concatenated(x):
    return torch.cat([x.new_zeros(1, x.shape[1]), x.cumsum(0)])[:-1]


# The model, its input, and a schedule.
CASES = {
    "exclusive products": (weights, lambda: (torch.rand(5, 128) / 9,), None),
    "exclusive products, a walk": (weights, lambda: (torch.rand(3, 700) / 99,), Scans(64, 64, 4, 2)),
    "exclusive products that look back": (weights, lambda: (torch.rand(2, 1000) / 99,), Scans(64, 64, 4, 2, 2)),
    "exclusive products, odd rows": (weights, lambda: (torch.rand(5, 99) / 9,), None),
    "exclusive products in double": (weights, lambda: (torch.rand(5, 98).double() / 9,), None),
    "exclusive sums": (sums(-1), lambda: (randn(5, 200),), None),
    "exclusive sums of bf16": (sums(-1), lambda: (randn(7, 96).to(bf16),), None),
    "exclusive sums of integers": (sums(-1, 2), lambda: (torch.randint(-9, 9, (5, 100)),), None),
    "exclusive sums, the first dimension": (concatenated, lambda: (randn(300, 12),), None),
    "exclusive sums, a walk": (sums(1), lambda: (randn(2, 200, 16),), Scans(64, 4, 4, 2)),
    "exclusive sums, tiles that wait": (sums(1), lambda: (randn(2, 200, 16),), Scans(64, 4, 4, 2, stages=1)),
    "exclusive sums that look back": (sums(1), lambda: (randn(2, 200, 16),), Scans(64, 4, 4, 2, 4)),
    "in front of the first": (lambda x: torch.cat([torch.full_like(x[:1], 3), x[:-1] * 2]).cumsum(0) + x, lambda: (randn(30, 12),), None),
    "padded on both sides": (lambda x: pad(x, (3, 5)).cumsum(-1), lambda: (randn(6, 40),), None),
    "half of what is there": (lambda x: pad(x[:, 20:].exp(), (12, 0)).cumsum(-1), lambda: (randn(6, 40),), None),
}


def simulated(model, args, schedule=None):
    def choose(kernel):
        found = scans.read(kernel, TARGET)
        return None if found is None else schedule or scans.pick(found, TARGET)

    return SimulatedModel(model, args, choose=choose, passes=PASSES, expand=True)


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name):
    torch.manual_seed(0)
    model, make, schedule = CASES[name]
    args = make()
    made = simulated(model, args, schedule)
    assert len(made.program.plan.steps) == (2 if schedule is not None and schedule.group else 1)
    found = check(made, model, args)
    assert found.right, str(found)


def kernels(model, *args):
    return len(generators(model, args))


def test_one_pass():
    """On a GPU a tensor is read once."""
    x = torch.rand(256, 512)
    rows = inferno.compile(weights, (x,), target="sm_90a").explain().rows
    assert len(rows) == 1 and kernels(sums(-1), x) == kernels(sums(0), x) == kernels(concatenated, x) == 1


@pytest.mark.thorough
def test_apart():
    """Sums that begin with something else, or that something else reads, products behind 0, shifts to lower places, and pieces that are two tensors."""
    x, y = torch.rand(256, 512), torch.rand(256, 512)
    models = (
        lambda x, y: pad(x.cumsum(-1)[:, :-1], (1, 0), value=1.0), lambda x, y: pad(x.cumprod(-1)[:, :-1], (1, 0)),
        lambda x, y: pad(x.cumsum(-1)[:, 1:], (0, 1)), lambda x, y: pad(x.cumsum(0)[:, :-1], (1, 0)), lambda x, y: torch.cat([x, y]).cumsum(0),
    )
    for model in models:
        assert kernels(model, x, y) == 2
        small = tuple(torch.rand(6, 40) for _ in range(2))
        found = check(simulated(model, small), model, small)
        assert found.right, str(found)


@pytest.mark.thorough
def test_cpu():
    x = torch.rand(6, 40)
    for model in (weights, sums(-1), sums(0)):
        found = check(inferno.compile(model, (x,)), model, (x,))
        assert found.right, str(found)

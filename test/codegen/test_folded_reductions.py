"""Reductions of reductions by the same operation are one."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
FOLDED = {
    "a pooling": lambda x: x.mean(3).mean(2), "largest": lambda x: x.abs().amax(3).amax(2), "smallest, of pairs": lambda x: x.min(3)[0].min(2)[0],
    "sums of others": lambda x: (x.sum(1) * 0.25).sum(2), "transposed": lambda x: x.transpose(1, 3).sum(2).sum(1), "counts": lambda x: (x > 0).sum(3).sum(2),
    "behind": lambda x: torch.sigmoid(x.mean(2).mean(2) * 3 - 1),
    "logsumexp": lambda x: x.logsumexp((0, 2)), "logsumexp, few": lambda x: x.logsumexp((1, 3)), "extrema": lambda x: (x.amin((0, 2)), x.amax((0, 2))),
    "sum and largest": lambda x: (x.sum(3).sum(1), x.square().sum((1, 3)), x.amax((1, 3))),
    "normalised": lambda x: (x - x.amin((0, 2), keepdim=True)) / (x.amax((0, 2), keepdim=True) - x.amin((0, 2), keepdim=True) + 1),
}
APART = {
    "read elsewhere": lambda x: (s := x.sum(3)).sum(2) + s[..., 0], "others": lambda x: x.sum(3).amax(2), "of rows": lambda x: x.softmax(3).amax(3).amax(2),
    "a row's two": lambda x: (x.amax(3).amax(2), x.sum(3)), "few": lambda x: x.sum(3).sum(2).sum(1), "squares": lambda x: x.sum(3).square().sum(2),
    "rounded": lambda x: x.sum(3).bfloat16().float().sum(2), "one of both": lambda x: (x.amax(3).amax(1), x.amin(3).amin(2), x.sum((1, 3))),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", (*FOLDED, *APART))
def test_right(name, dtype):
    torch.manual_seed(0)
    model, x = (FOLDED | APART)[name], torch.randn(16, 10, 12, 14, dtype=dtype)
    found = check(SimulatedModel(model, (x,), choose=lambda k: assign.choose(k, TARGET)), model, (x,))
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("name", FOLDED)
def test_one_kernel(name):
    assert len(generators(FOLDED[name], (torch.empty(16, 32, 48, 64),))) == 1


@pytest.mark.covering
@pytest.mark.parametrize("name", ("of rows", "a row's two", "squares", "others", "rounded"))
def test_apart(name):
    """Rows that a kernel has anyway are reduced by it."""
    rows = inferno.compile(APART[name], (torch.randn(16, 32, 48, 64),), target="sm_90a").explain().rows
    assert len(rows) == 2 and rows[1].bytes < rows[0].bytes / 16


@pytest.mark.thorough
def test_long_rows_stay_apart():
    assert len(generators(lambda x: x.mean(-1).mean(-1), (torch.empty(256, 256, 1024),))) == 2

"""Kernels that read the same data become one where its sizes vary, too, on the simulator: of other sizes than the example's, none, and one."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64
from kernels import TARGET
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.schedule import assign

PASSES = ",".join(f"{p}{{target=sm_90a}}" for p in ("merge-variances", "merge-sums", "fuse-sum-maps", "merge-maps", "merge-reads"))
EVERY = {0: Dim.AUTO, 1: Dim.AUTO}


def losses(x, y):
    return F.smooth_l1_loss(x, y), F.l1_loss(x, y), F.mse_loss(x, y)


def weighted(x, y):
    return 0.7 * F.l1_loss(x, y) + 0.3 * F.huber_loss(x, y) + 0.1 * F.mse_loss(x, y)


def overlapping(x, y):
    p = x.sigmoid()
    return F.binary_cross_entropy_with_logits(x, y.abs()) + 1 - (2 * (p * y.abs()).sum() + 1) / (p.sum() + y.abs().sum() + 1)


def statistics(x, y):
    return x.mean(), x.var(), x.abs().max(), (x > 0).sum(), x.shape[0] * y.amin()


def deviation(x, y):
    return x.std(correction=0), x.amax()


def by_column(x, y):
    return x.mean(0), x.var(0), x.amin(0), y.abs().amax(0)


def beside(x, y):
    z = x + y
    return z, z.sum(), (z * z).sum()


def columns(x, y):
    z = F.gelu(x) * y
    return z, z.sum(0), z.amax(0)


def turned(x, y):
    z = x + y.t().contiguous().t()
    return z, z.sum()


MODELS = (losses, weighted, overlapping, statistics, deviation, by_column, beside, columns, turned)


def pair(shape, dtype=torch.float32):
    return tuple((torch.randn(shape) + 0.5).to(dtype) for _ in range(2))


def simulated(model, args, varying, passes=PASSES):
    return SimulatedModel(model, args, varying, choose=lambda k: assign.choose(k, TARGET), passes=passes)


SHAPE = (2048, 1280)  # of the example: what is merged is large


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("varying", ((0,), (1,), (0, 1)), ids=("rows", "columns", "both"))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, varying, dtype):
    dims = {d: Dim.AUTO for d in varying}
    args = tuple(torch.zeros(SHAPE, dtype=dtype) for _ in range(2))
    merged = simulated(model, args, (dims, dims))
    assert len(merged.program.plan.steps) < len(simulated(model, args, (dims, dims), "").program.plan.steps)
    torch.manual_seed(0)
    for other in ((24, 40), (2, 3), (37, 129), (300, 8)):
        args = pair([o if d in varying else n for d, (o, n) in enumerate(zip(other, SHAPE))], dtype)
        assert_close_to_float64(merged(*args), model, args)


def of_none(x, y):
    z = x + y
    return z, z.abs().sum(), z.var(correction=0), z.mean(), (z > 0).sum(), z.var(0, correction=0)


def test_none_and_one():
    """Sums of nothing are 0, and what is divided by no elements is no number, as elsewhere."""
    sizes = {d: Dim(name, min=0, max=1 << 20) for d, name in enumerate(("n", "m"))}
    args = tuple(torch.zeros(SHAPE) for _ in range(2))
    merged = simulated(of_none, args, (sizes, sizes))
    torch.manual_seed(0)
    for shape in ((0, 7), (1, 1), (5, 3), (3, 0), (1, 40), (77, 1)):
        args = pair(shape)
        for found, expected in zip(merged(*args), of_none(*args)):
            assert torch.allclose(found, expected, equal_nan=True), (found, expected)

"""Programs that reduce over some dimensions, and the schedules that they can have: for the simulator and for a GPU."""

from dataclasses import replace

import pytest
import torch

from inferno.schedule.reductions import reductions
from inferno.target import find_target

randn, bf16 = torch.randn, torch.bfloat16


def ties(*shape):
    return torch.randint(-3, 4, shape).float()


def odd_ones(*shape):
    """Rows of minus infinity, with NaN twice, with infinity."""
    x = randn(*shape)
    x[0], x[1, 5], x[1, 7], x[2, 3] = -torch.inf, torch.nan, torch.nan, torch.inf
    return x


def hard(rows, columns, dtype):
    """Rows of ties; of minus infinity, with NaN twice, with infinity twice, of zeros of both signs, and with the largest and smallest behind all others."""
    x = torch.randint(-3, 4, (rows, columns)).to(dtype)
    x[5, -2:] = torch.tensor([9, -9]).to(dtype)
    if dtype.is_floating_point:
        x[0], x[1, columns // 2], x[1, columns - 2], x[2, 3], x[2, 4] = -torch.inf, torch.nan, torch.nan, torch.inf, torch.inf
        x[3], x[4] = -x[3].abs(), x[4].abs()
        x[3:5, 1::2] *= 0
    return x


# Extrema and their places, of rows, of columns, of all, and of what is computed.
EXTREMA = {
    "rows": lambda x: (x.argmax(-1), x.argmin(-1)),
    "columns": lambda x: (x.t().contiguous().argmax(0), x.t().contiguous().argmin(0)),
    "values": lambda x: (*x.max(-1), *x.min(-1)),
    "all": lambda x: (x.argmax(), x[2:].argmin()),
    "computed": lambda x: ((x * 2 + 1).argmax(-1), (1 - x).argmax(0)),
}
# Of few and of many terms, that vectors divide or not.
EXTREMA_SHAPES = [(7, 40), (8, 1000), (6, 4096), (11, 333), (700, 24)]


def variances(x):
    """(model, arguments): statistics of an image [n, c, h, w] with its channels last, and of one row of each channel's."""
    def batch_norm(x, w):
        return torch.nn.functional.batch_norm(x, None, None, w, w, training=True)

    x = x.contiguous(memory_format=torch.channels_last)
    weight = randn(x.shape[1], device=x.device).to(x.dtype)
    return [(batch_norm, (x, weight)), (lambda x: torch.var_mean(x, (0, 2)), (x[:, :, 0].contiguous(),))]


CASES = {
    "last": lambda: (lambda x: x.sum(-1), randn(7, 1000)),
    "last of few": lambda: (lambda x: x.sum(-1), randn(70, 8).to(bf16)),
    "last, odd": lambda: (lambda x: x.sum(-1), randn(5, 999).to(bf16)),
    "last, three": lambda: (lambda x: x.sum(-1), randn(37, 3)),
    "first": lambda: (lambda x: x.sum(0), randn(300, 48)),
    "first bf16": lambda: (lambda x: x.sum(0), randn(33, 264).to(bf16)),
    "first, odd": lambda: (lambda x: x.sum(0), randn(33, 37).half()),
    "first of few": lambda: (lambda x: x.sum(0), randn(900, 8).to(bf16)),
    "middle": lambda: (lambda x: x.sum(1), randn(5, 33, 24)),
    "first and last": lambda: (lambda x: x.sum((0, 2)), randn(5, 33, 24)),
    "second and last": lambda: (lambda x: x.sum((1, 3)), randn(3, 5, 4, 16)),
    "all": lambda: (lambda x: x.sum(), randn(200, 300)),
    "all bf16": lambda: (lambda x: x.sum(), randn(501, 300).to(bf16)),
    "doubles": lambda: (lambda x: x.sum(0), randn(70, 20).double()),
    "bytes": lambda: (lambda x: x.sum(0), torch.randint(-9, 9, (70, 24)).to(torch.int8)),
    "argmax": lambda: (lambda x: x.argmax(-1), ties(7, 1000)),
    "argmax of a vector": lambda: (lambda x: x.argmax(-1), ties(40, 4)),
    "argmin of integers": lambda: (lambda x: x.argmin(-1), torch.randint(-5, 5, (7, 70))),
    "argmin, first": lambda: (lambda x: x.argmin(0), ties(70, 40)),
    "argmax of all": lambda: (lambda x: x.argmax(), ties(300, 400)),
    "argmax of all bf16": lambda: (lambda x: x.argmax(), randn(300, 401).to(bf16)),
    "argmax, no numbers": lambda: (lambda x: x.argmax(-1), odd_ones(5, 600)),
    "argmin, first, no numbers": lambda: (lambda x: x.t().argmin(0), odd_ones(5, 600)),
    "max": lambda: (lambda x: tuple(x.max(-1)), randn(7, 400).to(bf16)),
    "amax, no numbers": lambda: (lambda x: x.amax(-1).isnan(), odd_ones(5, 600)),
    "any": lambda: (lambda x: (x > 2.5).any(-1), randn(70, 400)),
    "all booleans": lambda: (lambda x: x.all(0), torch.rand(300, 8) > 0.003),
    "products": lambda: (lambda x: (1 + x / 16).prod(0), randn(70, 40)),
    "norm": lambda: (lambda x: x.norm(), randn(700, 40)),
    "of products": lambda: (lambda x, y: (x * y).sum(1), randn(6, 50, 16).to(bf16), randn(16).to(bf16)),
    "of a part": lambda: (lambda x: x[:, 3:27].sum(0), randn(70, 40)),
    "of every other": lambda: (lambda x: x[:, ::2].sum(1), randn(70, 40)),
    "transposed": lambda: (lambda x: x.t().sum(-1), randn(64, 48)),
}
# A map of each sum behind it, of another type, of two results or of its square; with a maximum.
MAPPED = {
    "mean of squares": lambda: (lambda x: (x * x).mean(), randn(94, 130).half()),
    "mean of many": lambda: (lambda x: x.mean(), randn(501, 300).to(bf16)),
    "norm": lambda: (lambda x: x.norm() * 2, randn(70, 40)),
    "columns that are cut": lambda: (lambda x: torch.tanh(x.sum(0)) > 0.3, randn(3000, 8)),
    "maximum": lambda: (lambda x: 1 - x.amax(), randn(120000)),
    "integers": lambda: (lambda x: x.sum() % 7, torch.randint(-9, 9, (300, 700))),
}
# What a kernel's own schedule becomes.
SCHEDULES = {
    "chosen": {},
    "chunks": {"chunks": 3, "unroll": 2},
    "one at once": {"unroll": 1, "chunks": 1},
    "single elements": {"vector": 1, "chunks": 2},
    "wide": {"across": 4, "along": 128, "chunks": 1},
}


def choose(change: dict):
    """A way to choose schedules: ``reductions``' own, changed where it stays one that fits."""
    target = find_target("sm_90a")

    def chosen(kernel):
        c = reductions.read(kernel, target)
        if c is None:
            return None
        s = replace(reductions.pick(c, target), **change)
        return replace(s, chunks=-(-s.units(c) // s.share(c)))

    return chosen


def each_extremum(test):
    """``test(name, schedule, dtype, shape)`` of all of them."""
    for names, values in (
        ("shape", EXTREMA_SHAPES), ("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int16]), ("schedule", SCHEDULES), ("name", EXTREMA),
    ):
        test = pytest.mark.parametrize(names, values)(test)
    return pytest.mark.covering(test)

"""Programs that reduce rows of few columns over the first dimension, and schedules that join them: for the simulator and for a GPU."""

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

import torch
from reduction_cases import hard

from inferno.schedule.reductions import joined_rows, reductions
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.target import STATIC_SHARED, find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
PASSES = ",".join(f"{name}{{target=sm_90a{always}}}" for name, always in (
    ("merge-softmaxes", " always=1"), ("fuse-reductions", ""), ("merge-variances", ""), ("fuse-sum-maps", ""), ("merge-maps", ""), ("merge-reads", ""),
))


def chain(x, y, z):
    """What has operands of each row, and of each column."""
    return (torch.tanh(torch.where(z * x[:, :1] > 0, z * x[:, :1], y)) * F.silu(x) + x[0]) * y[:, :1]


MODELS = {  # of one tensor, two, or three
    "sum": lambda x: x.sum(0),
    "squares": lambda x: x.square().sum(0),
    "largest": lambda x: x.amax(0),
    "softmax": lambda x: x.softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "sum of a chain": lambda x, y, z: chain(x, y, z).sum(0),
    "largest of a chain": lambda x, y, z: chain(x, y, z).amax(0),
    "by numbers": lambda x: (x * (1 + torch.arange(x.shape[1], device=x.device)) + torch.arange(x.shape[0], device=x.device)[:, None] / 16).sum(0),
    "of rows' sums": lambda x, y: (x * y.sum(1, keepdim=True)).sum(0),
    "some": lambda x: (x > 1).sum(0),
}
SHAPES = [(203, 23), (100, 3), (401, 18), (77, 45), (33, 24)]
INTEGERS = {
    "sum": lambda x: x.sum(0), "any": lambda x: (x > 3).any(0), "largest": lambda x: x.amax(0), "and its place": lambda x: tuple(x.max(0)),
}
PLACES = {"largest": lambda x: x.argmax(0), "least": lambda x: tuple(x.min(0)), "computed": lambda x: (x * 2 + 1).argmax(0)}
DEEP = {  # sums within others, and of what some of the terms have in common
    "inner": (lambda x: x.sum(1), (3, 48, 23)),
    "outer two": (lambda x: x.amax((0, 1)), (5, 16, 23)),
    "outer two, one of them scaled": (lambda x, w: (x * w[:, :1]).sum((0, 1)), (5, 16, 23)),
    "inner, by rows and columns": (lambda x, w: (x * w[:, :, :1] + w[:, :1]).sum(1), (3, 48, 7)),
}
SIZED = {
    "sum": lambda x: x.sum(0), "least": lambda x: x.amin(0), "by rows and columns": lambda x: (F.silu(x) * x[:, :1] + x[0]).sum(0),
    "both": lambda x: (x.sum(0), x.square().sum(0)),
}
VARIANCES = {"deviation": lambda x: x.std(0), "moments": lambda x: torch.var_mean(x, 0)}
# Elements of a vector, threads along a sum (0: as many as there are), vectors at once, and chunks.
SCHEDULES = {"all threads": (8, 0, 8, 2), "whole": (8, 1, 2, 1), "one at once": (4, 3, 1, 5), "pairs": (2, 40, 4, 3)}


def join(c, schedule: str) -> Reductions | None:
    """A schedule that joins rows of a kernel, if there is one."""
    vector, along, unroll, chunks = SCHEDULES[schedule]
    if not joined_rows.joins(c):
        return None
    rows = vector // gcd(vector, c.inner)
    across = rows * c.inner // vector
    s = Reductions(across, max(-(-32 // across), min(along or 512, 512 // across)), vector, unroll, chunks, rows=rows)
    while s.shared_bytes(c) > STATIC_SHARED:
        s = replace(s, along=s.along - 1)
    while s.chunks > 1 and not s.fits(c):
        s = replace(s, chunks=s.chunks - 1)
    return s if s.fits(c) else None


def choose(schedule: str, found: list):
    """A way to choose schedules: joined rows wherever they can be, which ``found`` gets."""
    def chosen(kernel):
        for read, pick in ((reductions.read, reductions.pick), (reductions.read_sized, reductions.pick_sized)):
            if (c := read(kernel, TARGET)) is not None:
                found.append(join(c, schedule))
                return found[-1] or pick(c, TARGET)
        return None

    return chosen


def columns(count: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Of ties, infinities and NaN, as ``hard`` has rows."""
    return hard(count, length, dtype).t().contiguous()


def pairs(one, other) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The results of two runs, of one tensor or several, side by side."""
    return zip(*(v if isinstance(v, tuple) else (v,) for v in (one, other)), strict=True)

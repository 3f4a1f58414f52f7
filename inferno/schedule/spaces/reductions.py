"""Reductions: threads side by side and along a sum, vectors at once, and chunks that sums are cut into."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, log2

from inferno.mlir import func
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.schedule.reductions.reductions import pick, read
from inferno.target import STATIC_SHARED, Target

_START, _RATE = 1.5, 4.3e6  # microseconds, bytes a microsecond that an H200's memory moves
_STEP = 0.01  # how much worse a schedule is taken to be for each doubling that it is away from the model's choice: it only sorts them


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Reductions]]:
    """Schedules, those that are like the model's choice first, which is all memory's rate to it, and of joined rows that of rows as they are.  None for a
    number of sums that varies."""
    c = read(kernel, target)
    if c is None or not isinstance(c.count, int):
        return
    own, least = pick(c, target), _START + count_bytes(kernel) / _RATE
    if own.rows:
        yield least * (1 + _STEP), pick(c, target, join=False)
    for across, along, unroll, chunks in itertools.product((1,) if own.rows else (0.25, 0.5, 1, 2, 4), (0.25, 0.5, 1, 2, 4), (1, 2, 4, 8), (0.5, 1, 2)):
        s = replace(own, across=int(own.across * across), along=int(own.along * along), unroll=unroll, chunks=max(1, int(own.chunks * chunks)))
        if s.along and s.chunks > 1:
            s = replace(s, chunks=ceil(s.units(c) / s.share(c)))
        if valid(kernel, s, target):
            away = sum(abs(log2(a / b)) for a, b in ((s.across, own.across), (s.along, own.along), (s.unroll, own.unroll), (s.chunks, own.chunks)))
            yield least * (1 + _STEP * away), s


def valid(kernel: func.FuncOp, schedule: Reductions, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c, s = read(kernel, target), schedule
    if c is None or not isinstance(c.count, int) or s.vector != pick(c, target, join=s.rows > 0).vector or not 1 <= s.unroll <= 16:
        return False
    return s.fits(c) and s.shared_bytes(c) <= STATIC_SHARED

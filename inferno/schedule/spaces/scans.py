"""Scans: threads of a block and of a row, what a thread has of a tile, and for few long rows how blocks look back."""

import itertools
from collections.abc import Iterator
from math import log2

from inferno.mlir import func
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.scans.scan_schedule import Scans
from inferno.schedule.scans.scans import pick, read
from inferno.target import Target

_START, _RATE = 1.5, 4.1e6  # microseconds of a kernel that does next to nothing, and bytes a microsecond that an H200's memory moves
_STEP = 0.03  # how much worse a schedule is taken to be for each doubling that it is away from the model's choice: it only sorts them


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Scans]]:
    """Schedules, those that are like the model's choice first."""
    c = read(kernel, target)
    if c is None:
        return
    own, least = pick(c, target), _START + count_bytes(kernel) / _RATE
    lanes = (own.lanes // 2, own.lanes, own.lanes * 2) if own.lanes < own.threads or not c.along else (0,)  # 0: all of a block's threads
    groups = (own.group // 4, own.group // 2, own.group, own.group * 2) if own.group else (0,)
    counts, ahead = sorted({1, 2, 4, 8, own.items}), (0,) if own.group else (0, 1, 2)
    for threads, each, items, group, stages in itertools.product((128, 256, 512, 1024), lanes, counts, groups, ahead):
        s = Scans(threads, each or threads, own.vector, items, group, stages, own.resident * own.threads // threads)
        if (bool(group) == bool(own.group)) and 0 < s.lanes <= s.threads and s.fits(c):
            pairs = ((threads, own.threads), (s.lanes, own.lanes), (items, own.items), (group or 1, own.group or 1))
            yield least * (1 + _STEP * (sum(abs(log2(a / b)) for a, b in pairs) + abs(stages - own.stages))), s


def valid(kernel: func.FuncOp, schedule: Scans, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = read(kernel, target)
    return c is not None and schedule.vector >= 1 and schedule.lanes >= 1 and schedule.fits(c)

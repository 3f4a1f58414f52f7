"""Kernels that go over rows side by side: threads, vectors side by side, blocks of a cluster, and whether points stay in registers or in shared memory."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, gcd

from inferno.mlir import func
from inferno.schedule.rows.column_schedule import LARGEST, PORTABLE, Columns, holding, keeping, kept_accesses
from inferno.schedule.rows.columns import MOST, choose, longest_time, read
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.packed_rows import packs
from inferno.target import SECTOR, Target

_FEWEST, _MOST = 32, 1024  # threads of a block
_TURNS, _MOST_AT_ONCE = (4, 8), 32  # vectors of a thread that are read at once, where not all are, and at most


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Columns]]:
    """Schedules with the cost model's estimates; the model's own alone where a thread has whole rows."""
    c, own = read(kernel, target), choose(kernel, target)
    if own is None:
        return
    for s in {own, *(() if packs(c) or own.alone(c) else _others(c, own))}:
        if _valid(c, s, own):
            yield longest_time(s, c, target), s


def valid(kernel: func.FuncOp, schedule: Columns, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    own = choose(kernel, target)
    return own is not None and _valid(read(kernel, target), schedule, own)


def _others(c: RowKernel, own: Columns) -> Iterator[Columns]:
    """Of vectors as they are and half as long, side by side in whole sectors, and of no fewer blocks than half as many as the model's choice has."""
    whole = c.together > 1
    narrow = min((a.element.width // 8 for a in kept_accesses(c)), default=4)
    vectors, sides = {own.vector, own.vector if whole else max(1, own.vector // 2)}, (own.across,) if whole else (1, 2, 4, 8, 16, 32)
    for vector, across, cluster, threads in itertools.product(vectors, sides, (1, 2, 4, 8), (64, 128, 256, 512, 1024)):
        s = replace(own, threads=threads, across=across, vector=vector, cluster=cluster, kept=1, held=False, sends=own.sends and cluster > 1)
        if threads % across or threads < across * vector or across * vector * narrow < SECTOR or 2 * s.blocks(c) < own.blocks(c):
            continue
        each = ceil(c.width / (threads // across * cluster))
        for unroll in {n for n in (*_TURNS, each) if n <= min(each, _MOST_AT_ONCE)}:
            s = replace(s, unroll=unroll, run=gcd(own.run, unroll))
            yield from (holding(s, c), keeping(s, c, MOST))


def _valid(c: RowKernel, s: Columns, own: Columns) -> bool:
    if s == own:
        return True
    same = (s.whole, s.longest, s.reciprocals, s.approximate) == (own.whole, own.longest, own.reciprocals, own.approximate)
    powers = all(x > 0 and x & (x - 1) == 0 for x in (s.across, s.cluster)) or c.together > 1
    if not same or not powers or s.alone(c) or packs(c) or s.cluster > (PORTABLE if s.held else LARGEST) or not _FEWEST <= s.threads <= _MOST:
        return False
    registers = holding(replace(s, held=False, kept=0), c).held
    shared = 0 < s.kept <= s.rounds(c) and s.kept_bytes(c) <= MOST
    return s.vector <= own.vector and 1 <= s.unroll <= _MOST_AT_ONCE and (registers if s.held else shared) and s.fits(c)

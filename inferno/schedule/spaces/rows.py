"""Kernels that go over rows: threads and blocks of a row, and whether it stays in registers, or how much of it in shared memory."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.rows.gathered_results import can_gather
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_schedule import Rows, most_bits, most_blocks
from inferno.schedule.rows.row_time import estimate
from inferno.schedule.rows.rows import can_compute_once, pick, read
from inferno.target import Target

_SHARED = 220_000  # bytes of shared memory that a block can keep
_STEP = 0.002  # how much worse a schedule is taken to be for each that is in front of it: the model does not tell many of them apart


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Rows]]:
    """Schedules with the cost model's estimates."""
    c = read(kernel, target)
    if c is None or len(c.steps) < 2:
        return
    own = pick(c, target)
    clusters = [1 << i for i in range(most_blocks(target).bit_length())]
    apart = replace(own, persistent=0, resident=0)
    first = replace(apart, held=True, kept=0, packed=own.packed or own.ragged, online=False)
    held = (replace(first, threads=max(t, a), across=a, cluster=n) for t, a, n in itertools.product(
        (64, 128, 256), (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), clusters))
    shapes = itertools.product((128, 256, 512, 1024), clusters, (1, 2, 4))
    loops = [replace(apart, threads=t, across=t, cluster=n, held=False, unroll=u, kept=1, gathers=False) for t, n, u in shapes]
    kept = (replace(s, kept=min(s.rounds(c), _SHARED // s.kept_bytes(c)) if s.kept_bytes(c) else 0) for s in loops)
    number = 0
    for s in (*([own] if own.persistent else []), *(replace(s, sends=s.cluster > 1) for s in (*held, *kept))):
        if _valid(c, s, own, target):
            number += 1
            yield estimate(s, c, target) * (1 + _STEP * number), s


def valid(kernel: func.FuncOp, schedule: Rows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = read(kernel, target)
    return c is not None and len(c.steps) > 1 and _valid(c, schedule, pick(c, target), target)


def _valid(c: RowKernel, s: Rows, own: Rows, target: Target) -> bool:
    if s == own:
        return True
    powers = all(x > 0 and x & (x - 1) == 0 for x in (s.threads, s.across, s.cluster))
    same = (s.vector, s.ragged, s.reciprocals, s.approximate) == (own.vector, own.ragged, own.reciprocals, own.approximate)
    if not powers or not same or s.sends != (s.cluster > 1) or not 32 <= s.threads <= 1024 or s.across > s.threads:
        return False
    if (c.scans and not s.held) or (c.once and not can_compute_once(s)) or (s.gathers and not can_gather(s, c)):
        return False
    if s.cluster > most_blocks(target):
        return False
    if (s.cluster > 1 and s.across != s.threads) or s.persistent or s.common or s.resident:
        return False
    if s.held:
        bits = s.chunks(c) * (s.vector * max(8, c.held_bits()) + c.scanned_bits)
        return s.kept == 0 and bits <= most_bits(s.threads)
    return s.across == s.threads and 1 <= s.unroll <= 8 and 0 <= s.kept <= s.rounds(c) and s.kept_bytes(c) <= _SHARED

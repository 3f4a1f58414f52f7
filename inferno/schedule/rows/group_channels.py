"""Rows of which only a few points are contiguous, as a group norm's of channels-last images, as rows of single channels.

A group of 8 channels in bf16 is 16 bytes of a place, half of what memory moves at least, and of 10 channels there are no vectors of more than 4 bytes.
Groups side by side are whole vectors and whole sectors; what is reduced of a group is what its channels come to.
"""

from dataclasses import replace
from math import gcd, lcm

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import merge
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.transposed_results import apart, most_beside
from inferno.target import Target

_MOST = 32  # vectors side by side
_BLOCK, _LARGEST = 70_000, 190_000  # bytes that a block keeps, so that three are on a multiprocessor, and that one may keep
_SECTOR, _PIECE = 32, 128  # bytes that memory moves at least, and at a time
# Points of a block, below which wider pieces of more blocks of a cluster gain nothing, and what they have to gain.  On an H200 group norms of 64x256x64x64 took
# with pieces of 128 bytes 96 us in bf16, with 64 117, in float32 166, 216, and 276 with 32; of 8x256x64x64 in bf16 15.9, 17.4 and 21.7.
_POINTS, _GAIN = 512, 1.04
_PORTABLE = 8  # blocks of a cluster
_TOGETHER = 1.5  # blocks of a multiprocessor, which cover what each other waits for
# Of what memory moves, with which it is worth while: pieces of 16 bytes of one image's clusters are 0.29, and on an H200 its group norm of 1x128x256x256 in
# bf16 took 44 us, by whole rows 60.
_LEAST = 0.25


def channels_of_groups(c: RowKernel) -> RowKernel | None:
    """``c`` by channels; None if neighbours are all of one row, or of different rows in any case."""
    if c.varies or c.in_pieces:
        return None
    points = [a for s in c.steps for a in s.extras if c.wide(a) and any(a.strides[d] for d in c.rows)]
    inner = [d for d in c.columns if points and all(a.strides[d] == 1 for a in points)]
    if len(c.sizes) - 1 in c.rows or len(inner) != 1 or len(c.columns) < 2:
        return None
    if any(c.values[d.source].per_row for d in c.destinations):
        return None
    (channel,) = inner
    beside = [d for d in c.rows if all(a.strides[d] == c.sizes[channel] for a in points)]
    if len(beside) != 1 or beside[0] + 1 != channel:
        return None
    rows = tuple(sorted((*c.rows, channel)))
    every = [*(a for s in c.steps for a in s.extras), *(d.access for d in c.destinations)]
    runs = merge([d for d in range(len(c.sizes)) if d not in rows], c.sizes, every)
    return replace(c, rows=rows, runs=tuple(map(tuple, runs)), together=c.sizes[channel])


def pick_side(c: RowKernel, vector: int, target: Target) -> tuple[int, int] | None:
    """Vectors side by side and blocks of a cluster with which a block keeps its part of whole groups; None if there are none, or too few blocks."""
    kept = [element_bytes(a.element) for a in c.repeated() if a.strides[c.rows[-1]] == 1]
    side = most_beside(c) if apart(c) else _MOST
    if not kept:
        return None
    base, best = lcm(c.together, vector) // vector, None
    for across in range(base, min(_MOST, c.count // vector) + 1, base):
        width, blocks = across * vector * min(kept), -(-c.count // (across * vector))
        if across > max(base, side):
            continue
        cluster = 1
        while cluster < _PORTABLE and (c.width * across * vector * sum(kept) > _BLOCK * cluster or blocks * cluster < target.multiprocessors):
            cluster *= 2
        if c.width * across * vector * sum(kept) > _LARGEST * cluster or cluster > c.width:
            continue
        if 32 // gcd(32, across) * cluster > 4 * c.width:  # threads are whole warps, of which most would have no point
            continue
        moving = efficiency(width) * min(1.0, blocks * cluster / target.multiprocessors)
        share = moving * min(1.0, c.width / cluster / _POINTS) ** 0.25
        if width > _PIECE // 2:
            share *= min(1.0, blocks * cluster / (_TOGETHER * target.multiprocessors)) ** 0.5
        if best is None or share > best[0] * _GAIN:
            best = share, moving, (across, cluster)
    return best[2] if best is not None and best[1] >= _LEAST else None


def efficiency(width: int) -> float:
    """The share of memory's rate that pieces of so many bytes have."""
    moved = _SECTOR * -(-width // _SECTOR) if (width % _SECTOR == 0 or width < _SECTOR) else width + _SECTOR // 2
    return width / moved * min(1.0, width / _PIECE) ** 0.25

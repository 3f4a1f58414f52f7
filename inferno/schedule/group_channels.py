"""Rows of which a few points are neighbours and the next ones another row's, as a group norm's of images with channels last: as rows of single channels.

A group of 8 channels in bf16 is 16 bytes of a place, half of what memory moves at least, and of 10 channels there are no vectors of more than 4 bytes.
Groups side by side are whole vectors and whole sectors; what is reduced of a group is what its channels come to.
"""

from dataclasses import replace
from math import lcm

from inferno.schedule.accesses import merge
from inferno.schedule.cost import bit_width
from inferno.schedule.row_kernel import RowKernel
from inferno.target import Target

_MOST = 32  # vectors side by side
_BLOCK, _LARGEST = 70_000, 190_000  # bytes that a block keeps, so that three are on a multiprocessor, and that one may keep
_SECTOR, _PIECE = 32, 64  # bytes that memory moves at least, and at a time
_PORTABLE = 8  # blocks of a cluster
_LEAST = 0.3  # of what memory moves, with which it is worth while; not timed yet


def channels_of_groups(c: RowKernel) -> RowKernel | None:
    """``c`` by channels; None if neighbours are all of one row, or of different rows in any case."""
    points = [a for s in c.steps for a in s.extras if c.wide(a) and any(a.strides[d] for d in c.rows)]
    inner = [d for d in c.columns if points and all(a.strides[d] == 1 for a in points)]
    if c.varies or c.joined or len(c.sizes) - 1 in c.rows or len(inner) != 1 or len(c.columns) < 2 or any(c.values[d.source].per_row for d in c.destinations):
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
    kept = [bit_width(a.element) // 8 for a in c.repeated() if a.strides[c.rows[-1]] == 1]
    apart = [bit_width(d.access.element) // 8 for d in c.destinations if d.access.strides[c.rows[-1]] != 1]
    if not kept:
        return None
    base, best = lcm(c.together, vector) // vector, None
    for across in range(base, min(_MOST, c.count // vector) + 1, base):
        width, blocks = across * vector * min(kept), -(-c.count // (across * vector))
        if apart and across > base and 32 // across * min(apart) < _SECTOR:  # a warp's points of a row are whole sectors
            continue
        moved = _SECTOR * -(-width // _SECTOR) if (width % _SECTOR == 0 or width < _SECTOR) else width + _SECTOR // 2
        cluster = 1
        while cluster < _PORTABLE and (c.width * across * vector * sum(kept) > _BLOCK * cluster or blocks * cluster < target.multiprocessors):
            cluster *= 2
        if c.width * across * vector * sum(kept) > _LARGEST * cluster or cluster > c.width:
            continue
        share = width / moved * min(1.0, width / _PIECE) ** 0.25 * min(1.0, blocks * cluster / target.multiprocessors)
        if best is None or share > best[0] + 0.01:
            best = share, (across, cluster)
    return best[1] if best is not None and best[0] >= _LEAST else None

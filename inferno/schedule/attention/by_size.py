"""Schedules of attention whose sizes vary: one for few queries and one for many, or for few keys and many.

Every one of them is right for all sizes.  Where queries vary they tell which one a call launches; otherwise keys, and of many keys the number
of heads: few heads' keys are shared out.
"""

from typing import Any

from inferno.schedule.attention.candidates import candidates
from inferno.schedule.attention.cost import estimate
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import FEW_ROWS, completed
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.schedule.attention.warps import few_queries
from inferno.schedule.composite.size_ranges import BySize, Point, Table, along, at_point, cover, spans_of
from inferno.size_forms import as_python
from inferno.symbolic import Int, symbols_of
from inferno.target import Target

# Where sizes may be cut into ranges: one warpgroup has 64 queries, a warp of float32 up to 16, a GPU 132 multiprocessors for heads; few keys are not worth
# sharing.
_EDGES, _HEADS = (64, 256, 1024, 4096), (16, 32, 64, 128)
_FEW_KEYS, _MANY_KEYS = 256, 4096
_KERNELS, _GAIN = 3, 0.01  # the most schedules, each of which ptxas takes some seconds for, and what one has to gain (see ``by_size``)


def for_sizes(a: AttentionKernel, tiling: AttentionTiling, target: Target) -> Any | None:
    """A schedule, or several ``BySize``; None where there is none."""
    varying = [s for s in (a.queries.size, a.keys.size, tiling.heads) if not isinstance(s, int)]
    side, others = varying[0], symbols_of(a.keys.size)
    if side is a.queries.size or len(varying) == 1 or set(others) & set(symbols_of(tiling.heads)):
        return _for_side(side, {}, a, tiling, target)
    # One launches as many blocks whatever the number of keys is; with few heads, each has a part of the keys.
    few, many = (_for_side(tiling.heads, along(a.keys.size, most), a, tiling, target) for most in (_FEW_KEYS, _MANY_KEYS))
    while isinstance(few, BySize):  # few keys of few heads take little time whoever has them
        few = few.large
    return many if None in (few, many) or few == many else BySize(as_python(side), _FEW_KEYS, few, many)


def _for_side(side: Int, others: Point, a: AttentionKernel, tiling: AttentionTiling, target: Target) -> Any | None:
    """Schedules by one size, where the ``others`` are these."""
    edges = _EDGES if tiling.whole is None else (FEW_ROWS, *_EDGES)
    spans = spans_of(side, lambda size: {**others, **along(side, size)}, _HEADS if side == tiling.heads else edges)
    points = [at_point(p) for span in spans for p in span.points]
    found = dict.fromkeys(completed(s, a) for at in points for s in candidates(a, tiling, target, at))

    def table(point: Point, most: int) -> Table:
        at = at_point(point)
        return {s: estimate(s, a, tiling, target, at) for s in found if not s.warp_rows or few_queries(tiling, at)}

    return cover(side, spans, table, _KERNELS, _GAIN)

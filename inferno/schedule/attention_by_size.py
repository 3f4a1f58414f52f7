"""Schedules of attention whose sizes vary: for few queries and for many, or few keys and many, the one that is best there.

Every one of them is right for all sizes.  Where queries vary they tell which one a call launches; otherwise keys, or the number of heads.
"""

from typing import Any

from inferno.schedule.attention import AttentionTiling, candidates, completed, estimate
from inferno.schedule.attention_kernel import AttentionKernel
from inferno.schedule.by_size import Point, Table, along, cover, spans_of
from inferno.schedule.cost import At
from inferno.symbolic import evaluate
from inferno.target import Target

# Where sizes may be cut into ranges: one warpgroup has 64 queries; and few keys are not worth sharing.
_EDGES = (64, 256, 1024, 4096)
_KERNELS, _GAIN = 3, 0.01  # the most schedules, each of which ptxas takes some seconds for, and what one has to gain (see ``by_size``)


def for_sizes(a: AttentionKernel, tiling: AttentionTiling, target: Target) -> Any | None:
    """A schedule, or several ``BySize``; None where there is none."""
    side = next(s for s in (a.queries.size, a.keys.size, tiling.heads) if not isinstance(s, int))
    spans = spans_of(side, lambda size: along(side, size), _EDGES)
    points = [_at(p) for span in spans for p in span.points]
    found = dict.fromkeys(completed(s, a) for at in points for s in candidates(a, tiling, target, at))

    def table(point: Point, most: int) -> Table:
        at = _at(point)
        return {s: estimate(s, a, tiling, target, at) for s in found}

    return cover(side, spans, table, _KERNELS, _GAIN)


def _at(point: Point) -> At:
    """Sizes where some symbols are those of a point, and others those of the example."""
    return lambda size: evaluate(size, lambda symbol: point.get(symbol, max(symbol.hint, 1)))

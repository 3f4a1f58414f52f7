"""Attention of few float32 queries by warps that have keys of their own: which schedules are tried, and what a block of keys takes.

Nothing is multiplied 64 queries at a time then, and no operand is cut in memory: keys and values come to shared memory once, as they are, and what is
multiplied takes less time than they do.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.schedule.analysis.cost import At
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention, lines
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.target import Target

_KEYS = (128, 64, 32)  # of a block of them
_STAGES = (8, 7, 6, 5, 4, 3, 2)  # slots, of which the most is taken that fits
_MOST_QUERIES = 16  # of a head: more were not timed, and fill a warpgroup's products the better
_FEWEST_KEYS = 64  # of fewer not each warp has some; cut by the kernel they take 3 us
# Clocks of a warp for a block of keys: for each 32 numbers of its keys and values, by the rows of a tile, and others (estimates; 128 columns, 16 keys a warp
# and 8 rows are 656 instructions, of which 128 are products).
_EACH, _BLOCK = {8: 11, 16: 14}, 500


def by_warps(a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At) -> Iterator[Attention]:
    """A schedule for each number of keys and of rows, with as many slots as there is room for."""
    queries = at(tiling.queries.size)
    if tiling.whole is None or not few_queries(tiling, at) or at(tiling.keys.size) < _FEWEST_KEYS:
        return
    for keys, rows in itertools.product(_KEYS, (8,) if queries <= 8 else (16, 8)):
        base = Attention(1, keys, order="single", turns=False, staged=False, warp_rows=rows)
        found = next((s for n in _STAGES if fits(s := replace(base, stages=n), a, target)), None)
        if found is not None:
            yield found


def few_queries(tiling: AttentionTiling, at: At) -> bool:
    """Whether there are so few queries that each warp has keys of its own."""
    return at(tiling.queries.size) <= _MOST_QUERIES


def block_clocks(s: Attention, a: AttentionKernel) -> float:
    columns = (lines(a.depth.size, s.line) + lines(a.width.size, s.line)) * s.line
    return _BLOCK + _EACH[s.warp_rows] * s.warp_keys * columns / 32

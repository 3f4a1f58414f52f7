"""Everything that the generator of attention takes: blocks of queries and keys, slots, orders of tiles, and how products and softmax overlap."""

import itertools
from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.attention.candidates import candidates
from inferno.schedule.attention.cost import estimate
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import ORDERS, Attention, completed, pieces_of
from inferno.schedule.attention.support import read
from inferno.symbolic import hint
from inferno.target import Target

# Keys of a block that are tried: multiples of 16 as the products of weights and values have terms.
_KEYS = (32, 48, 64, 80, 96, 112, 128, 160, 176, 192)


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Attention]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    found = read(kernel, target)
    if found is None:
        return
    a, tiling = found
    pieces = pieces_of(a)
    slots, turns, cuts = ((2, 3, 4), (True, False), ((False, 1),)) if pieces == 1 else ((1, 2), (False,), ((False, 1), (True, 1), (True, 2)))
    rest = (
        Attention(consumers, keys, stages, order, turn, pieces == 1, apart, pieces=pieces, cut=cut, resident=resident)
        for consumers, keys, stages, order, turn, apart, (cut, resident) in itertools.product((2, 1, 3), _KEYS, slots, ORDERS, turns, (True, False), cuts)
    )
    usual = candidates(a, tiling, target)
    few = (
        Attention(1, keys, stages, order, turns=False, staged=False, warp_rows=rows)
        for rows, keys, stages, order in itertools.product((8, 16), (32, 64, 96, 128), range(2, 9), ("single", "static"))
    )
    best = [completed(s, a) for s in usual]
    for s in dict.fromkeys((*best, *usual, *rest, *(few if tiling.whole is not None else ()))):
        if fits(s, a, target) and (s.order == "single" or hint(tiling.tiles(s)) > target.multiprocessors * s.resident):
            yield estimate(s, a, tiling, target), s


def valid(kernel: func.FuncOp, schedule: Attention, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    found = read(kernel, target)
    return found is not None and fits(schedule, found[0], target) and not (schedule.warp_rows and found[1].whole is None)


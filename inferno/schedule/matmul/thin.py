"""Schedules of ``wgmma`` and ``dual`` for up to 64 rows, which cost the time of reading the rhs."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

from inferno.schedule.analysis.cost import At
from inferno.schedule.matmul.wgmma_cost import LEAVES_HALF
from inferno.schedule.matmul.wgmma_schedule import FEW, Wgmma, leaves_half
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.shared_tiles import height
from inferno.schedule.tiles.tiling import Tiling
from inferno.symbolic import bounds, hint
from inferno.target import Target, clusters_at_once

SLOT = 8192  # bytes of the rhs that a slot should have: the thread that starts copies needs about 200 clocks a slot (an estimate)
_LEAST = 5  # slots of half of the shared memory, so that memory is kept busy (16x8192x28672, 224 columns: 115.8 us, with three slots 116.7)
_PANELS = (64, 32, 16)  # columns of a line of the rhs where they are innermost


def thin_schedules(tiling: Tiling, width: int, target: Target, at: At = hint, factors: int = 1, most: int | None = None) -> list[Wgmma]:
    """Schedules for up to 64 rows, which cost the time of reading the rhs: it is dealt out evenly to all multiprocessors, and most of
    their shared memory is slots for it, as it takes 40 KB under way on each to keep memory busy.  ``factors``: a tile of the rhs is made of
    so many.  ``most``: as for ``candidates``."""
    if at(tiling.m.size) > FEW:
        return []
    most = min(bounds(tiling.m.size)[1], most or inf)
    rows = 8 * ceil(most / 8) if most <= FEW and tiling.lhs.along_k else 0
    n, positions = at(tiling.n.size), at(tiling.positions)
    found = []
    raw = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    units = (8,) if tiling.rhs.along_k else _PANELS
    for split, unit in itertools.product((1, 2, 4, 8), [u * factors for u in units]):
        blocks = clusters_at_once(split, target.multiprocessors)
        for rounds in range(1, 9 if split == 1 else 2):
            tile_n = unit * ceil(n / max(1, blocks * rounds // positions) / unit)
            if tile_n <= (256 if split == 1 else 192) and tile_n not in (s.tile_n for s in found if s.split == split):
                lines = 32 if not (raw or tiling.rhs.along_k) and factors == 1 and tile_n % 64 == 32 else 64
                chunks = 1 if raw else _chunks(height(tile_n, tiling.rhs.along_k, lines), tiling, width, at)
                found.append(Wgmma(64, tile_n, 32, 1, persistent=split == 1, split=split, lhs_rows=rows % FEW, chunks=chunks, panel=lines))
    return found


def _chunks(rows: int, tiling: Tiling, width: int, at: At) -> int:
    """Tiles of so many rows of the rhs that a slot holds."""
    return min(max(1, SLOT // ROW // rows), at(tiling.k_steps(ROW // width)), 8)


def beside_each_other(thin: Sequence[Wgmma], tiling: Tiling, width: int, target: Target, at: At, factors: int = 1) -> list[Wgmma]:
    """Schedules made of ``thin`` ones where what a tile begins and ends with lies beside the products of another one: two consumers take turns, or a
    multiprocessor has two blocks, or half of its shared memory is left, where blocks of the next kernel begin and wait."""
    if not tiling.rhs.along_k:
        return [replace(s, resident=2) for s in thin if s.tile_n <= 128]
    whole = [s for s in thin if s.split == 1]
    found = [replace(s, pingpong=True, consumers=2) for s in whole]
    columns, unit = at(tiling.n.size) * at(tiling.positions), 8 * factors
    rounds = ceil(columns / (2 * target.multiprocessors * 128))
    tile_n = unit * ceil(columns / (2 * target.multiprocessors * rounds) / unit)
    if whole and max(2 * unit, whole[0].lhs_rows or FEW) <= tile_n:  # the rows, which each block reads, are not more than its columns
        found.append(replace(whole[0], tile_n=tile_n, chunks=_chunks(tile_n, tiling, width, at), resident=2))
    largest: dict[Wgmma, Wgmma] = {}  # of those that differ in nothing else
    for s in [s for s in thin if factors == 1 and 0 < s.lhs_rows <= LEAVES_HALF]:
        halves = (replace(s, stages=n) for n in reversed(range(_LEAST, s.stages)))
        if (most := next((half for half in halves if leaves_half(half, target)), None)) is not None:
            largest[replace(s, stages=0)] = most
    return [*found, *largest.values()]

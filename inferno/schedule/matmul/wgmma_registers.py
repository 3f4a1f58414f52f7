"""Schedules of ``wgmma`` for TF32 products with an operand that goes to the tensor core by registers (``codegen/matmul/wgmma_registers.py``)."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.element_sizes import bit_width
from inferno.schedule.analysis.cost import MEMORY_RATE, At, moved_bytes
from inferno.schedule.matmul.contraction import Contraction, oriented
from inferno.schedule.matmul.wgmma_cost import estimate
from inferno.schedule.matmul.wgmma_schedule import Wgmma, deals, fit, splits, streams
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.target import Target

_LEAST = 9  # rows: fewer are ``vectors``'
_FEW = 512  # rows that are one tile's columns, or a half of them
# Microseconds, besides the estimates of other tiles: blocks of a cluster with so few columns have added up sooner, and two consumers, in tiles of 128,
# take longer from memory (H200: 16x768x3072 in 64x16 4.8, in two parts 4.2, where 5.6 and 6.1 are estimated; 16x4096x11008 in 128x16 59.5, in 64x16
# 54.7, where 57.5 and 57.7 are).
_PARTS, _WIDE = -0.65, 0.06
# Of the estimate with more than so many columns (256x4096x4096 in two parts of 64x256 29.6 and 38.5 us, 256x4096x11008 in 128x256 82 and 103,
# 512x4096x4096 in two parts of 128x256 47.7 and 62).
_COLUMNS, _LESS = 192, 0.8
# Of the estimate with more rows (2048^3 in 128x256 44.5 and 54.3 us, 4096^3 341 and 386, 1024x4096x4096 85.1 and 103, 1408x2304x1152 in 128x112 26.3 and
# 33.8, 640x2048x2048 in 128x80 22.0 and 25.7).
_MANY = 0.83
# The same with one consumer: 1024^3 in 64x128 9.6 us and 11.8, 896^3 in 64x112 8.5 and 9.8, 768^3 in 64x80 6.4 and 7.5, 1280^3 in 64x224 16.6 and 20.2, where
# 128x112 takes 15.7; 512x1024x1024 in 64x64 7.1 and 8.2.
_ONE = 0.85
# The same where a tile's terms are dealt out, by whether rows are so few that memory takes longer than sums that go there and back (64x4096x11008 51.7 us,
# in whole tiles 58.0, 32x4096x11008 49.1 and 54.7; 128x4096x11008 in 128x128 56.3 and 61.1, 200x4096x11008 66.1 and 71.3; 128x3584x7168 36.4, in 64x128 31.3).
_DEALT, _MEMORY_BOUND = {True: 1.06, False: 0.97}, 64
_NARROWEST = {1: 64, 2: 80}  # columns of tiles that are cut to fill rounds, by consumers


def by_registers(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Wgmma]]:
    """Schedules for TF32 with a factor that has its terms outermost, which is the rhs with the sides exchanged or the lhs as it is, and their estimates.
    Few rows are all a tile's columns, or a half of them.

    On an H200 the best of them is faster than tiles that are transposed in shared memory in all of 39 products of 16 to 4096 rows, batches among them."""
    if bit_width(c.lhs.element) != 32 or c.varies or at(c.M) < _LEAST or c.lhs.unfolded is not None:
        return
    for swapped in (True, False):
        exchanged = oriented(c, swapped)
        tiling = tile_contraction(exchanged, 4, only_along_k=True, offset=True, registers=True)
        if tiling is not None and not tiling.lhs.along_k and not any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
            yield from _schedules(exchanged, swapped, tiling, target, at)


def _schedules(exchanged: Contraction, swapped: bool, tiling: Tiling, target: Target, at: At) -> Iterator[tuple[float, Wgmma]]:
    rows, memory = at(tiling.n.size), moved_bytes(exchanged, at) / MEMORY_RATE
    for consumers in (2, 1):
        for tile_n in _widths(tiling, target, at, consumers):
            if (made := fit(Wgmma(64 * consumers, tile_n, 8, consumers, swapped=swapped, registers=True), exchanged, tiling, target)) is not None:
                yield (_MANY if consumers > 1 else _ONE) * estimate(made, 1.0, exchanged, tiling, target, at), made
    widths = dict.fromkeys(8 * ceil(rows / parts / 8) for parts in (1, 2) if rows <= _FEW // 2 * parts)
    for tile_n, consumers, split, spread in itertools.product(widths, (1, 2), range(1, 9), (False, True)):
        s = Wgmma(64 * consumers, tile_n, 16, consumers, persistent=split == 1, split=split, spread=spread, swapped=swapped, registers=True)
        if (spread and (split == 1 or tile_n % s.share)) or (split > 1 and not splits(s, tiling, 4, target, at)):
            continue
        dealt = (replace(s, stream=True),) if split == 1 and (streams(s, tiling, target) or _deals_less(s, tiling, target)) else ()
        twice = (replace(s, resident=2),) if split == consumers == 1 and tile_n <= 64 else ()
        for each in (s, *twice, *dealt):
            if (made := fit(each, exchanged, tiling, target)) is not None:
                more = _PARTS * (split > 1) + _WIDE * memory * (consumers > 1)
                time = estimate(made, 1.0, exchanged, tiling, target, at) * (_DEALT[rows <= _MEMORY_BOUND] if made.stream else 1)
                yield time * (_LESS if tile_n > _COLUMNS else 1) + more, made


def _deals_less(s: Wgmma, tiling: Tiling, target: Target) -> bool:
    """Whether fewer tiles than there are multiprocessors can be dealt out to all of them."""
    tiles = tiling.tiles(s.tile_m, s.tile_n)
    return s.consumers > 1 and isinstance(tiles, int) and tiles < target.multiprocessors and deals(tiles, tiling.k_steps(32), target.multiprocessors)


def _widths(tiling: Tiling, target: Target, at: At, consumers: int) -> list[int]:
    """Columns of tiles for more rows: the most, and as many as fill one to four rounds; of one consumer, as many as fill one, for fewer rows too where that
    is less than a half of them (1024^3 is 64 tiles of 128x128 and 128 of 64x128)."""
    rows, together = at(tiling.n.size), ceil(at(tiling.m.size) / (64 * consumers)) * at(tiling.positions)
    if rows <= _FEW and consumers > 1:
        return []
    most = range(1, 5) if consumers > 1 else range(1, 2)
    filling = (16 * ceil(rows / max(1, target.multiprocessors * rounds // together) / 16) for rounds in most)
    widest = 256 if rows > _FEW else (rows - 1) // 2
    return list(dict.fromkeys((*((256, 128) if consumers > 1 else ()), *(n for n in filling if _NARROWEST[consumers] <= n <= widest))))

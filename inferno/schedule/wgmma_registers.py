"""Schedules of ``wgmma`` for TF32 products with a factor that goes to the tensor core by registers (``codegen/wgmma_registers.py``)."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.schedule.contraction import Contraction, oriented
from inferno.schedule.cost import At, bit_width
from inferno.schedule.tiling import tile_contraction
from inferno.schedule.wgmma import Wgmma, estimate, fit, splits
from inferno.settings import settings
from inferno.target import Target

_ROWS = 512
"""So many rows are few: with more the long factor is read several times, and it pays to transpose it first."""


def by_registers(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with the sides exchanged for few rows of TF32 times what has its terms outermost, and their estimates: all rows are a tile's columns, or
    a half of them.  No GPU has run them yet: there are none without the setting that says so."""
    width, turned = bit_width(c.lhs.element) // 8, oriented(c, True)
    if not settings().unmeasured or width != 4 or c.varies or at(c.M) > _ROWS or c.lhs.unfolded is not None:
        return
    tiling = tile_contraction(turned, width, only_along_k=True, registers=True)
    if tiling is None or tiling.lhs.along_k or any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
        return
    rows = at(tiling.n.size)
    widths = dict.fromkeys(8 * ceil(rows / parts / 8) for parts in (1, 2) if rows <= 256 * parts)
    for tile_n, consumers, split, spread in itertools.product(widths, (1, 2), range(1, 9), (False, True)):
        s = Wgmma(64 * consumers, tile_n, 16, consumers, persistent=split == 1, split=split, spread=spread, swapped=True, registers=True)
        if (spread and (split == 1 or tile_n % s.share)) or (split > 1 and not splits(s, tiling, width, target, at)):
            continue
        for each in (s, replace(s, resident=2)) if split == consumers == 1 and tile_n <= 64 else (s,):
            if (made := fit(each, turned, tiling, target)) is not None:
                yield estimate(made, 1.0, turned, tiling, target, at), made

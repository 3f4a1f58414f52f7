"""What brings tiles to shared memory: the lines that they are made of, and blocks of a cluster that share one."""

from __future__ import annotations

from math import ceil, gcd
from typing import TYPE_CHECKING

from inferno.schedule.cost import At
from inferno.schedule.result_parts import ROW
from inferno.schedule.tiling import Source, Tiling

if TYPE_CHECKING:
    from inferno.schedule.wgmma import Wgmma

# What schedules with clusters take beside their estimates: 102 times of 50 matmuls on an H200 were 1.12 and 1.30 times those, others 0.97 times.
CLUSTERS = {1: 1.0, 2: 1.12, 4: 1.3, 8: 1.3}
# Times longer lines take that begin inside of 128 bytes: the copy engine gets them as two (4000x4104x10000 in 128x128 932 us, 495 estimated without;
# 1000^3 in 64x128 10.1 and 6.8).
_INSIDE_OF_A_LINE = 2.5


def line_factors(tiling: Tiling, width: int, at: At) -> tuple[float, float]:
    """How much longer the copy engine takes for lhs and rhs, by the share of an operand's lines that begin inside of 128 bytes.  1 for both where lhs is
    windows that overlap in memory: such products were timed as they are."""
    size = at(tiling.lhs.axes[0].size)
    if any(at(s) < size for s in tiling.lhs.strides[1:]):
        return 1.0, 1.0
    return _line_factor(tiling.lhs, width, at), _line_factor(tiling.rhs, width, at)


def _line_factor(source: Source, width: int, at: At) -> float:
    if len(source.strides) < 2 or at(source.axes[0].size) * width <= ROW:
        return 1.0
    return 1 + (_INSIDE_OF_A_LINE - 1) * (1 - gcd(at(source.strides[1]) * width, ROW) / ROW)


def panel(rows: int, along_k: bool, most: int = 64) -> int:
    """Rows of an operand's tile that one box of the copy engine holds: where k is not innermost they are a line, of up to 128 bytes."""
    return rows if along_k else next(p for p in (16, 32, 64) if p >= min(rows, most))


def height(rows: int, along_k: bool, most: int = 64) -> int:
    """Rows of whole panels."""
    each = panel(rows, along_k, most)
    return ceil(rows / each) * each


def shares(s: Wgmma, tiling: Tiling) -> bool:
    """Whether the blocks of a cluster, if there is one, can share tiles: all of a cluster's tiles begin inside, and a block copies whole panels,
    or groups of 8 rows, of the tile that they share."""
    if s.cluster == 1:
        return not s.across
    rows, along_k, each, size = (
        (s.lhs_height, tiling.lhs.along_k, s.tile_n, tiling.n.size) if s.across else (s.tile_n, tiling.rhs.along_k, s.tile_m, tiling.m.size)
    )
    pieces, inside = rows // 8 if along_k else ceil(rows / panel(rows, False)), ceil(size / each) % s.cluster == 0
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    return s.cluster <= 8 and inside and not rewritten and pieces > 0 and pieces % s.cluster == 0

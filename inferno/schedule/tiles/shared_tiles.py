"""Tiles in shared memory: the lines of memory that they consist of, and multicast to the blocks of a cluster that share one."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from inferno.schedule.analysis.cost import At, accessed_bytes
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.tiling import Source, Tiling
from inferno.target import SECTOR

if TYPE_CHECKING:
    from inferno.schedule.matmul.contraction import Contraction
    from inferno.schedule.matmul.wgmma_schedule import Wgmma

# What schedules with clusters take beside their estimates: 102 times of 50 matmuls on an H200 were 1.12 times those, others 0.97 times; 67 times of 13
# whose rows begin inside of a sector 0.88, others of those 0.86.
_TOGETHER, _TOGETHER_INSIDE = 1.12, 1.03
# The same of blocks that have parts of the terms, too, which bring three quarters of what others do (9 times of 7 matmuls on an H100; 1024x8192x1024 in
# two parts of 128x128 31.0 us, not shared 33.2).
_TOGETHER_IN_PARTS = 0.95
# Times longer rows take, by where they begin.  Inside of a sector the copy engine brings them by about 16 bytes a clock, and every other row begins at
# one: a multiprocessor gets 25 to 28 bytes a clock (2048x2056x2048 in 128x256 37.7 us, 512x4104x4096 in 128x128 that two blocks share 38.2,
# 2048x2048x2056, `x @ w`, in 256x160 32.4), of other rows that begin inside of 128 bytes all that products take (2048x2064x2048 and 2048x2080x2048 in
# 128x256 24.2 and 24.0 us; 4096x4128x4096 186, with rhs tiles that two blocks share 181).
_INSIDE_OF_A_SECTOR, _INSIDE_OF_A_LINE = 2.6, 1.3
# Bytes a microsecond of a factor that several tiles read while memory brings it (batches of 8 x 256x1024x2048 in 128x128 17.6 us, in 256x128, which
# read the weights once, 14.8; 128x8192x8192 with a residual in 64x128 46.8, in 128x64 40.0: of 121 matmuls what is chosen then loses 1.5%, not 1.8;
# 256x18944x3584 in 256x128 and four parts 55.9, in 128x128 and two 61.1).
_AGAIN_RATE = 1.2e7


def line_factors(tiling: Tiling, width: int, at: At) -> tuple[float, float]:
    """How much longer the copy engine takes for lhs and rhs whose rows do not all begin at 128 bytes.  1 for both where one is windows that overlap in
    memory: such products were timed as they are."""
    if any(0 < at(s) < at(o.axes[0].size) for o in (tiling.lhs, tiling.rhs) for s in o.strides[1:]):
        return 1.0, 1.0
    return _line_factor(tiling.lhs, width, at), _line_factor(tiling.rhs, width, at)


def _line_factor(source: Source, width: int, at: At) -> float:
    if len(source.strides) < 2 or at(source.axes[0].size) * width <= ROW:
        return 1.0
    pitch = at(source.strides[1]) * width
    return _INSIDE_OF_A_SECTOR if pitch % SECTOR else _INSIDE_OF_A_LINE if pitch % ROW else 1.0


def begins_inside_of_sectors(tiling: Tiling, width: int, at: At) -> bool:
    """Whether rows of a factor do, so that what blocks bring together is worth waiting for each other."""
    return max(line_factors(tiling, width, at)) == _INSIDE_OF_A_SECTOR


def waiting_factor(s: Wgmma, tiling: Tiling, width: int, at: At) -> float:
    """How much longer blocks take because those of a cluster wait for each other."""
    if s.cluster == 1:
        return 1.0
    return _TOGETHER_INSIDE if begins_inside_of_sectors(tiling, width, at) else _TOGETHER_IN_PARTS if s.parts else _TOGETHER


def read_again(s: Wgmma, c: Contraction, tiling: Tiling, at: At) -> float:
    """Microseconds that memory takes longer because tiles of other blocks read a factor at the same time; windows of images are left out."""
    lhs, rhs = s.sharing
    rows, columns = ceil(at(tiling.m.size) / s.tile_m) / rhs, ceil(at(tiling.n.size) / s.tile_n) / lhs
    read = (*(c.rhs.reads if rows > 1 and not c.rhs.has_windows else ()), *(c.lhs.reads if columns > 1 and c.lhs.unfolded is None else ()))
    return sum(accessed_bytes(a, c.sizes, at) for a in read) / _AGAIN_RATE


def panel(rows: int, along_k: bool, most: int = 64) -> int:
    """Rows of an operand's tile that one box of the copy engine holds: where k is not innermost they are a line, of up to 128 bytes."""
    return rows if along_k else next(p for p in (16, 32, 64) if p >= min(rows, most))


def height(rows: int, along_k: bool, most: int = 64) -> int:
    """Rows of whole panels."""
    each = panel(rows, along_k, most)
    return ceil(rows / each) * each


def shared_memory_clocks(s: Wgmma) -> float:
    """Clocks of a step of shared memory, 128 bytes each, where the lhs is read to registers: both tiles are written, the lhs is read once and the
    rhs by each consumer."""
    return 2 * s.tile_m + (1 + s.consumers) * s.tile_n


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

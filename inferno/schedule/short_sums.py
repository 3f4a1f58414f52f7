"""Tiles for contractions with so few terms that the ends of tiles take longer than the products: no wider than there are columns.

What a tile has beyond the last column is not written, but computed like all else, which products that wait for memory hide and ends do not; and
each tile should have so many rows that what is read of each column, and the factor that all tiles share, is read seldom.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.schedule.contraction import Contraction
from inferno.schedule.cost import At, bit_width
from inferno.schedule.result_parts import columns_together, in_sectors, store_maps, tile_parts, whole_lines
from inferno.schedule.tiling import BEHIND, Tiling
from inferno.schedule.wgmma_schedule import FEW, Wgmma, with_short_rows
from inferno.settings import settings
from inferno.symbolic import Int, bounds

# Terms whose products an end of a few operations outlasts, in bytes.  On an H100, with batch norm and SiLU: 32x112x112x16 to 96 90.7 us where 30 are
# those of memory, 32x14x14x112 to 672 11.7 and 3.3; with a bias alone 65536x32 to 32 9.5 and 2.8.
_SHORT = 320
# Bytes of short rows, which terms fill or are more than: 32x56x56x24 to 144, whose terms do neither, took 29.2 us as others are chosen, and 45.4 as these.
_ROWS = (32, 64)
_LINES = (16, 32, 64)  # columns of a tile that has them all, where they are few: a line that the copy engine writes
# Columns of a tile, of 240 of which ptxas spills 12 registers beside three vectors, and results of a consumer's.
_WIDEST, _SUMS = 192, 128 * 128
_STAGES = 12
# Raw slots, of which two leave memory waiting: 32x112x112x32, scaled by image and channel, to 16 took 47 us, where 12.8 are those of memory.
_RAW = 8
# Clocks that the copy engine takes for a row of a box that it brings, or writes, however short it is, and bytes a clock of results that are written
# otherwise.  (On an H100, with batch norm and SiLU, 32x112x112x16 to 96 76 us, of which 30 are memory's; estimates.)
_LOADED, _STORED, _WRITTEN = 4, 12, 20
SHARE = 0.9  # of the tensor core's rate, of which little depends (a guess)


def is_short(c: Contraction, tiling: Tiling, at: At, swapped: bool = False) -> bool:
    """Whether a tile's end takes longer than its products: many rows, the other side if ``swapped``, of few terms, all of one run and of a known
    number."""
    rows, windows = (tiling.n if swapped else tiling.m).size, c.lhs.unfolded is not None
    size = c.K if windows else tiling.k.size  # of windows all taps' terms, as the same product has them where they lie side by side
    known = isinstance(size, int) and (windows or not tiling.steps) and at(rows) > FEW and bounds(rows)[0] > FEW
    filled = known and (2 * size in _ROWS or 2 * size >= _ROWS[-1] or settings().unmeasured)
    return filled and c.rhs.unfolded is None and bit_width(c.lhs.element) == 16 and 2 * size <= _SHORT


def short_schedules(c: Contraction, tiling: Tiling, at: At) -> Iterator[Wgmma]:
    """Tiles of all columns, or of equal parts of them."""
    columns = tiling.n.size
    if not isinstance(columns, int) or c.lhs.unfolded is not None or not is_short(c, tiling, at):
        return
    few = next((n for n in _LINES if columns <= n), 0)
    widths = [few] if few else dict.fromkeys(16 * ceil(columns / parts / 16) for parts in range(ceil(columns / _WIDEST), ceil(columns / _LINES[-1]) + 1))
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    for tile_n in widths:
        for rows in (64, 128):
            if rows * tile_n <= _SUMS:
                for s in _of_rows(rows, tile_n, c, tiling, rewritten):
                    yield s
                    yield from _other_ends(s, c, tiling, at) if settings().unmeasured else ()


def copy_clocks(s: Wgmma, c: Contraction, tiling: Tiling, steps: int) -> float:
    """Clocks that a multiprocessor's copy engine takes for the rows of a tile's boxes, and threads for the sectors that they write."""
    loaded = steps * (s.tile_m + (0 if s.kept else s.tile_n))
    if s.line or s.by_threads:
        return loaded * _LOADED + s.tile_m * s.tile_n * sum(bit_width(d.access.element) // 8 for d in c.destinations) / _WRITTEN
    stored = s.tile_n * ceil(s.tile_m / 64) if s.swapped else s.tile_m * len(tile_parts(s.tile_n, columns_together(c, tiling, s), 1, whole=True))
    return loaded * _LOADED + stored * len(store_maps(c, tiling, s)) * _STORED


def _of_rows(rows: int, tile_n: int, c: Contraction, tiling: Tiling, rewritten: bool) -> Iterator[Wgmma]:
    """Tiles of so many rows of a consumer, in turns or side by side; where warps rewrite tiles, of one consumer beside twice as many of them, too."""
    raw = _RAW if rewritten else 2
    for tile_m, pingpong in ((rows, True), (2 * rows, False)) if isinstance(tiling.m.size, int) else ((2 * rows, False),):
        s = Wgmma(tile_m, tile_n, _STAGES, 2, pingpong=pingpong, raw=raw)
        yield Wgmma(tile_m, tile_n, _STAGES, 2, pingpong=pingpong, raw=raw, buffers=_buffers(s, c, tiling))
    if rewritten:
        yield Wgmma(rows, tile_n, _STAGES, 1, raw=raw, helpers=2)


def _other_ends(s: Wgmma, c: Contraction, tiling: Tiling, at: At) -> Iterator[Wgmma]:
    """``s`` with other ways of results to memory, and with a rhs that is kept."""
    steps = tiling.k_steps(with_short_rows(s, c, tiling, at).row // 2)
    line, threads = whole_lines(c, tiling, s.tile_n), s.tile_n % 16 == 0 and in_sectors(c, tiling)
    for kept in (0, steps) if may_keep(s, tiling) else (0,):
        yield from (replace(s, kept=kept),) if kept else ()
        yield from (replace(s, kept=kept, line=line, buffers=2),) if line else ()
        yield from (replace(s, kept=kept, by_threads=True),) if threads else ()


def fits_ends(s: Wgmma, c: Contraction, tiling: Tiling, steps: Int) -> bool:
    """Whether results can be written, and the rhs kept, as ``s`` says."""
    plain = not (s.swapped or s.registers or s.bring or s.stream) and s.split == s.cluster == 1
    line = not s.line or s.line == whole_lines(c, tiling, s.tile_n)
    threads = not s.by_threads or (s.tile_n % 16 == 0 and in_sectors(c, tiling))
    return plain and line and threads and not (s.line and s.by_threads) and (not s.kept or (s.kept == steps and may_keep(s, tiling)))


def may_keep(s: Wgmma, tiling: Tiling) -> bool:
    """Whether all tiles have the same columns of one rhs, which comes as it is."""
    return tiling.n.size <= s.tile_n and tiling.rhs.raw is None and not tiling.steps and s.chunks == 1 and set(tiling.rhs.axes[2:]) <= {BEHIND}


def _buffers(s: Wgmma, c: Contraction, tiling: Tiling) -> int:
    """Staging buffers of a consumer: with two and an odd number of parts a tile's first part would wait until the last one of the tile before is read."""
    stores = store_maps(c, tiling, s)
    parts = len(tile_parts(s.tile_n, columns_together(c, tiling, s), s.rows // 64)) * len(stores)
    return 3 if parts % 2 and parts > 1 else 2

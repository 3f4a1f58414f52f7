"""Tiles for contractions with so few terms that epilogues take longer than the products: no wider than there are columns.

What a tile has beyond the last column is not written, but computed like all else, which products that wait for memory hide and ends do not; and
each tile should have so many rows that what is read of each column, and the factor that all tiles share, is read seldom.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.element_sizes import bit_width, element_bytes
from inferno.schedule.analysis.cost import At
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.wgmma_schedule import FEW, Wgmma
from inferno.schedule.tiles.result_parts import ROW, columns_together, in_sectors, store_maps, tile_parts, whole_lines
from inferno.schedule.tiles.tile_ends import are_long
from inferno.schedule.tiles.tiling import BEHIND, Tiling
from inferno.symbolic import Int, bounds, hint

# Terms whose products an end of a few operations outlasts, in bytes.  On an H100, with batch norm and SiLU: 32x112x112x16 to 96 90.7 us where 30 are
# those of memory, 32x14x14x112 to 672 11.7 and 3.3; with a bias alone 65536x32 to 32 9.5 and 2.8.
_SHORT = 320
# The same of many rows of fewer columns than a line has, which are no whole parts of it and so are written as pieces (on an H200 25088x240 to 40, the rhs kept,
# 10.3 us, brought for each tile 11.3, in 64x64 by the copy engine 11.8).
_SHORT_OF_FEW, _MANY = 512, 4096
_ROWS = (32, 64)  # bytes of short rows
_LINES = (16, 32, 64)  # columns of a tile that has them all, where they are few: a line that the copy engine writes
# Columns of a tile, of 240 of which ptxas spills 12 registers beside three vectors, and results of a consumer's.
_WIDEST, _SUMS = 192, 128 * 128
_STAGES = 12  # slots
# Raw slots, of which two leave memory waiting: 32x112x112x32, scaled by image and channel, to 16 took 47 us, where 12.8 are those of memory.
_RAW = 8
_MOST_STAGES = 24  # of short rows
_KEPT = 256  # columns of the widest tile, which may have them all
# Rows of a rhs that all blocks read at the same time take so many clocks a tile where they are no whole lines of 128 bytes, each of which all blocks ask for
# several times (on an H100 it is not the copy engine's own rows, of which a multiprocessor gets one in 2.6 clocks with 32 bytes, 4.9 with 64 and 9.5 with
# 128, which is memory's rate, and writes one in 2.8).  Brought once it took, bf16 with batch norm and SiLU: 401408x16 to 96 36.7 us, for each tile 44.7;
# 524288x16 to 64 32.4 and 51.8, 100352x24 to 144 18.8 and 38.1, 25088x40 to 240 11.8 and 14.2; whole lines, 131072x64 to 256, 35.6 and 34.8.
_SAME = 6
# Bytes of which lines of results are multiples where the copy engine writes them in boxes, and otherwise as one piece: such rows of a box take twice as long,
# or parts of a tile are computed again.  (25088x40 to 240 in pieces 11.8 us, by threads 12.6; 100352x96 to 24 5.6 and 6.3, in boxes of 32 columns 6.7;
# but 401408x16 to 96 in pieces 37.8, in boxes 36.7, 524288x16 to 64 45.8 and 33.0, 131072x64 to 256 45.3 and 38.4.)
_PARTS = 64
# Bytes of results that L2 holds: threads write them sooner than the copy engine.  (65536x32 to 32 3.2 and 3.5 us, 6272x112 to 672 in 64x224 9.6 and 10.3;
# but 100352x24 to 144 21.7 and 18.8, 131072x64 to 256 38.1 and 35.6.)  Of wide tiles only those whose ends take long: ten batches of 64 and 128 terms and up
# to 16 MB take 3 to 20% less by the copy engine (32 of 512x64x512 6.5 us on an H100, 8.1 by threads, 96 of 200x64x200 6.1 and 8.7, 64 of 128x128x128 2.9
# and 3.0).
_NEAR = 2**24
_APART = 4  # rounds (401408x16 to 96 in 256 rows 36.7 us, in turns 40.6; 25088x40 to 240 in 128 rows 14.2, in turns 11.9)
SHARE = 0.9  # of the tensor core's rate, of which little depends (a guess)


def is_short(c: Contraction, tiling: Tiling, at: At, swapped: bool = False) -> bool:
    """Whether a tile's end takes longer than its products: many rows, the other side if ``swapped``, of few terms, all of one run and of a known
    number."""
    (rows, columns), windows = (a.size for a in ((tiling.n, tiling.m) if swapped else (tiling.m, tiling.n))), c.lhs.unfolded is not None
    size = c.K if windows else tiling.k.size  # of windows all taps' terms, as the same product has them where they lie side by side
    known = isinstance(size, int) and (windows or not tiling.steps) and at(rows) > FEW and bounds(rows)[0] > FEW
    filled = known and (2 * size in _ROWS or 2 * size >= _ROWS[-1] or (isinstance(columns, int) and columns <= _KEPT))
    few = isinstance(columns, int) and columns <= _LINES[-1] and 2 * columns % _PARTS and not windows and at(rows) >= _MANY
    most = _SHORT_OF_FEW if few else _SHORT
    return filled and c.rhs.unfolded is None and bit_width(c.lhs.element) == 16 and 2 * size <= most


def short_schedules(c: Contraction, tiling: Tiling, at: At) -> Iterator[Wgmma]:
    """Tiles of all columns, or of equal parts of them."""
    columns = tiling.n.size
    if not isinstance(columns, int) or c.lhs.unfolded is not None or not is_short(c, tiling, at):
        return
    few = next((n for n in _LINES if columns <= n), 0)
    parts = range(1 if columns <= _KEPT else ceil(columns / _WIDEST), ceil(columns / _LINES[-1]) + 1)
    widths = [few] if few else [16 * ceil(columns / each / 16) for each in parts]
    widths = [columns, *widths] if columns <= _KEPT and columns % 8 == 0 and whole_lines(c, tiling, columns) % _PARTS else widths
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    for tile_n in dict.fromkeys(widths):
        for rows in (64, 128):
            if rows * tile_n <= _SUMS:
                yield from _of_rows(rows, tile_n, c, tiling, rewritten)


def _of_rows(rows: int, tile_n: int, c: Contraction, tiling: Tiling, rewritten: bool) -> Iterator[Wgmma]:
    """Tiles of so many rows of a consumer, in turns or side by side; where warps rewrite tiles, of one consumer beside twice as many of them, too."""
    raw = _RAW if rewritten else 2
    for tile_m, pingpong in ((rows, True), (2 * rows, False)) if isinstance(tiling.m.size, int) else ((2 * rows, False),):
        s = Wgmma(tile_m, tile_n, _STAGES, 2, pingpong=pingpong, raw=raw)
        yield Wgmma(tile_m, tile_n, _STAGES, 2, pingpong=pingpong, raw=raw, buffers=_buffers(s, c, tiling))
    if rewritten:
        yield Wgmma(rows, tile_n, _STAGES, 1, raw=raw, helpers=2)


def _buffers(s: Wgmma, c: Contraction, tiling: Tiling) -> int:
    """Staging buffers of a consumer: with two and an odd number of parts a tile's first part would wait until the last one of the tile before is read."""
    stores = store_maps(c, tiling, s)
    parts = len(tile_parts(s.tile_n, columns_together(c, tiling, s), s.rows // 64)) * len(stores)
    return 3 if parts % 2 and parts > 1 else 2


def ends_beside(s: Wgmma, rounds: float) -> bool:
    """Whether a consumer's results are written while the other one has sums of its own: with registers for both, and tiles enough to get apart by."""
    return s.pingpong or (rounds > _APART and s.rows * s.tile_n <= _SUMS)


def clocks_of_shared_rows(s: Wgmma, tiling: Tiling) -> float:
    """Clocks a tile that it takes longer because all blocks read the same short rows of the factor with few."""
    source, rows = (tiling.lhs, s.tile_m) if s.swapped else (tiling.rhs, s.tile_n)
    whole = isinstance(tiling.k.size, int) and 2 * tiling.k.size % ROW == 0
    return 0 if s.kept or whole or not source.along_k else _SAME * rows


def with_few_terms(s: Wgmma, c: Contraction, tiling: Tiling, at: At = hint) -> Wgmma:
    """``s`` with rows that are no longer than a short k needs, and with more slots; where all tiles have the same columns of the rhs with that kept, and with
    results written by what takes the least.  Of few rows, and of what windows make, all is as it was measured."""
    plain = s.chunks == s.split == s.cluster == 1 and not s.stream and c.lhs.unfolded is None and c.rhs.unfolded is None
    if not plain or at(tiling.m.size) <= FEW:
        return s
    terms = bounds(tiling.k.size)[1] * element_bytes(c.lhs.element)
    # With the sides exchanged that is known of images whose pixels lie side by side, more of them than there are features.
    short = not (s.registers or s.bring) and is_short(c, tiling, at) and (not s.swapped or at(tiling.m.size) > at(tiling.n.size))
    keeps = short and may_keep(s, tiling)
    row = next((row for row in _ROWS if terms == row or (keeps and terms < row)), s.row)
    if row < s.row:
        s = replace(s, row=row, stages=min(_MOST_STAGES, s.stages * s.row // row))
    if keeps:
        s = replace(s, kept=tiling.k_steps(s.row // 2))
    return _with_end(s, c, tiling, at) if short and not s.swapped else _in_pieces(s, c, tiling)


def _in_pieces(s: Wgmma, c: Contraction, tiling: Tiling) -> Wgmma:
    """``s`` with results that are written as pieces where the copy engine has no boxes for them, and threads would write them one by one."""
    line = 0 if s.swapped or s.registers or s.bring or store_maps(c, tiling, s) else whole_lines(c, tiling, s.tile_n)
    return replace(s, line=line, buffers=1) if line else s


def _with_end(s: Wgmma, c: Contraction, tiling: Tiling, at: At) -> Wgmma:
    """``s`` with the way of results to memory that takes the least."""
    line = whole_lines(c, tiling, s.tile_n)
    if line % _PARTS and (tiling.n.size == s.tile_n or not store_maps(c, tiling, s)):
        return replace(s, line=line, buffers=1)
    written = sum(at(d.access.bytes) for d in c.destinations)
    sooner = written <= _NEAR and (s.tile_n < _LINES[-1] or are_long(c))
    return replace(s, by_threads=True) if sooner and threads_write(s, c, tiling) and store_maps(c, tiling, s) else s


def fits_ends(s: Wgmma, c: Contraction, tiling: Tiling, steps: Int) -> bool:
    """Whether results can be written, and the rhs kept, as ``s`` says."""
    plain = not (s.registers or s.bring or s.stream or (s.swapped and (s.line or s.by_threads))) and s.split == s.cluster == 1
    line = not s.line or s.line == whole_lines(c, tiling, s.tile_n)
    threads = not s.by_threads or threads_write(s, c, tiling)
    return plain and line and threads and not (s.line and s.by_threads) and (not s.kept or (s.kept == steps and may_keep(s, tiling)))


def threads_write(s: Wgmma, c: Contraction, tiling: Tiling) -> bool:
    """Whether four threads of a tile write whole sectors."""
    return s.tile_n % 16 == 0 and in_sectors(c, tiling)


def may_keep(s: Wgmma, tiling: Tiling) -> bool:
    """Whether all tiles have the same columns of one rhs, which comes as it is."""
    whole = isinstance(tiling.n.size, int) and tiling.n.size <= s.tile_n and s.chunks == 1
    return whole and tiling.rhs.raw is None and set(tiling.rhs.axes[2:]) <= {BEHIND, *tiling.steps}

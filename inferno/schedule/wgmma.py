"""The schedule of contractions on Hopper's tensor cores: bf16, f16 and TF32 products, sums in float32."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.mlir import func, walk
from inferno.passes.programs import takes_tf32
from inferno.schedule.contraction import Contraction, Operand, oriented, parse_contraction
from inferno.schedule.cost import CLOCK, At, bit_width, clusters_at_once, moved_bytes
from inferno.schedule.elementwise import supported_body, supported_element
from inferno.schedule.result_parts import ROW, brought_tensors, columns_together
from inferno.schedule.shared_tiles import begins_inside_of_sectors, height, line_factors, panel, read_again, shared_memory_clocks, shares, waiting_factor
from inferno.schedule.tiling import Tiling, tile_contraction
from inferno.schedule.tile_ends import are_long, read_clocks, work_clocks
from inferno.settings import settings
from inferno.symbolic import bounds, hint, product, reach
from inferno.target import Target

@dataclass(frozen=True)
class Shared:
    """Where things lie in a block's dynamic shared memory, in bytes."""

    lhs: int
    rhs: int
    results: int
    raw: int
    barriers: int
    total: int
    brought: int = 0


@dataclass(frozen=True)
class Wgmma:
    """One warpgroup copies tiles of the operands into ``stages`` slots; ``consumers`` warpgroups multiply.

    A tile of ``tile_m`` x ``tile_n`` results belongs to all consumers, by rows, or with ``pingpong`` to one of them, while the
    other writes its own.  ``cluster`` blocks along m share the tiles of the rhs, or with ``across`` blocks along n those of the lhs.
    ``persistent`` blocks walk over tiles, down columns of ``group`` tiles, so that blocks that run together share operands in L2.
    ``buffers`` for results a consumer.
    ``split`` blocks, a cluster, share the terms of one tile and add up in the first one's registers: for few, long sums.  With ``spread``
    each of them adds up and finishes ``share`` of the columns, in turn, which takes less time where a tile is large.
    ``lhs_rows``: if not 0, only so many rows of the lhs come to shared memory, all that there are.  The tensor core takes what lies
    behind them for the others of its 64, whose sums are dropped.  A slot holds ``chunks`` tiles along k.
    ``stream``: the last tiles are dealt out to the blocks by their terms, evenly; who has a tile's first terms adds the others' sums, which
    come through the workspace.
    ``panel``: columns that a box of the rhs has where n is innermost.  ``inside``: the last tile's rows begin where they all lie in
    the tensor; some are computed twice, and written twice alike.
    ``swapped``: the sides of the contraction have each other's place: rows of the results are a tile's columns, of which there may be any
    multiple of 8 (of 64 its rows), and a tile is turned on its way to memory.
    ``resident``: blocks that a multiprocessor has at a time, each with its share of the shared memory and of the registers.
    ``bring``: if not 0, tensors of the results' size that the end of a tile reads come to shared memory, by the copy engine while products run, to
    so many slots of 64 rows a consumer.
    ``registers``: the lhs, TF32 with its terms outermost, goes to the tensor core by registers.  ``rewrite``: prologues are applied to tiles in shared
    memory, by warps of the first ``helpers`` warpgroups, from ``raw`` slots; otherwise they are computed to temporaries first.
    """

    generator: ClassVar[str] = "wgmma"

    tile_m: int = 128
    tile_n: int = 256
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    pingpong: bool = False
    persistent: bool = True
    group: int = 8
    buffers: int = 2
    rewrite: bool = True
    raw: int = 2
    split: int = 1
    lhs_rows: int = 0
    chunks: int = 1
    spread: bool = False
    stream: bool = False
    across: bool = False
    helpers: int = 1
    panel: int = 64
    inside: bool = False
    swapped: bool = False
    resident: int = 1
    bring: int = 0
    registers: bool = False

    @property
    def row(self) -> int:
        """Bytes along k of a tile's row."""
        return ROW

    @property
    def rows(self) -> int:
        """Rows of a tile that one consumer multiplies."""
        return self.tile_m if self.pingpong else self.tile_m // self.consumers

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster * self.split

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + self.helpers)

    @property
    def sharing(self) -> tuple[int, int]:
        """Blocks that share a tile of the lhs, and of the rhs."""
        return (self.cluster, 1) if self.across else (1, self.cluster)

    @property
    def share(self) -> int:
        """Columns that a block of a cluster finishes at a time: an equal share, or as few as the copy engine writes."""
        return self.tile_n // self.split if self.tile_n % (32 * self.split) == 0 else 32

    @property
    def lhs_height(self) -> int:
        """Rows of the lhs's tile in shared memory."""
        return self.lhs_rows or self.tile_m

    def shared(self, raw_bytes: int = 0, rhs_height: int = 0) -> Shared:
        """Slots for the operands, staging for results (64 rows of up to 128 bytes each), as much for what is brought, ``raw`` slots of
        ``raw_bytes``, then barriers.  ``rhs_height``: rows of the rhs's tile, if they are more than ``tile_n``."""
        slots = self.stages * self.chunks * self.row
        rhs = _aligned(slots * self.lhs_height)
        results = rhs + _aligned(slots * (rhs_height or self.tile_n))
        brought = results + self.consumers * self.buffers * 64 * ROW
        raw = brought + self.consumers * self.bring * 64 * ROW
        barriers = raw + self.raw * raw_bytes
        total = barriers + 16 * self.stages + 16 + 16 * self.raw + 16 * self.consumers * self.bring
        return Shared(0, rhs, results, raw, barriers, total, brought)


def _aligned(size: int) -> int:
    """Tiles begin where their swizzle does, whatever its span."""
    return ceil(size / (8 * ROW)) * 8 * ROW


# Tiles, and the share of the tensor core's rate that their inner loop reaches.  Fitted to 690 times of 97 matmuls on an H200, bf16, of
# 72 to 8192 rows, [N, K] and [K, N] weights; the choice by them loses 1.4% to the best of what was timed.
# Other tiles in us: 2048x3072x768 16.5 with 128x96 (128x128 20.7), 640x5120x5120 53.1
# with 128x224 (128x256 58.9), 768x768x3072 9.8 with 128x160 (128x192 11.7), 4096^3 203 with 128x256 (128x128 207),
# 1024x5120x5120 71.1 with 256x160 (128x160 76.7), 160x8192x8192 45.7 with 64x192 (128x128 48.2).
CANDIDATES = (
    (Wgmma(128, 256, 4, 2), 1.0),
    (Wgmma(256, 160, 3, 2), 1.0),
    (Wgmma(256, 128, 4, 2), 0.995),
    (Wgmma(128, 224, 4, 2), 0.985),
    (Wgmma(128, 192, 4, 2), 0.985),
    (Wgmma(128, 160, 8, 2), 0.97),
    (Wgmma(128, 128, 6, 2), 0.97),
    (Wgmma(128, 96, 8, 2), 0.9),
    (Wgmma(128, 64, 8, 2), 0.95),
    (Wgmma(64, 192, 6, 1), 0.88),
    (Wgmma(64, 128, 8, 1), 0.89),
    (Wgmma(64, 64, 12, 1), 0.73),
    (Wgmma(64, 32, 12, 1), 0.365),
)

SPLIT_CANDIDATES = tuple((replace(s, persistent=False, split=split), share) for s, share in CANDIDATES[-2:] for split in (2, 4, 8))
_SPREAD_CANDIDATES = tuple(
    (replace(s, persistent=False, split=split, spread=True), share) for s, share in CANDIDATES if s.consumers == 2 for split in range(2, 9)
)

# With GELU or a residual and long sums they take longer than what their ends hide (2048x4096x4096 with GELU 100.5 us in 128x128, 92.7 without turns in
# 128x256; 8192x4096x4096 388 in 128x128, 370 in 128x160), with short ones not (6304x768x3072 in 128x128).
_PAIRS = tuple(
    (Wgmma(m, n, 12, 2, pingpong=True), share)
    for m, n, share in ((64, 256, 1.0), (64, 192, 0.985), (64, 128, 0.97), (128, 128, 0.92), (128, 160, 0.95))
)
"""Tiles of one consumer each, where the end of one is behind the other's products."""

# Where ends are short that pays, too: 8192x256x1024 8.0 us and 9.1 without turns, 512x768x50257 67.3 and 70.9, 16 x 512x512x2048 28.4, 29.8 in 128x256.
_SHORT_PAIRS = ((Wgmma(128, 128, 12, 2, pingpong=True), 0.95),)
_ALL_COLUMNS = ((Wgmma(64, 256, 5, 1), 0.9),)  # 8 x 1024x2048x256, `x @ w`: 15.3 us; in 128x128, which read the lhs twice, 17.4
_SHARED = tuple((replace(s, cluster=cluster, across=across), share) for s, share in CANDIDATES for cluster in (2, 4) for across in (False, True))


def choose(kernel: func.FuncOp, target: Target) -> Wgmma | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction for Hopper's tensor cores, else None."""
    found = every(kernel, c, target) if target.hopper and (c := parse_contraction(kernel)) is not None else []
    time, best = min(found, key=lambda item: item[0], default=(0.0, None))
    from inferno.schedule.mma import takes_thin  # which is made of this module's
    return None if best is None or takes_thin(kernel, c, target, time, best) else best


def every(kernel: func.FuncOp, c: Contraction, target: Target) -> list[tuple[float, Wgmma]]:
    """Schedules of a kernel by itself, with their estimates: ``candidates``, and those with which something is brought."""
    found = candidates(kernel, c, target)
    return [*found, *bringing(c, target)] if found and settings().unmeasured else found


def candidates(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Wgmma]]:
    """Schedules with their estimates in microseconds; none where ``c`` is not for Hopper's tensor cores.  ``most``: rows that there are at
    most, where that is less than what their number can be."""
    if not target.hopper or precision(kernel, c) is None or not supported(c) or c.is_reduction:
        return []
    from inferno.schedule.thin import beside_each_other, thin_schedules  # which are made of this module's
    width, found = bit_width(c.lhs.element) // 8, []
    for rewrite in (True, False):
        tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=rewrite)
        if tiling is None or (not rewrite and not (tiling.lhs.copied or tiling.rhs.copied)):
            continue
        thin = [_deep(s, tiling, width) for s in thin_schedules(tiling, width, target, at, most=most)]
        if not (c.varies or tiling.lhs.raw or tiling.rhs.raw):
            thin += beside_each_other(thin, tiling, width, target, at)
        known, plain = not c.varies and at(tiling.m.size) > FEW, c.lhs.unfolded is None
        spread = (*_SPREAD_CANDIDATES, *(_ALL_COLUMNS if plain else ())) if at(tiling.m.size) > FEW else ()
        pairs = (_PAIRS if has_whole_lines(c) else ()) if known and are_long(c) else _SHORT_PAIRS if known and plain else ()
        cut = _cut(tiling, target, at, are_long(c)) if not c.varies and tiling.rhs.along_k else ()
        shared = (*_SHARED, *_shared_cut(tiling, target, at)) if known and plain and begins_inside_of_sectors(tiling, width, at) else ()
        for s, share in (*CANDIDATES, *SPLIT_CANDIDATES, *spread, *((s, 1.0) for s in thin), *_one_row(tiling, target), *pairs, *cut, *shared):
            if (s.split > 1 and not splits(s, tiling, width, target, at)) or not shares(s, tiling):
                continue
            s = replace(s, rewrite=rewrite, lhs_rows=s.lhs_rows or rows_there_are(s, tiling), inside=lies_inside(s, c, tiling))
            s = fit(s, c, tiling, target)
            if s is not None:
                found.append((estimate(s, share, c, tiling, target, at), s))
    from inferno.schedule.wgmma_registers import by_registers  # likewise
    mine = [*by_registers(c, target, at)]  # faster than tiles that are turned in shared memory, which take longer than estimated
    return [*(x for x in found if not (mine and x[1].rewrite)), *_turned(c, target, at), *mine]


def bringing(c: Contraction, target: Target) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with their estimates where what the ends of tiles read is brought."""
    width = bit_width(c.lhs.element) // 8
    tiling = None if c.varies else tile_contraction(c, width, only_along_k=width == 4)
    if tiling is None or tiling.m.size <= 2 * FEW:
        return
    for s, share in (*CANDIDATES, *_PAIRS):
        s = replace(s, inside=lies_inside(s, c, tiling))
        for bring in slots_to_bring(s, c, tiling):
            if (made := fit(replace(s, bring=bring), c, tiling, target)) is not None:
                yield estimate(made, share, c, tiling, target), made


def slots_to_bring(s: Wgmma, c: Contraction, tiling: Tiling) -> list[int]:
    """Numbers of slots for what the end of a tile reads: some tiles' parts, as much as keeps memory busy, where anything is brought."""
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    if rewritten or c.varies or s.helpers != 1 or s.split > 1 or s.stream or not (brought := brought_tensors(c, tiling, s)):
        return []
    # A part's other extras are read while the one before is computed; 64 rows further they are the same.
    others = sum(ceil(bit_width(a.element) / 16) for a in set(c.extras) - {b.access for b in brought} if tiling.n.stride(a) != 0)
    held = s.rows * s.tile_n // 128 + others * columns_together(c, tiling, s) // 8 * (2 if s.rows == 64 else 1)
    return [n for n in (4, 2, 6) if n >= len(brought)] if held < _HELD else []


def has_whole_lines(c: Contraction) -> bool:
    """Whether all lines of all tensors, whose sizes are known, begin at 16 bytes."""
    accesses = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations)]
    return all(s in (0, 1) or s * bit_width(a.element) % 128 == 0 for a in accesses for s in a.strides)


def _cut(tiling: Tiling, target: Target, at: At, long: bool) -> Iterator[tuple[Wgmma, float]]:
    """Tiles as wide as fill one to four rounds, with their shares of the tensor core's rate; of one consumer each only where their ends are not ``long``
    (1024x3584x3584 with a residual: 112 columns 41.9 us, 224 of both 36.9)."""
    rows, columns, known = at(tiling.m.size), at(tiling.n.size), set()
    if rows <= FEW or tiling.lhs.raw is not None or tiling.rhs.raw is not None:
        return
    for (tile_m, widest), rounds in itertools.product(_WIDEST.items(), range(1, 5)):
        together = target.multiprocessors * rounds // (ceil(rows / tile_m) * at(tiling.positions))
        tile_n = 16 * ceil(columns / together / 16) if together else 0
        if _NARROWEST <= tile_n <= widest and (tile_m, tile_n) not in known:
            known.add((tile_m, tile_n))
            made = Wgmma(tile_m, tile_n, 8, 2)
            share = _CUT_SHARE * _share_of(made)
            yield made, share
            if tile_m == 128 and tile_n <= _WIDEST[256] and not long:
                yield replace(made, pingpong=True), share


def _shared_cut(tiling: Tiling, target: Target, at: At) -> Iterator[tuple[Wgmma, float]]:
    """Tiles that the blocks of a cluster share, as wide as fill one to four rounds of clusters, with their shares of the tensor core's rate."""
    for tile_m, cluster, across, rounds in itertools.product((128, 256), (2, 4), (False, True), range(1, 5)):
        together = cluster * clusters_at_once(cluster, target.multiprocessors) * rounds // (ceil(at(tiling.m.size) / tile_m) * at(tiling.positions))
        together, unit = (together // cluster * cluster, 16) if across else (together, 8 * cluster)
        tile_n = unit * ceil(at(tiling.n.size) / together / unit) if together else 0
        if 64 <= tile_n <= _WIDEST[tile_m]:
            yield (made := Wgmma(tile_m, tile_n, 8, 2, cluster=cluster, across=across)), _CUT_SHARE * _share_of(made)


def _turned(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with the sides exchanged, and their estimates: where the number of rows is known, and both factors come to shared memory as they are.
    Tiles fill rounds; where the rows are no multiple of 64 they also have just those.  Windows of images stay the lhs."""
    if c.lhs.unfolded is not None:
        return
    width, turned = bit_width(c.lhs.element) // 8, oriented(c, True)
    tiling = tile_contraction(turned, width, only_along_k=width == 4) if not c.varies and at(c.M) > FEW else None
    if tiling is None or any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
        return
    for s, _ in _cut(tiling, target, at, are_long(c)):
        if (made := fit(replace(s, swapped=True), turned, tiling, target)) is not None:
            yield estimate(made, _share_of(made), turned, tiling, target, at), made
    rows = at(tiling.n.size)
    if rows not in _TURNED or rows % 64 == 0:
        return
    tiles = dict.fromkeys(unit * ceil(rows / parts / unit) for parts in range(1, 7) for unit in (16, 32))
    for tile_n, tile_m, split in itertools.product(tiles, (128, 64), range(1, 7)):
        if not 32 <= tile_n <= 256 or (split > 1 and (tile_n % 32 or tile_m == 64)):
            continue
        first = Wgmma(tile_m, tile_n, 8, tile_m // 64, persistent=split == 1, split=split, spread=split > 1, swapped=True)
        if split > 1 and not splits(first, tiling, width, target, at):
            continue
        if (s := fit(first, turned, tiling, target)) is not None:
            yield estimate(s, _share_of(s), turned, tiling, target, at), s


def _share_of(s: Wgmma) -> float:
    """Of the tensor core's rate, by the candidates that are as wide at least."""
    return min(((other.tile_n, share) for other, share in CANDIDATES if other.tile_m == s.tile_m and other.tile_n >= s.tile_n), default=(0, 0.9))[1]


def rows_there_are(s: Wgmma, tiling: Tiling) -> int:
    """``lhs_rows`` where one tile of 128 rows has them all (72x5120x5120: 25.4 us without, 19.2 with them; 100x2048x5632: 13.6 and 9.9)."""
    rows = 8 * ceil(bounds(tiling.m.size)[1] / 8) if tiling.lhs.along_k and isinstance(tiling.m.size, int) else 0
    return rows if 64 < rows < s.tile_m == 128 else 0


def lies_inside(s: Wgmma, c: Contraction, tiling: Tiling) -> bool:
    """Whether the last tile may begin earlier, and has a reason to: rows outside of a tensor take the copy engine longer than those inside
    (200x6144x2048: 23.0 us, and 15.1; 136x3584x4608: 19.0 and 13.3; 300x1024x4096: 8.8 and 7.0)."""
    m, written = tiling.m.size, {d.access.argument for d in c.destinations}
    if not isinstance(m, int) or m < s.tile_m or m % s.tile_m == 0 or s.stream or s.cluster > 1:
        return False
    if not tiling.lhs.along_k or (tiling.lhs.raw is not None and not tiling.lhs.raw_along_k):
        return False  # along its lines the copy engine begins at any 16 bytes (99 rows, of which the last 64 begin at byte 70: an illegal instruction)
    return not any(e.argument in written for e in c.extras)  # computed again from what is there by then, it would be wrong


def _one_row(tiling: Tiling, target: Target) -> list[tuple[Wgmma, float]]:
    """Of 65 to 128 rows one tile, as narrow as lets all multiprocessors have one (72x5120x5120: 16.7 us in 40 columns, 18.4 in 64)."""
    sizes = tiling.m.size, tiling.n.size, tiling.positions
    if not all(isinstance(x, int) for x in sizes) or not 64 < sizes[0] <= 128 or not tiling.rhs.along_k:
        return []
    tile_n = 8 * ceil(sizes[1] * sizes[2] / target.multiprocessors / 8)
    return [(Wgmma(128, tile_n, 8, 2), 0.85)] if 32 < tile_n < 96 else []


def splits(s: Wgmma, tiling: Tiling, width: int, target: Target, at: At) -> bool:
    """Whether all clusters run at once and every block has a few terms, of a number that is known."""
    steps = tiling.k_steps(s.chunks * s.row // width)
    if not isinstance(steps, int):
        return False
    each = ceil(steps / s.split)
    few = at(tiling.tiles(s.tile_m, s.tile_n)) <= clusters_at_once(s.split, target.multiprocessors)
    return few and each >= 4 and (s.split - 1) * each < steps


# Registers of a thread for sums and for what it reads itself of two parts, from which on ptxas spills beside what is brought: with four rows of
# numbers 160 + 20 and 128 + 80 of them (32 and 104 bytes), not 128 + 40 or 96 + 80.
_HELD = 180
FEW = 64  # rows that are multiplied together, however few there are
_CUT_SHARE = 0.98  # of the rate that other tiles reach: where they are as good these are what was measured (2048x3584x3584 in 128x224 73.0 us)
_WIDEST, _NARROWEST = {128: 256, 256: 160}, 80  # columns of tiles that are cut to fill rounds, by rows: what registers hold, and what is worth it
_TURNED = range(FEW + 1, 513)  # rows that tiles with the sides exchanged are tried for: of more, what the last tile has too much is little


def _deep(s: Wgmma, tiling: Tiling, width: int) -> Wgmma:
    """``s`` with as many raw slots as others, where tiles are made of bytes, and seven warps that do it; three are as fast, or 5% faster,
    where a step is three or four loads of 16 bytes for each of their threads (measured: 3584 and 5632 bytes)."""
    if not _of_bytes(tiling):
        return s
    loads = ceil(sum(raw_bytes(s, tiling, ROW // width)) / 16 / 96)
    return replace(s, raw=s.stages, helpers=1 if 3 <= loads <= 4 else 2)


def _of_bytes(tiling: Tiling) -> bool:
    return any(o.raw is not None and bit_width(o.raw.element) == 8 for o in (tiling.lhs, tiling.rhs))


def streams(s: Wgmma, tiling: Tiling, target: Target) -> bool:
    """Whether each block has a tile's steps at least, of a number that is known, and whole rounds are not as good."""
    tiles, steps = tiling.tiles(s.tile_m, s.tile_n), tiling.k_steps(1)
    if not isinstance(tiles, int) or not isinstance(steps, int):
        return False
    return tiles > target.multiprocessors and tiles % target.multiprocessors != 0


def raw_bytes(s: Wgmma, tiling: Tiling, depth: int) -> tuple[int, int]:
    """Bytes of a raw slot's parts: what the lhs and the rhs are made of, for those that are rewritten in shared memory."""
    return tuple(
        0 if o.raw is None else rows * depth * bit_width(o.raw.element) // 8
        for rows, o in ((s.lhs_height, tiling.lhs), (s.tile_n, tiling.rhs))
    )


def fit(s: Wgmma, c: Contraction, tiling: Tiling, target: Target) -> Wgmma | None:
    """``s`` with as many stages as shared memory holds beside raw slots, which are no more; None if that is less than 2, or too few for the
    sums that the blocks of a cluster leave in them."""
    raw = sum(raw_bytes(s, tiling, s.row // (bit_width(c.lhs.element) // 8)))
    rhs = height(s.tile_n, tiling.rhs.along_k, s.panel)
    for stages in range(s.stages, 1, -1):
        made = replace(s, stages=stages, raw=min(s.raw, max(2, stages)))
        shared = made.shared(raw, rhs)
        if shared.total <= shared_of_block(s, target):
            return made if s.split == 1 or s.tile_m * s.tile_n * 4 <= shared.results else None
    return None


def leaves_half(s: Wgmma, target: Target) -> bool:
    """Whether a block of it leaves half of a multiprocessor's shared memory; of tiles that are not rewritten, with k innermost."""
    return s.resident == 1 and s.shared(0, s.tile_n).total <= shared_of_block(replace(s, resident=2), target)


def shared_of_block(s: Wgmma, target: Target) -> int:
    """Bytes of shared memory that a block may have: a multiprocessor has 1 KB more than one may have at most, and each takes 1 KB beside."""
    return (target.shared + 1024) // s.resident // 128 * 128 - 1024


def precision(kernel: func.FuncOp, c: Contraction) -> str | None:
    """``bf16``, ``f16`` or ``tf32``: what the tensor core multiplies; None where it cannot."""
    kind = str(c.lhs.element)
    if str(c.accumulator) != "f32" or c.rhs.element != c.lhs.element:
        return None
    if kind in ("bf16", "f16"):
        return kind if c.lhs.extend == c.rhs.extend == "arith.extf" else None
    return "tf32" if kind == "f32" and (c.tf32 or takes_tf32(kernel)) else None


def supported(c: Contraction) -> bool:
    """Whether the epilogue's types and operations are ones that the generator can inline."""
    places = [*c.extras, *(d.access for d in c.destinations)]
    if any(not supported_element(p.element) or reach(product(p.shape)) >= 2**31 for p in places):
        return False
    written = {d.access.argument: d.access for d in c.destinations}
    if len(written) != len(c.destinations) or any(p.argument in written for p in (*c.lhs.reads, *c.rhs.reads)):
        return False
    # In place, an element may only be read by the thread that writes it.
    if any(e.argument in written and e != written[e.argument] for e in c.extras):
        return False
    return c.epilogue is None or (supported_body(c.epilogue.generic) and not walk(c.epilogue.generic, "tensor.extract"))


_START = 2.0  # microseconds of a kernel that does next to nothing (fitted to weights of 4096 x 4096 and 4096 x 11008: 10.6 and 24.4 us)
_COPY_RATE = 70  # bytes a clock that a multiprocessor gets from L2 (fitted like the tiles' shares)
# Times longer the rhs takes where its lines are a tile's columns, and every other tile begins inside of 128 bytes (columns innermost, 4096^3 in 128x160
# 217 us, in 128x128 180; 3072^3 102 and 80, 8192^3 1739 and 1388; 768x11008x1024 in two parts of 128x96 47.7, of 128x128 32.5).
_STRADDLING = 1.5
_LATENCY = 1200  # clocks from the start of a copy to its arrival
_ALONE = 0.91  # of that time where one consumer reads what arrives (fitted like the tiles' shares)
_SWAPPED, _WIDE = 1.2, 160  # times longer a step takes with the sides exchanged, where a tile has fewer columns: the rows are the operand that each
# consumer reads all of (9 times of 5 matmuls; of 112 columns 0.9 of the estimate with it, as others are, of 160 and 176 0.9 without)
_TURNED_BACK = 1.01  # the same of others: of equal ones the usual is chosen (8 x 256x1024x2048, `x @ w`, in 256x128 14.6 us, exchanged 15.9)
_OUTSIDE = 7  # clocks that a row outside of the tensor takes to become zeros (1 and 16 x 4096 x 4096 in tiles of 64 rows: 21 and 18.5 us)
# Of few rows.  Memory takes longer by this share of the time in which multiprocessors have nothing to read, where k is innermost or not.
# (4x8192x28672, 359 of 396 places taken: 118.6 us, 598 of 660: 117.2, 512 of 528: 113.5; columns innermost, 1x4096x11008 172 of 264: 26.7,
# 115 of 132: 26.7, 16x18944x3584 56 of 132: 39.2, 112: 37.3.)
_IDLE = {True: 0.6, False: 0.35}
# Of that time with columns innermost and half of the shared memory, by whether lines have 128 bytes, where that is still enough bytes under way:
# the next kernel's blocks are there when this one's end, and lines are read closer to each other (8x4096x6144 in tiles of 64 16.1 and 13.4 us,
# 1x4096x11008 in tiles of 128 27.1 and 23, of 96 25.6 and 24.5, 16x18944x3584 36 and 33.2; 1x3584x3072, 3 MB under way: 8.2 and 8.3).
_RESIDENT, _ENOUGH = {True: 0.89, False: 0.95}, 6.5e6
# Of the memory's rate where columns are innermost: of lines of 128 bytes that come to L2 one by one (those of two rhs do not); of 64 bytes, where
# a tile has more of them side by side or not.
# Fitted to 64 times of 21 matmuls (64x4096x11008 25.3 us with three panels of 64 bytes, 27.5 in two parts of three of 128; 32 columns 28).
_BY_LINE, _LINES = 1.04, {False: 0.97, True: 0.88}
# The same where the last panel is not filled, or lines are shorter or begin anywhere (1x8192x28672, 112 and 224 columns: 148 and 132 us;
# 4x4096x11008 in panels of 32 bytes: 36.2; 16x4096x10008 with 64 bytes: 29.6, with 128: 28.1).
_CUT = 0.82
_ISSUE = 200  # clocks that the thread which starts copies needs for those of a slot (an estimate)
_LEAST = 100  # clocks of the products of one tile, however narrow: 64 rows of the lhs are read (an estimate)
# What the blocks of a cluster take to add up, in clocks and bytes a clock: where one of them does (fitted to 64 x 4096 x 4096: tiles of 64
# in two parts 12.1 us, of 32 in one 11.1), and where all read at once (fitted like the tiles' shares).
_EXCHANGE, _EXCHANGE_RATE = 4000, 14
_SPREAD, _SPREAD_RATE = 2300, 12.7
# Where a block of few rows does, after all that memory takes (4x4096x11008, 192 columns in two parts: 26.9; 1x18944x3584, 56 columns: 35.6).
FEW_EXCHANGE, FEW_EXCHANGE_RATE = 1700, 10
_BOTH = {True: 0.1, False: 0.19}  # of the shorter one of clocks and memory's time that the longer one does not hide: of few rows, of others
_HOT = 0.19  # of a product's clocks that it takes longer because the GPU's clock falls under load (fitted like the tiles' shares)
_CLEAR = 1.0  # microseconds of the kernel that lowers flags (an estimate)
_APART = 1.3  # times longer a step takes where blocks are at different terms, and find less in L2 (89 times of 35 matmuls: the middle 80% 1.0 to 1.5)
# Clocks of a step whose tile is made of bytes, and of each of its elements, where k is innermost or not, by scaling it; and with two
# raw slots.  Fitted to 16x4096x4096 (32 columns: 18.1 us), 16x4096x11008 (88: 29, 48: 39.7), 64x8192x28672 (112: 137, 224: 115);
# columns innermost, 16x4096x11008 (192: 36.2, 48: 48.9); two slots, 16x4096x11008 (88: 55, 32: 97) and 16x8192x28672 (56: 324).
_BYTES = {True: (330, 0.078), False: (530, 0.03)}
_TWO_SLOTS = (550, 0.15)
# Clocks of an element of TF32 that is turned in shared memory, and the share of the step's products that are not done meanwhile, since both read there
# (H200, columns innermost: 1024^3 in 64x128 19.7 us, lines along k 8.3; 2048^3 in 128x128 84.7 and 49; 6144^3 in 128x192 2386, in 128x256 along k 1303).
_TURN, _TURN_BESIDE = 0.165, 0.65
STORE_RATE = 20  # bytes a clock and multiprocessor, when all write at once
MEMORY_RATE = 4.3e6  # bytes a microsecond
# Of up to so many rows with k innermost: microseconds that blocks take longer which leave the next kernel's none of the shared memory to begin in
# (4x8192x8192 in 64 columns 35.5, of half of it 34.4; 4x4096x11008 in 88 25.4 and 24.2; 4x13824x5120 in 40 36.9 and 36.6), and the share of memory's
# time where a multiprocessor has two blocks (4x8192x28672 in 112 columns 110.6, one block of them 112.8; 16x28672x8192 110.6 and 111.6).
LEAVES_HALF, _WHOLE, _TWO_BLOCKS = 16, 0.6, 0.991


def _rewriting(s: Wgmma, c: Contraction, tiling: Tiling, depth: int, few: bool, multiply: float) -> float:
    """Clocks that it takes to rewrite a step's tiles: about four instructions an element besides the body, three warps; for ``few``
    rows and bytes, and where tiles are turned beside products of ``multiply`` clocks, what was measured."""
    clocks = _TURN_BESIDE * multiply if tiling.lhs.is_turned or tiling.rhs.is_turned else 0.0
    for rows, operand, source in ((s.lhs_height, c.lhs, tiling.lhs), (s.tile_n, c.rhs, tiling.rhs)):
        if source.raw is not None:
            body = list(operand.prologue.block.operations) if operand.prologue is not None else []
            work = sum(12 if o.operation.name.startswith("math.") else 1 for o in body)
            start, each = (_BYTES[source.along_k] if s.raw > 3 else _TWO_SLOTS) if few and _of_bytes(tiling) else (0, 9 / 96)
            clocks += start + rows * depth * (_TURN + each * work / 9 if source.is_turned else each * (4 + work) / 9)
    return clocks


def _slowed(s: Wgmma, tiling: Tiling, width: int, target: Target, at: At, columns: int) -> float:
    """How much longer memory takes where not all multiprocessors read to the end, and by the lines that are read, of ``columns`` together."""
    blocks = at(tiling.tiles(s.tile_m, s.tile_n)) * s.split
    rounds = ceil(blocks / target.multiprocessors)
    idle = 1 + _IDLE[tiling.rhs.along_k] * (1 - blocks / (rounds * target.multiprocessors))
    if tiling.rhs.along_k:
        return idle
    line = panel(columns, False, s.panel) * width
    cut = columns * width % line != 0 or line < 64 or (line < 128 and at(tiling.rhs.strides[1]) * width % 64 != 0)
    whole = 1.0 if columns < s.tile_n else _BY_LINE
    under_way = blocks * s.stages * s.chunks * height(columns, False, s.panel) * ROW
    idle *= _RESIDENT[line == 128] if s.resident > 1 and rounds == 1 and under_way >= _ENOUGH else 1
    return idle / (_CUT if cut else whole if line == 128 else _LINES[columns * width < 128])


def _ends(s: Wgmma, c: Contraction, tiling: Tiling, rounds: float, products: float, finish: float) -> float:
    """Clocks that the ends of tiles take beside writing them, where products of so many clocks a tile do not hide that."""
    tile_n = s.tile_n // s.split if s.spread else s.tile_n
    brought = [b.access for b in brought_tensors(c, tiling, s)] if s.bring else []
    alone = s.consumers == 1  # its 128 threads read half as fast, and nobody multiplies meanwhile (256x4096x4096 with a residual in 64x128 19.4, 128x64 17.7)
    reads, work = read_clocks(c, s.tile_m, tile_n, brought) * (2 if alone else 1), work_clocks(c, s.tile_m, tile_n, 1 if s.pingpong else s.consumers)
    if s.pingpong:
        return work + max(0.0, (reads + work + finish - products) / 2) * (rounds - 1)
    return work * rounds + reads * (rounds if alone else rounds - 1)


def estimate(
    s: Wgmma, share: float, c: Contraction, tiling: Tiling, target: Target, at: At = hint, second: Operand | None = None,
) -> float:
    """Microseconds: rounds of tiles, each a step of 128 bytes along k at the tensor core's or the copy engine's rate, the last
    round's results, but no less than memory takes; and the temporaries of operands that are computed first.  With a ``second`` rhs its
    columns are among the ``tiling``'s, and of two sums comes one result."""
    width = bit_width(c.lhs.element) // 8
    lhs, rhs = s.sharing
    rounds = at(tiling.tiles(s.tile_m * rhs, s.tile_n * lhs)) / clusters_at_once(s.blocks, target.multiprocessors)
    # Of many rounds the last one costs less than it should: the others' clock rises meanwhile.  (Of two rhs 5.2, 1024x4096x11008, take as long as 6.)
    rounds = rounds if s.stream else ceil(rounds) if rounds <= 4 or second is not None else rounds + 0.5
    # A multiprocessor multiplies 64 x 256 x 32 bytes in 128 clocks, whatever the type.
    few = at(tiling.m.size) <= FEW
    multiply = s.chunks * max(s.tile_m * s.tile_n * 4 / 128 / share, _LEAST) * s.row / ROW
    depth = s.chunks * s.row // width
    wide = height(s.tile_n, tiling.rhs.along_k, s.panel)
    lines = (1, 1) if few or c.lhs.unfolded is not None else line_factors(tiling, width, at)
    straddling = not few and not tiling.rhs.along_k and s.tile_n * width % ROW and at(tiling.n.size) > s.tile_n
    tall, wide = s.lhs_height * lines[0], wide * max(lines[1], _STRADDLING if straddling else 1)
    copied = s.chunks * (tall / lhs + wide / rhs) * s.row
    copied *= _ALONE if s.consumers == 1 and not few and second is None else 1
    step = max(multiply, copied / _COPY_RATE, _rewriting(s, c, tiling, depth, few, multiply), _LATENCY / (s.stages - 1))
    step = step if s.row == ROW else max(step, s.chunks * _ISSUE)
    step = max(step, shared_memory_clocks(s)) if s.registers else step * ((_SWAPPED if s.tile_n < _WIDE else _TURNED_BACK) if s.swapped else 1)
    # The tiles of the last rows may take longer: all others wait for them in the only round, and share them out among several.
    row_tiles = ceil(at(tiling.m.size) / s.tile_m)
    outside = s.chunks * _OUTSIDE * max(0, (row_tiles - 1) * s.tile_m + s.lhs_height - at(tiling.m.size))
    step += 0 if s.inside else max(0, outside - step) / (1 if rounds <= 1 else row_tiles)
    if s.swapped:
        column_tiles = ceil(at(tiling.n.size) / s.tile_n)
        step += max(0, _OUTSIDE * (column_tiles * s.tile_n - at(tiling.n.size)) - step) / (1 if rounds <= 1 else column_tiles)
    step *= _APART if s.stream else 1
    out = sum(bit_width(d.access.element) // 8 for d in c.destinations)
    finish = s.tile_m * s.tile_n * out / STORE_RATE / (1 if second is None else 2)
    shown = 0 if s.pingpong else 0.3  # what of a tile's end is not hidden behind the next one's products
    finish *= ceil(s.tile_n / s.share / s.split) * s.share / s.tile_n if s.spread else 1
    clocks = rounds * ceil(at(tiling.k_steps(depth)) / s.split) * step + finish * (1 + shown * (rounds - 1))
    sums, after = s.tile_m * s.tile_n * 4, 0.0
    if s.spread:
        clocks += _SPREAD + sums / _SPREAD_RATE
    elif s.split > 1 and not (few or s.registers):
        clocks += _EXCHANGE + (s.split - 1) * sums / _EXCHANGE_RATE
    elif s.split > 1:
        warps = ceil((s.lhs_rows or s.tile_m) / 16) / (s.tile_m // 16)  # that have rows of the tensor
        after = FEW_EXCHANGE + (s.split - 1) * sums * warps / FEW_EXCHANGE_RATE
    if s.stream:  # a tile's sums there and back again
        clocks += 2 * sums / _EXCHANGE_RATE
    if second is None and not few and are_long(c):
        clocks += _ends(s, c, tiling, rounds, ceil(at(tiling.k_steps(depth)) / s.split) * step, finish)
    products = at(tiling.tiles(s.tile_m, s.tile_n)) * at(tiling.k_steps(depth)) * s.chunks * s.tile_m * s.tile_n * 4 / 128 * s.row / ROW
    clocks += _HOT * products / target.multiprocessors
    held = {a.argument for a in c.rhs.reads}  # two chunks of one tensor are all of it
    memory = moved_bytes(c, at, () if second is None else [a for a in second.reads if a.argument not in held]) / MEMORY_RATE
    memory += read_again(s, c, tiling, at) if second is None and not few else 0
    if few or s.registers:
        memory *= _slowed(s, tiling, width, target, at, s.tile_n // (1 if second is None else 2))
    if few and tiling.rhs.along_k and second is None and not (c.varies or tiling.lhs.raw or tiling.rhs.raw):
        memory *= _TWO_BLOCKS if s.resident == 2 else 1
        after += 0 if at(tiling.m.size) > LEAVES_HALF or leaves_half(s, target) else _WHOLE * CLOCK
    copies = sum(2 + 2 * at(product(o.shape)) * width / MEMORY_RATE for o in (tiling.lhs, tiling.rhs) if o.copied)
    time = max(clocks / CLOCK, memory) + _BOTH[few] * min(clocks / CLOCK, memory) + after / CLOCK
    return waiting_factor(s, tiling, width, at) * (_START + _CLEAR * s.stream + time + copies)

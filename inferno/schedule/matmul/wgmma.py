"""Which schedules of contractions on Hopper's tensor cores are compared, and which one is chosen."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import At
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.matmul.contraction import Contraction, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.shared_terms import sending, sharing_terms
from inferno.schedule.matmul.short_sums import SHARE, short_schedules, with_few_terms
from inferno.schedule.matmul.thin import beside_each_other, thin_schedules
from inferno.schedule.matmul.wgmma_cost import estimate
from inferno.schedule.matmul.wgmma_registers import by_registers
from inferno.schedule.matmul.wgmma_schedule import (
    FEW, Wgmma, fit, has_few_rows, is_of_bytes, lies_inside, precision, raw_bytes, rows_there_are, splits, supported,
)
from inferno.schedule.tiles.result_parts import ROW, brought_tensors, columns_together, may_be_lines, whole_lines
from inferno.schedule.tiles.shared_tiles import begins_inside_of_sectors, shares
from inferno.schedule.tiles.tile_ends import are_long
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.settings import settings
from inferno.symbolic import hint
from inferno.target import Target, clusters_at_once

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
    (sending(replace(s, persistent=False, split=split, spread=True)), share)
    for s, share in CANDIDATES if s.consumers == 2 or s.tile_n <= 64 for split in range(2, 9)
)

# With GELU or a residual and long sums they take longer than what their ends hide (2048x4096x4096 with GELU 100.5 us in 128x128, 92.7 without turns in
# 128x256; 8192x4096x4096 388 in 128x128, 370 in 128x160), with short ones not (6304x768x3072 in 128x128).
_PAIRS = tuple(
    (Wgmma(m, n, 12, 2, pingpong=True), share)
    for m, n, share in ((64, 256, 1.0), (64, 192, 0.985), (64, 128, 0.97), (128, 128, 0.92), (128, 160, 0.95))
)
"""Tiles of one consumer each, where the end of one is behind the other's products."""

# Of sums of up to so many terms narrow ones, too (768x3072x768 with a residual 9.2 us, in three parts of 128x128 10.9; 192x768x3072 with GELU 4.1 and 4.7);
# of longer ones they copy more than they multiply (192x14336x4096 50.5 us, in two parts of 128x128 46.8).
_NARROW_PAIRS, _NARROW_TERMS = tuple((Wgmma(64, n, 12, 2, pingpong=True), share) for n, share in ((96, 0.9), (64, 0.85))), 4096

# Where ends are short that pays, too: 8192x256x1024 8.0 us and 9.1 without turns, 512x768x50257 67.3 and 70.9, 16 x 512x512x2048 28.4, 29.8 in 128x256.
_SHORT_PAIRS = ((Wgmma(128, 128, 12, 2, pingpong=True), 0.95),)
_ALL_COLUMNS = ((Wgmma(64, 256, 5, 1), 0.9),)  # 8 x 1024x2048x256, `x @ w`: 15.3 us; in 128x128, which read the lhs twice, 17.4
_SHARED = tuple((replace(s, cluster=cluster, across=across), share) for s, share in CANDIDATES for cluster in (2, 4) for across in (False, True))

# Of TF32, where all run at once, blocks side by side that share rows, of so many steps (H100, 1x1, 2048 channels of 32x7x7 to 512 14.3 us, alone 17.4, of 16 to
# 1024 15.9 and 16.6; in clusters of two of 1024 channels of 8x14x14 to 256 8.7, alone 8.2).
_SHARING_ROWS, _LONG = (Wgmma(64, 128, 8, 1, cluster=4, across=True), 0.89), 64

# Registers of a thread for sums and for what it reads itself of two parts, from which on ptxas spills beside what is brought: with four rows of
# numbers 160 + 20 and 128 + 80 of them (32 and 104 bytes), not 128 + 40 or 96 + 80.
_HELD = 180
_ROWS_OF_PLACES = ((128, False, 256), (256, False, 160), (64, True, 256), (128, True, 128))  # with the columns that registers hold
# Of which that was timed, and of an equal part of an image (28x28 in 112 and 160 81.2 us, in 200 85.8: 1x1 by 2, TF32, 32x256x56x56 to 512, on an H200).
_FEWEST_PLACES, _WIDEST_PART = 112, 160
_CUT_SHARE = 0.98  # of the rate that other tiles reach: where they are as good these are what was measured (2048x3584x3584 in 128x224 73.0 us)
_WIDEST, _NARROWEST = {128: 256, 256: 160}, 80  # columns of tiles that are cut to fill rounds, by rows: what registers hold, and what is worth it
_RAW = 6  # slots for tiles that are rewritten: as many as hide a copy's way behind steps of 250 clocks (an estimate)
_EXCHANGED = range(FEW + 1, 513)  # rows that tiles with the sides exchanged are tried for: of more, what the last tile has too much is little


def choose(kernel: func.FuncOp, target: Target) -> Wgmma | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction for Hopper's tensor cores, else None."""
    found = every(kernel, c, target) if target.hopper and (c := parse_contraction(kernel)) is not None else []
    time, best = min(found, key=lambda item: item[0], default=(0.0, None))
    from inferno.schedule.matmul.mma import is_faster  # which is made of this module's
    return None if best is None or is_faster(kernel, c, target, time, best) else best


def every(kernel: func.FuncOp, c: Contraction, target: Target) -> list[tuple[float, Wgmma]]:
    """Schedules of a kernel by itself, with their estimates: ``candidates``, and where something is brought, which is not always faster."""
    found = candidates(kernel, c, target)
    return [*found, *bringing(c, target)] if found and settings().unmeasured else found


def candidates(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Wgmma]]:
    """Schedules with their estimates in microseconds; none where ``c`` is not for Hopper's tensor cores.  ``most``: rows that there are at
    most, where that is less than what their number can be."""
    takes = target.hopper and precision(kernel, c) is not None and supported(c) and not c.is_reduction
    return list(_candidates(c, target, at, most)) if takes else []


@kept_with
def _candidates(c: Contraction, target: Target, at: At, most: int | None) -> list[tuple[float, Wgmma]]:
    width, found = element_bytes(c.lhs.element), []
    for rewrite in (True, False):
        tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=rewrite, offset=True)
        if tiling is None or (not rewrite and not (tiling.lhs.copied or tiling.rhs.copied)):
            continue
        made = (_finished(c, s, share, rewrite, target, at) for s, share in _tried(c, tiling, width, target, at, most))
        found += [m for m in made if m is not None]
    mine = [*by_registers(c, target, at)]  # faster than tiles that are transposed in shared memory, which take longer than estimated
    return [*(x for x in found if not (mine and x[1].rewrite)), *_exchanged(c, target, at), *mine]


@kept_with
def _finished(c: Contraction, s: Wgmma, share: float, rewrite: bool, target: Target, at: At) -> tuple[float, Wgmma] | None:
    """A schedule with what follows from the kernel, and its estimate; None where the kernel cannot have it.  Few are tried anew where ``most`` is another."""
    width = element_bytes(c.lhs.element)
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=rewrite, offset=True)
    if s.split > 1 and not splits(s, tiling, width, target, at):
        return None
    s = replace(s, rewrite=rewrite, lhs_rows=s.lhs_rows or rows_there_are(s, tiling), inside=lies_inside(s, c, tiling))
    if not shares(s, tiling):
        return None
    s = fit(_with_raw_slots(with_few_terms(s, c, tiling, at), tiling), c, tiling, target)
    return None if s is None else (estimate(s, share, c, tiling, target, at), s)


def _tried(c: Contraction, tiling: Tiling, width: int, target: Target, at: At, most: int | None) -> Iterator[tuple[Wgmma, float]]:
    """Schedules for operands as ``tiling`` has them, with their shares of the tensor core's rate."""
    many, plain, long = not has_few_rows(c, tiling, at), c.windows is None, are_long(c)
    if c.rhs.has_windows:
        yield from _of_places(tiling, at)
        return
    yield from (*CANDIDATES, *SPLIT_CANDIDATES)
    if many:
        yield from (*_SPREAD_CANDIDATES, *(_ALL_COLUMNS if plain else ()))
    thin = [_deep(s, tiling, width) for s in thin_schedules(tiling, width, target, at, most=most)]
    if not (c.varies or tiling.lhs.raw or tiling.rhs.raw):
        thin += beside_each_other(thin, tiling, width, target, at)
    yield from ((s, 1.0) for s in thin)
    yield from _one_row(tiling, target)
    if c.varies:
        return
    if many and ((has_whole_lines(c) or may_be_lines(c, tiling)) if long else plain):
        yield from _PAIRS if long else _SHORT_PAIRS
        yield from _NARROW_PAIRS if long and at(c.K) <= _NARROW_TERMS else ()
    yield from ((s, SHARE) for s in short_schedules(c, tiling, at))
    yield from _of_whole_lines(c, tiling) if many and plain else ()
    if tiling.rhs.along_k:
        yield from _cut(tiling, target, at, long)
    if many and plain and not any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
        yield from sharing_terms(tiling, width, target, CANDIDATES)
    if many and plain and width == 4 and tiling.rhs.along_k and tiling.rhs.raw is None:
        yield from _sharing_rows(tiling, target)
    if many and plain and begins_inside_of_sectors(tiling, width, at):
        yield from (*_SHARED, *_shared_cut(tiling, target, at))


def _sharing_rows(tiling: Tiling, target: Target) -> Iterator[tuple[Wgmma, float]]:
    s, steps = _SHARING_ROWS[0], tiling.k_steps(ROW // 4)
    known = all(isinstance(x, int) for x in (tiling.m.size, tiling.n.size, steps))
    if known and steps >= _LONG and tiling.tiles(s.tile_m, s.tile_n) <= s.cluster * clusters_at_once(s.cluster, target.multiprocessors):
        yield _SHARING_ROWS


def copies(s: Wgmma, c: Contraction) -> bool:
    """Whether a kernel in front of it writes a factor anew that is a tensor, and not because its terms lie outermost."""
    plain = not s.swapped and c.lhs.prologue is None and c.rhs.prologue is None
    tiling = tile_contraction(c, element_bytes(c.lhs.element), only_along_k=False, rewrite=s.rewrite, offset=True) if plain else None
    return tiling is not None and (tiling.lhs.copied or tiling.rhs.copied)


def bringing(c: Contraction, target: Target) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with their estimates where what the ends of tiles read is brought."""
    width = element_bytes(c.lhs.element)
    tiling = None if c.varies else tile_contraction(c, width, only_along_k=width == 4, offset=True)
    if tiling is None or tiling.m.size <= 2 * FEW:
        return
    for s, share in (*CANDIDATES, *_PAIRS):
        s = replace(s, inside=lies_inside(s, c, tiling))
        for bring in slots_to_bring(s, c, tiling):
            if (made := fit(with_few_terms(replace(s, bring=bring), c, tiling), c, tiling, target)) is not None:
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


def _of_whole_lines(c: Contraction, tiling: Tiling) -> Iterator[tuple[Wgmma, float]]:
    """Tiles that have all of the results' columns, where lines begin anywhere and are neighbours, so that a tile is written as one piece."""
    columns = tiling.n.size
    tile_n = 16 * ceil(columns / 16) if isinstance(columns, int) else 0
    if tile_n <= _WIDEST[128] and whole_lines(c, tiling, tile_n) % 16:
        for tile_m, consumers, pingpong in ((128, 2, False), (64, 1, False), (64, 2, True), (256, 2, False), (128, 2, True)):
            made = Wgmma(tile_m, tile_n, 8, consumers, pingpong=pingpong)
            if made.rows * tile_n <= 128 * 128:  # what registers hold
                yield made, _share_of(made)


def _exchanged(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with the sides exchanged, and their estimates: where the number of rows is known, and both factors come to shared memory as they are.
    Tiles fill rounds; where the rows are no multiple of 64 they also have just those.  Windows of images stay the lhs."""
    if c.windows is not None:
        return
    width, exchanged = element_bytes(c.lhs.element), oriented(c, True)
    tiling = tile_contraction(exchanged, width, only_along_k=width == 4, offset=True) if not c.varies and at(c.M) > FEW else None
    if tiling is None or any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
        return
    for s, share in _exchanged_tiles(c, exchanged, tiling, target, at):
        s = replace(s, swapped=True)
        if s.split > 1 and not splits(s, tiling, width, target, at):
            continue
        if (made := fit(with_few_terms(s, exchanged, tiling, at), exchanged, tiling, target)) is not None:
            yield estimate(made, share, exchanged, tiling, target, at), made


def _exchanged_tiles(c: Contraction, exchanged: Contraction, tiling: Tiling, target: Target, at: At) -> Iterator[tuple[Wgmma, float]]:
    """Tiles for ``exchanged``, which is ``c`` with the sides exchanged, with their shares of the tensor core's rate."""
    yield from ((s, _share_of(s)) for s, _ in _cut(tiling, target, at, are_long(c)))
    if at(tiling.m.size) > at(tiling.n.size):
        yield from ((s, SHARE) for s in short_schedules(exchanged, tiling, at))
    rows = at(tiling.n.size)
    if rows not in _EXCHANGED or rows % 64 == 0:
        return
    tiles = dict.fromkeys(unit * ceil(rows / parts / unit) for parts in range(1, 7) for unit in (16, 32))
    for tile_n, tile_m, split in itertools.product(tiles, (128, 64), range(1, 7)):
        if 32 <= tile_n <= 256 and (split == 1 or (tile_n % 32 == 0 and tile_m == 128)):
            s = sending(Wgmma(tile_m, tile_n, 8, tile_m // 64, persistent=split == 1, split=split, spread=split > 1, swapped=True))
            yield s, _share_of(s)


def _of_places(tiling: Tiling, at: At) -> Iterator[tuple[Wgmma, float]]:
    """Tiles whose columns are places of an image, as many as others have, or an equal part of all of them; with their shares of the tensor core's rate."""
    places, parts = at(tiling.n.size), range(1, 9)
    widths = dict.fromkeys((256, 192, 160, 128, *(n for n in (16 * ceil(places / each / 16) for each in parts) if n <= _WIDEST_PART)))
    for (tile_m, pingpong, widest), tile_n in itertools.product(_ROWS_OF_PLACES, widths):
        if _FEWEST_PLACES <= tile_n <= widest:
            made = Wgmma(tile_m, tile_n, 8, 2, pingpong=pingpong)
            yield made, _share_of(replace(made, tile_m=128) if pingpong else made)


def _share_of(s: Wgmma) -> float:
    """Of the tensor core's rate, by the candidates that are as wide at least."""
    return min(((other.tile_n, share) for other, share in CANDIDATES if other.tile_m == s.tile_m and other.tile_n >= s.tile_n), default=(0, 0.9))[1]


def _one_row(tiling: Tiling, target: Target) -> list[tuple[Wgmma, float]]:
    """Of 65 to 128 rows one tile, as narrow as lets all multiprocessors have one (72x5120x5120: 16.7 us in 40 columns, 18.4 in 64)."""
    sizes = tiling.m.size, tiling.n.size, tiling.positions
    if not all(isinstance(x, int) for x in sizes) or not 64 < sizes[0] <= 128 or not tiling.rhs.along_k:
        return []
    tile_n = 8 * ceil(sizes[1] * sizes[2] / target.multiprocessors / 8)
    return [(Wgmma(128, tile_n, 8, 2), 0.85)] if 32 < tile_n < 96 else []


def _with_raw_slots(s: Wgmma, tiling: Tiling) -> Wgmma:
    """``s`` with raw slots for what is on its way from memory while a step is rewritten, two of which leave each step waiting for its copies (TF32, 16 images
    of 196 places, 672 channels, scaled by image and channel, to 112 in 128x64 16.7 us on an H200: 1200 clocks for each of 21 steps)."""
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    return replace(s, raw=max(s.raw, _RAW)) if rewritten and not is_of_bytes(tiling) else s


def _deep(s: Wgmma, tiling: Tiling, width: int) -> Wgmma:
    """``s`` with as many raw slots as others, where tiles are made of bytes, and seven warps that do it; three are as fast, or 5% faster,
    where a step is three or four loads of 16 bytes for each of their threads (measured: 3584 and 5632 bytes)."""
    if not is_of_bytes(tiling):
        return s
    loads = ceil(sum(raw_bytes(s, tiling, ROW // width)) / 16 / 96)
    return replace(s, raw=s.stages, helpers=1 if 3 <= loads <= 4 else 2)

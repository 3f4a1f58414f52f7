"""The schedule of narrow products on tensor cores, by ``mma.sync`` from registers: of tall matrices with few columns, whose terms all blocks share, and of
few rows or columns, or small matrices, of which a block has several tiles.

As in ``direct_bf16x6`` every warp reads its terms straight from memory, in wide pieces; numbers of 16 bits are multiplied as they are.  Nothing is padded
in memory: rows and columns of a tile that there are not are those of others, and are not written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK, accessed_bytes, fastest, moved_bytes
from inferno.schedule.matmul import bf16x6, direct_bf16x6, mma, presplit, short_vectors, simt, vectors, wgmma
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct_bf16x6 import DirectBf16x6, Way, way
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.reductions import long_sums, reductions
from inferno.symbolic import ceildiv
from inferno.target import Target


@dataclass(frozen=True)
class Direct(DirectBf16x6):
    """As ``DirectBf16x6``; ``tiles`` of a block are computed by ``warps`` each, or ``parts`` blocks share the terms of a tile, whose sums go to the
    workspace, where a second kernel adds them."""

    generator: ClassVar[str] = "direct"

    parts: int = 1
    tiles: int = 1


# Tiles of a warp, warps of a block, and its threads at most.
_TILES = ((16, 8), (16, 16), (32, 16), (16, 32), (32, 32), (64, 32), (32, 64), (64, 64))
_WARPS, _MOST_THREADS = (1, 2, 4, 8, 16), 512
# Columns, by the bytes of a number, of which a product of so many rows and terms is narrow (one of few rows is others': there the longer factor is a weight,
# which they read as fast), and results and terms of matrices that are small, of which there are so many.
_FEW, _ROWS, _LEAST, _SMALL, _SHORT, _MANY = {2: 16, 4: 32}, 512, 16, 1024, 128, 1024
# Terms of which a product is tall, sides of its results and how many there are at most, by the bytes of its numbers: beyond, tiles in shared memory read each
# factor less often.
_TALL, _SIDE, _RESULTS = 1 << 13, 512, {2: 1 << 14, 4: 1 << 16}
# Steps of a warp whose products of float32 may be added one after the other (as ``bf16x6``'s), and of few columns, which eager may add in trees.
_IN_A_ROW, _IN_A_TREE = 64, 32
# As those of ``direct_bf16x6``: until the first numbers are there and from the last sums to the results, bytes a clock that come from L2, multiply-adds and
# instructions of a clock and multiprocessor, and the part of the second longest of them that the longest does not hide.  Fitted to 845 kernels of 65 products
# on an H200, 22% off each; what is chosen takes 3% longer than the fastest that was timed.
_START, _LOADED, _PRODUCTS, _ISSUED, _SECOND = 1.36, 43.9, 1300, 3.8, 0.5
# Instructions of a warp that load 16 terms of a row, and split them or put pairs of them together where they are neighbours in no line; and more where pieces
# are narrower than eight bytes.
_SPLITTING, _PAIRING, _ALONG, _NARROWER = 3.3, 1.25, 0.13, 1.0
_FEWER = {4: 1.49, 8: 1.08}  # times longer where a multiprocessor has so many warps
_RATE, _LATENCY = 4.0e6, 0.3  # bytes a microsecond of memory; microseconds until what a thread asks for has come
_RESIDENT = 65536  # registers of a multiprocessor
_WALK = 0.04  # of the time longer for each of a warp's steps along the terms, up to four, where others do not share them
_OVERHEAD = 30  # registers of a thread for places and counters
_BLOCKS, _TILE = 820, 67  # that begin in a microsecond; instructions of a warp for the places of a tile and its end
_PARTS, _PARTS_RATE = 1.26, 3.0e6  # microseconds of the second kernel, and bytes of parts that are written and read in one
# What others have to take longer, by their estimates; those of reductions are memory's time, to which multiply-adds come (million a microsecond; on an H200
# 256K rows of 8 and 32 took 40 us in float32 and 24 in bf16, a million of 8 and 8 33 and 20, of 16 and 16 115 and 61), slower of fewer terms than so many
# (2^14 of 16 and 16 6.6 and 12.4).
_CLEARLY, _ADDED, _SPREAD = 1.15, {4: 3.3e6, 2: 5e6}, 1 << 16
SMALL_TILES = 2.0
"""How much longer than estimated tiles of Hopper's instructions take at least where each is all of a small matrix: in bf16 16K of 16x32x16 34 us (estimated 13,
``direct`` takes 8), with a softmax of rows behind it 8K of 16x16x16 32 (7)."""
# Times longer than estimated those of ``wgmma`` take where a factor has its terms outermost, in lines of so few bytes, and is not kept in shared memory
# (4096x1024 by 1024x8 in bf16 10.8 us, 4.3 by the estimate).
_SHORT_LINE, _SHORT_LINES = 32, 2.0


def kind_of(kernel: func.FuncOp, c: Contraction) -> str | None:
    """``bf16`` or ``f16``, which the tensor core multiplies, ``f32`` for numbers that are split into three; None for others."""
    if (found := precision(kernel, c)) in ("bf16", "f16"):
        return found
    return "f32" if all(str(x) == "f32" for x in (c.accumulator, c.lhs.element, c.rhs.element)) else None


def takes(kernel: func.FuncOp, c: Contraction | None, target: Target) -> bool:
    """Whether it is a contraction of known sizes of these types, and no product with a vector, which eager adds in trees."""
    if c is None or target.capability < 80 or c.varies or min(c.M, c.N) < 2 or not simt.supported(c):
        return False
    return kind_of(kernel, c) is not None


def width_of(c: Contraction) -> int:
    """Bytes of a number."""
    return element_bytes(c.lhs.element)


def ways(c: Contraction, s: Direct) -> tuple[Way, Way]:
    """How both factors are read: up to 16 bytes at a time."""
    most = 16 // width_of(c)
    return way(c, c.lhs, c.m, s.tile_m, most), way(c, c.rhs, c.n, s.tile_n, most)


def terms_of(c: Contraction, s: Direct) -> int:
    """Terms of a thread in a step: as many as it reads together."""
    return max(4, *(w.lanes for w in ways(c, s) if w.along_k), 4)


def groups_of(c: Contraction, s: Direct) -> int:
    """Groups of ``ahead`` steps of all warps."""
    return ceildiv(ceildiv(c.K, 4 * terms_of(c, s) * s.warps), s.ahead)


def registers(s: Direct, c: Contraction) -> int:
    """Registers of a thread for sums, a group's numbers and the next one's, parts of a step's or pairs of them."""
    loaded = (s.tile_m + s.tile_n) // 8 * terms_of(c, s) * width_of(c) // 4
    return s.tile_m * s.tile_n // 32 + loaded * s.ahead * min(2, ceildiv(groups_of(c, s), s.parts)) + loaded // 2


def fits(s: Direct, c: Contraction) -> bool:
    """Whether registers and shared memory hold what it needs, and every part has terms, and every load ahead."""
    if (s.tile_m, s.tile_n) not in _TILES or s.warps not in _WARPS or s.ahead not in (1, 2, 4) or s.tiles not in _WARPS or min(s.parts, s.tiles) > 1:
        return False
    if not 32 <= s.threads <= _MOST_THREADS or s.parts < 1 or s.together < 1:
        return False
    groups = groups_of(c, s)
    if s.parts > groups or ceildiv(c.K, 4 * terms_of(c, s)) <= s.warps * (s.ahead - 1):
        return False
    if width_of(c) == 4 and ceildiv(groups, s.parts) * s.ahead > (_IN_A_TREE if min(c.M, c.N) <= simt.VECTOR else _IN_A_ROW):
        return False
    return registers(s, c) + _OVERHEAD <= min(255, _RESIDENT // s.threads)


def candidates(kernel: func.FuncOp, c: Contraction | None, target: Target) -> list[tuple[float, Direct]]:
    """Schedules with their estimates in microseconds; none where neither few columns or rows nor few results of many terms ask for them."""
    if not takes(kernel, c, target):
        return []
    return [(estimate(s, c, target), s) for s in dict.fromkeys(_shapes(c, target)) if fits(s, c)]


def is_tall(c: Contraction) -> bool:
    """Whether it is a product of tall matrices."""
    return c.K >= _TALL and max(c.M, c.N) <= _SIDE and c.B * c.M * c.N <= _RESULTS[width_of(c)]


def is_narrow(c: Contraction) -> bool:
    """Whether it has few columns, and of 16 bits such that Hopper's own instructions read their factor in short lines, or the other in lines that the copy
    engine cannot read, which threads read eight bytes at a time."""
    if c.N > _FEW[width_of(c)] or c.M < _ROWS or c.K < _LEAST:
        return False
    rows = way(c, c.lhs, c.m, 16, 8)
    return width_of(c) == 4 or has_short_lines(c.rhs, c) or (rows.along_k and rows.lanes == 4)


def is_of_small(c: Contraction) -> bool:
    """Whether it is a product of many small matrices."""
    return c.M * c.N <= _SMALL and c.K <= _SHORT and c.B >= _MANY


def _shapes(c: Contraction, target: Target) -> Iterator[Direct]:
    tall, several = is_tall(c), is_narrow(c) or is_of_small(c)
    if not (tall or several):
        return
    for tile_m, tile_n in _TILES:
        if _is_wasted(tile_m, c.M, 16) or _is_wasted(tile_n, c.N, 8):
            continue
        count = c.B * ceildiv(c.M, tile_m) * ceildiv(c.N, tile_n)
        for ahead in (2, 4, 1):
            if tall:
                for warps in (4, 8, 16):
                    s = Direct(tile_m, tile_n, warps, ahead)
                    resident = max(1, _resident(s, c))
                    for rounds in (1, resident, 2 * resident, 4 * resident):  # more parts have shorter sums
                        yield replace(s, parts=min(groups_of(c, s), max(1, target.multiprocessors * rounds // count)))
            else:
                yield from (Direct(tile_m, tile_n, warps, ahead) for warps in (4, 8, 16))
                yield from (Direct(tile_m, tile_n, warps, ahead, 1, 8 // warps) for warps in (1, 2, 4))


def _is_wasted(extent: int, size: int, least: int) -> bool:
    """Whether half of a tile's side is more than there is."""
    return extent > least and extent >= 2 * size


def _resident(s: Direct, c: Contraction) -> int:
    """Blocks that a multiprocessor has at once."""
    return min(_RESIDENT // (s.threads * (registers(s, c) + _OVERHEAD)), 2048 // s.threads, 8)


def estimate(s: Direct, c: Contraction, target: Target) -> float:
    """Microseconds: loads from L2, products or instructions, of which the longest hides a part of the second; no less than memory takes, at its rate or that
    of what is on the way."""
    size, results, depth = width_of(c), s.tile_m * s.tile_n, 4 * terms_of(c, s)
    rows, columns = ceil(c.M / s.tile_m), ceil(c.N / s.tile_n)
    count = c.B * rows * columns
    blocks = ceil(count / s.tiles) * s.parts
    resident = max(1, _resident(s, c))
    share = blocks / target.multiprocessors
    uneven = ceil(share) / share if share <= 4 else 1 + 0.5 / share
    steps = ceil(c.K / (depth * s.warps * s.parts)) * s.warps * s.parts * depth / 16  # of 16 terms
    passes = 6 if size == 4 else 1
    preparing = sum(extent * _preparing(w, size) for w, extent in zip(ways(c, s), (s.tile_m, s.tile_n)))
    issued = steps * (preparing + results * (passes / 128 + (1 / 32 if size == 4 else 0))) / _ISSUED
    issued += s.warps * s.parts * _TILE / _ISSUED
    products = steps * results * 16 * passes / _PRODUCTS
    loads = c.K * (c.M / rows + c.N / columns) * size / _LOADED
    longest, second, _ = sorted((issued, products, loads), reverse=True)
    warps = min(resident, ceil(share)) * s.threads // 32
    few = next((times for most, times in _FEWER.items() if warps <= most), 1.0)
    clocks = count / target.multiprocessors * uneven * (few * (longest + _SECOND * second) + s.warps * s.parts * results * 4 / 64)
    under_way = min(resident * target.multiprocessors, blocks) * s.threads * _under_way(s, c)
    moved = moved_bytes(c) - (accessed_bytes(c.lhs.access, c.sizes) if is_square(c) else 0)
    memory = max(moved / min(_RATE, under_way / _LATENCY), blocks / _BLOCKS)
    computing = clocks / CLOCK
    adding = _PARTS + 2 * count * s.parts * results * 4 / _PARTS_RATE if s.parts > 1 else 0.0
    walked = 1 + _WALK * (min(4, ceil(c.K / (depth * s.warps))) - 1) if s.parts == 1 else 1.0
    return _START + walked * (max(memory, computing) + 0.1 * min(memory, computing)) + adding


def is_square(c: Contraction) -> bool:
    """Whether both factors are the same tensor, which is read once."""
    return None not in (c.lhs.access, c.rhs.access) and c.lhs.access.argument == c.rhs.access.argument and c.M == c.N


def _preparing(w: Way, size: int) -> float:
    narrow = _NARROWER if w.lanes * size < 8 else 0.0
    return narrow + (_SPLITTING if size == 4 else _ALONG if w.along_k else _PAIRING)


def _under_way(s: Direct, c: Contraction) -> float:
    """Bytes that a thread has asked for at a time, each once: rows and columns that there are not bring nothing."""
    there = min(s.tile_m, c.M) + min(s.tile_n, c.N)
    return there / 8 * terms_of(c, s) * width_of(c) * min(s.ahead, ceil(c.K / (4 * terms_of(c, s) * s.warps * s.parts)))


def choose(kernel: func.FuncOp, target: Target) -> Direct | None:
    """The schedule with the lowest estimate if all others take clearly longer; others than Hopper's GPUs have not been measured."""
    c = parse_contraction(kernel) if target.hopper else None
    found = candidates(kernel, c, target) if c is not None and not long_sums.loses_bits(kernel, c) else []
    if not found:
        return None
    time, best = fastest(found)
    return best if time * (1 if is_of_small(c) else _CLEARLY) < others(kernel, c, target) else None


def others(kernel: func.FuncOp, c: Contraction, target: Target) -> float:
    """Microseconds of the fastest other generator."""
    tiles = wgmma.candidates(kernel, c, target)
    best = fastest(tiles)[1]
    if best is None or wgmma.copies(best, c):
        tiles = [*tiles, *mma.candidates(kernel, c, target)]
    short = any(has_short_lines(o, c) for o in (c.lhs, c.rhs))
    slower = SMALL_TILES if is_of_small(c) else 1.0
    found: list[tuple[float, Any]] = [(time * slower * (_SHORT_LINES if short and not getattr(s, "kept", 0) else 1.0), s) for time, s in tiles]
    found += [*vectors.candidates(c, target), *short_vectors.candidates(c, target), *simt.candidates(c, target)]
    if width_of(c) == 4:
        for module in (bf16x6, presplit, direct_bf16x6):
            found += module.candidates(kernel, c, target)
    times = [time for time, _ in found]
    reduced = long_sums.few_results(kernel, c, target)
    if reduced is not None:
        read = reductions.read(kernel, target)
        times.append(reductions.estimate(reduced, read, target) + c.M * c.N * max(c.K, _SPREAD) / _ADDED[width_of(c)])
    return min(times, default=float("inf"))


def has_short_lines(o: Operand, c: Contraction) -> bool:
    """Whether a factor has its terms outermost, and few other numbers in a line."""
    side = c.m if o is c.lhs else c.n
    return o.access is not None and bool(c.k.runs) and c.k.strides(o.access)[-1] != 1 and side.size * width_of(c) < _SHORT_LINE

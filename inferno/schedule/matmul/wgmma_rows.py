"""The schedule of contractions with operations on the rows of their results in one kernel, on Hopper's tensor cores.

As ``wgmma``, with tiles as wide as the result, so that each row lies in the registers of four neighbouring threads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import CLOCK, fastest
from inferno.schedule.maps.supported import supported_body
from inferno.schedule.matmul.row_contraction import RowContraction, parse_rows
from inferno.schedule.matmul.thin import SLOT
from inferno.schedule.matmul.wgmma_cost import STORE_RATE, estimate
from inferno.schedule.matmul.wgmma_schedule import Wgmma, fit, precision, splits, supported
from inferno.schedule.rows.row_steps import RowStep
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.shared_tiles import height
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.symbolic import bounds, hint
from inferno.target import Target

WIDEST = 256
"""Columns of the widest product."""
# Bits of a row's points that may wait in registers for the row's reduction, by thread: 240 registers less those of addresses, operands
# and the parts that are computed.  Up to here ptxas spills little: nothing but for tiles of more than 200 columns whose sums several blocks
# share, or with ping-pong, where a LayerNorm of 256 columns takes 20 to 140 registers too many.
_HELD = 32 * 160
_LANES = 128  # operations of a multiprocessor in a clock
# Operations that a function or a division counts as, an exponential, and a division by what a row has in common.  On an H200 softmax of 4096x512 by N features:
# 3.1, 3.6, 4.1 and 6.0 us for N of 64, 96, 128 and 256 (when all of it counted as 25 and took that, 22 for 96).
_COSTLY, _EXPONENTIAL, _RECIPROCAL = 25, 10, 3


@dataclass(frozen=True)
class WgmmaRows(Wgmma):
    """``tile_n`` is at least as many columns as there are."""

    generator: ClassVar[str] = "wgmma_rows"


def choose(kernel: func.FuncOp, target: Target) -> WgmmaRows | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction with operations on its rows for Hopper's tensor cores."""
    c = read(kernel, target)
    found = list(candidates(c, target)) if c is not None and c.reduces else []
    return fastest(found)[1]


def read(kernel: func.FuncOp, target: Target) -> RowContraction | None:
    """What ``kernel`` computes if that is a contraction with operations on its rows, maybe none that reduces them, of a kind that can be
    generated."""
    c = parse_rows(kernel) if target.hopper else None
    if c is None or precision(kernel, c) not in ("bf16", "f16") or not supported(c):
        return None
    if any(not supported_body(s.generic) or walk(s.generic, "tensor.extract") for s in c.steps):
        return None
    if not all(isinstance(size, int) for size in (c.B, c.N, c.K)):
        return None
    return c if c.N <= WIDEST and _columns(c) // 2 * c.held_bits() <= _HELD else None


def candidates(c: RowContraction, target: Target) -> Iterator[tuple[float, WgmmaRows]]:
    """Schedules with their estimates in microseconds."""
    for rewrite in (True, False):
        tiling = tile_contraction(c, 2, only_along_k=False, rewrite=rewrite)
        if tiling is None or tiling.n.size != c.N or (not rewrite and not (tiling.lhs.copied or tiling.rhs.copied)):
            continue
        for s in _schedules(c, tiling, target):
            s = fit(replace(s, rewrite=rewrite), c, tiling, target)
            if s is not None and (s.split == 1 or _exchanges(s)):
                yield estimate(s, _share(s), c, tiling, target) + _row_time(s, c, tiling, target), s


def _columns(c: RowContraction) -> int:
    return ceil(c.N / 8) * 8


def _schedules(c: RowContraction, tiling: Tiling, target: Target) -> Iterator[WgmmaRows]:
    tile_n, m, most = _columns(c), hint(tiling.m.size), bounds(tiling.m.size)[1]
    raw = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    rows = 8 * ceil(most / 8) % 64 if most < 64 and tiling.lhs.along_k else 0
    for tile_m in (64, 128) if m > 64 else (64,):
        for split in (1, 2, 4, 8) if m > 64 else (1,):  # 16x1024x64 took 4.4 us, and 8.2 in 2 or 4 parts
            slot = ((rows or tile_m) + height(tile_n, tiling.rhs.along_k)) * ROW
            chunks = 1 if raw else min(max(1, SLOT // slot), tiling.k_steps(ROW // 2), 8)
            s = WgmmaRows(tile_m, tile_n, 12, tile_m // 64, persistent=split == 1, split=split, lhs_rows=rows, chunks=chunks)
            if split == 1 or splits(s, tiling, element_bytes(c.lhs.element), target, hint):
                yield s
    if not c.varies and tiling.tiles(64, tile_n) > target.multiprocessors:
        yield WgmmaRows(64, tile_n, 12, 2, pingpong=True)


def _exchanges(s: WgmmaRows) -> bool:
    """Whether the other blocks' sums, which lie in the slots, have room there."""
    return s.tile_m * s.tile_n * 4 <= s.stages * s.chunks * (s.lhs_height + s.tile_n) * ROW


def _share(s: WgmmaRows) -> float:
    """Of the tensor core's rate: by the lines between the tiles that ``wgmma`` has shares of."""
    known = [(32, 0.7), (64, 0.88), (128, 0.97), (256, 1.0)] if s.tile_m == 128 else [(32, 0.45), (64, 0.65), (128, 0.8), (256, 0.9)]
    for (n0, a), (n1, b) in zip(known, known[1:]):
        if s.tile_n <= n1:
            return max(a, a + (b - a) * (s.tile_n - n0) / (n1 - n0))
    return known[-1][1]


def _row_time(s: WgmmaRows, c: RowContraction, tiling: Tiling, target: Target) -> float:
    """Microseconds that the rows' operations take on a multiprocessor: nothing hides the last tile's, and the other consumer's products hide
    the others' with ``pingpong``, and about half of them without.  Results by row are no traffic, which the estimate takes them for."""
    rounds = ceil(hint(tiling.tiles(s.tile_m, s.tile_n)) * s.split / target.multiprocessors)
    work = sum(_work(c, step) for step in c.steps if not step.per_row) / _LANES * (1 + (0.1 if s.pingpong else 0.5) * (rounds - 1))
    stored = sum(element_bytes(d.access.element) for d in c.destinations if c.values[d.source].per_row) / STORE_RATE
    return s.tile_m * s.tile_n * (work - stored) / CLOCK


def _work(c: RowContraction, step: RowStep) -> int:
    """Operations for each point; those on values of rows alone are done once a row."""
    wide = {
        a for a, source in zip(step.block.arguments, step.sources)
        if (isinstance(source, int) and not c.values[source].per_row) or (isinstance(source, Access) and any(source.strides[d] for d in c.n.dims))
    }
    found = 0
    for op in (o.operation for o in step.block.operations):
        if any(v in wide for v in op.operands):
            wide.update(op.results)
            found += _operations(op, wide)
    return found


def _operations(op: ir.Operation, wide: set[ir.Value]) -> int:
    """That an operation on points counts as."""
    if op.name == "arith.divf":
        return _COSTLY if op.operands[1] in wide else _RECIPROCAL
    if op.name == "math.exp":
        return _EXPONENTIAL
    return _COSTLY if op.name.startswith("math.") and op.name != "math.absf" else 1

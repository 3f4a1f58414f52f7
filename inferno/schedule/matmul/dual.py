"""The schedule of two contractions that share an operand and meet elementwise, as in SwiGLU: one kernel for Hopper's tensor cores.

A kernel of this form holds two contractions and one elementwise operation of both (see ``fuse-duals``).  It is computed as one contraction
with twice the columns: a tile of the rhs is half of the one factor and half of the other.
"""

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import At, fastest
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_both
from inferno.schedule.matmul.thin import beside_each_other, thin_schedules
from inferno.schedule.matmul.wgmma import SPLIT_CANDIDATES
from inferno.schedule.matmul.wgmma_cost import estimate
from inferno.schedule.matmul.wgmma_schedule import Wgmma, fit, lies_inside, precision, rows_there_are, splits, supported
from inferno.schedule.tiles.shared_tiles import panel
from inferno.schedule.tiles.tiling import BEHIND, Axis, Source, Tiling, tile_contraction
from inferno.symbolic import hint
from inferno.target import Target


@dataclass(frozen=True)
class Dual(Wgmma):
    """As ``Wgmma``, for a tile of ``tile_m`` x ``tile_n`` results: a slot holds ``tile_n`` rows of either rhs, one behind the other, and a
    consumer has the sums of both."""

    generator: ClassVar[str] = "dual"

    @property
    def wide(self) -> Wgmma:
        """The schedule of the one contraction that both are."""
        return Wgmma(**{**asdict(self), "tile_n": 2 * self.tile_n})


# Tiles with the columns of both, and the share of the tensor core's rate that their inner loop reaches.  Measured on an H200 (bf16 SwiGLU, us,
# by columns of both): 1024x4096x11008 192 246, 128 259, 256 303; 2048x3072x768 192 26.5, 64 rows 31.4, 64 35.7; 8192x5120x13824 256 in
# clusters 3449, 256 rows 3563, 256 3886; 512x4096x11008 224 124, 192 133; 2048x4096x11008 192 478, 224 493; 4096x4096x11008 256 rows 989, 224 1014;
# 768x5120x13824 256 rows 274, 160 289.
CANDIDATES = (
    (Wgmma(128, 256, 4, 2), 0.92),
    (Wgmma(128, 256, 4, 2, cluster=2), 1.0),
    (Wgmma(256, 128, 4, 2), 0.98),
    (Wgmma(128, 224, 8, 2), 0.96),
    (Wgmma(128, 192, 4, 2), 0.98),
    (Wgmma(128, 160, 8, 2), 0.94),
    (Wgmma(128, 128, 6, 2), 0.97),
    (Wgmma(128, 96, 8, 2), 0.92),
    (Wgmma(128, 64, 8, 2), 0.70),
    (Wgmma(64, 128, 8, 1), 0.80),
    (Wgmma(64, 64, 12, 1), 0.65),
    (Wgmma(64, 32, 12, 1), 0.45),
)
# Two consumers that take turns: one's functions and stores are behind the other's products (320x3584x18944 256 of 64 rows 139 us, 128 of 128 201;
# 192x4096x11008 65.8 and 70.5).
_PAIRS = tuple((Wgmma(m, n, 12, 2, pingpong=True), share) for m, n, share in ((64, 256, 0.97), (128, 128, 0.93), (128, 160, 0.95)))


def narrow(s: Wgmma) -> Dual:
    """The schedule of both contractions that ``s`` of the one with all columns is."""
    return Dual(**{**asdict(s), "tile_n": s.tile_n // 2})


@dataclass(frozen=True)
class Pair:
    """``dst = epilogue(sum of lhs * rhs, sum of lhs * second)``: ``contraction`` is the first one, with the epilogue of both."""

    contraction: Contraction
    second: Operand


@dataclass(frozen=True)
class DualTiling:
    """The tiles of the first contraction, and the map of the second's rhs, which has the same axes."""

    tiling: Tiling
    second: Source

    @property
    def wide(self) -> Tiling:
        """Of the one contraction with the columns of both; its maps are not to be used."""
        return replace(self.tiling, n=Axis(self.tiling.n.dims, 2 * self.tiling.n.size))


def parse_pair(kernel: func.FuncOp) -> Pair | None:
    """The two contractions that ``kernel`` is, if they have the same loops and the same lhs; None if it is anything else."""
    found = parse_both(kernel)
    if found is None:
        return None
    first, other = found
    same = all(getattr(first, name) == getattr(other, name) for name in ("sizes", "batch", "m", "n", "k", "lhs", "accumulator", "destinations"))
    return Pair(first, other.rhs) if same else None


def tile_pair(pair: Pair, rewrite: bool) -> DualTiling | None:
    """The tiling of both; None where they differ, or where a rhs does not come to shared memory as it is."""
    c = pair.contraction
    width = element_bytes(c.lhs.element)
    first, other = (tile_contraction(x, width, only_along_k=False, rewrite=rewrite, offset=True) for x in (c, replace(c, rhs=pair.second)))
    if first is None or other is None or replace(other, rhs=first.rhs) != first:
        return None
    rhs, second = first.rhs, other.rhs
    if any(s.copied or s.raw is not None for s in (rhs, second)) or (without_offset(rhs), rhs.along_k) != (without_offset(second), second.along_k):
        return None
    return DualTiling(first, second)


def without_offset(source: Source) -> tuple[Axis, ...]:
    """The axes of a map, but for the one that says where the operand begins."""
    return tuple(a for a in source.axes if a != BEHIND)


def divides(s: Dual, tiling: Tiling) -> bool:
    """Whether a tile's rows of a rhs are whole groups of 8, or whole panels, for each block that copies some of them: the second one's lie
    right behind them.  (Two sums a result are not dealt out further, neither by columns nor by terms.)"""
    return not (s.spread or s.stream) and s.tile_n % (s.sharing[1] * (8 if tiling.rhs.along_k else panel(s.tile_n, False))) == 0


def choose(kernel: func.FuncOp, target: Target) -> Dual | None:
    """The schedule with the lowest estimate if ``kernel`` is such a pair and for Hopper's tensor cores, else None."""
    pair = parse_pair(kernel) if target.hopper else None
    found = candidates(kernel, pair, target) if pair is not None and not pair.contraction.varies else []
    return fastest(found)[1]


def candidates(kernel: func.FuncOp, pair: Pair, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Dual]]:
    """Schedules with their estimates in microseconds; none where ``pair`` is not for Hopper's tensor cores, or other sizes vary than the
    number of rows.  ``most``: rows that there are at most, where that is less than what their number can be."""
    c = pair.contraction
    if not target.hopper or not all(isinstance(size, int) for size in (c.B, c.N, c.K)) or not takes(kernel, pair):
        return []
    width, found = element_bytes(c.lhs.element), []
    for rewrite in (True, False):
        tiles = tile_pair(pair, rewrite)
        if tiles is None or (not rewrite and not tiles.tiling.lhs.copied):
            continue
        wide = tiles.wide
        thin = thin_schedules(wide, width, target, at, factors=2, most=most)
        if wide.rhs.along_k and not c.varies:
            thin += beside_each_other(thin, wide, width, target, at, factors=2)
        for s, share in (*CANDIDATES, *(() if c.varies else _PAIRS), *SPLIT_CANDIDATES, *((s, 1.0) for s in thin)):
            if s.tile_n % 2 or not divides(narrow(s), wide) or (s.split > 1 and not splits(s, wide, width, target, at)):
                continue
            if s.cluster > 1 and (c.varies or ceil(wide.m.size / s.tile_m) % s.cluster or wide.lhs.raw is not None):
                continue
            s = replace(s, rewrite=rewrite, lhs_rows=s.lhs_rows or rows_there_are(s, wide), inside=lies_inside(s, c, wide))
            s = fit(s, c, wide, target)
            if s is not None:
                found.append((estimate(s, share, c, wide, target, at, pair.second), narrow(s)))
    return found


def takes(kernel: func.FuncOp, pair: Pair) -> bool:
    """Whether the generator takes the types and operations, and no result is written to what a factor is read of."""
    c, second = pair.contraction, pair.second
    same = second.prologue is None and (second.element, second.extend) == (c.rhs.element, c.rhs.extend)
    multiplies = precision(kernel, c) in ("bf16", "f16") and not c.is_reduction
    return same and multiplies and supported(c) and supported(replace(c, rhs=second))

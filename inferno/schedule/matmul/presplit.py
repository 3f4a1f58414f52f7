"""The schedule of float32 contractions as six products of bf16 whose rhs has been split before.

Of a frozen weight the kernel has one more argument, ``inferno.parts`` (the number of the argument that it is made of): three tiles of bf16 for the
copy engine.  Any other rhs is split at every call, by a kernel in front: that reads and writes it once, where ``bf16x6`` splits each tile of it for
each tile of rows, in the shared memory that the products need too.  What is computed does not depend on the parts: the factor itself is there too,
for sums that are not finite.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, lcm
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import fastest, moved_bytes
from inferno.schedule.analysis.kept_operands import PARTS, kept
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.matmul import bf16x6, simt
from inferno.schedule.matmul.bf16x6 import DEPTH, Bf16x6, divides, sources, splits
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import precision, supported
from inferno.schedule.tiles.tiling import Source, Tiling
from inferno.symbolic import ceildiv, hint, product
from inferno.target import Target


@dataclass(frozen=True)
class Presplit(Bf16x6):
    """As Bf16x6 without its warps that split: one thread copies the lhs's float32 tiles to ``raw`` slots and the rhs's, three of
    bf16 one behind the other, to ``stages`` slots."""

    generator: ClassVar[str] = "presplit"

    stages: int = 4
    groups: int = 1


# Schedules, and microseconds that a step of one block takes.  Measured on an H200: 1024^3 (128x64: 22.2 us), 2048^3 (127) and 4096^3
# (995, both 128x128); split in front 1024^3 in 64x128 24.8, where 128x64 takes 28.0 and two parts of 128x128 29.4, 6144^3 in 128x144 3560 and 8192^3 8470,
# in 128x128 4035 and 9930; the others of 64 rows are bf16x6's times less an eighth, as 128x64 is.
_CANDIDATES = (
    (Presplit(128, 128, 4, 4), 0.955),
    (Presplit(128, 64, 6, 6), 0.6),
    (Presplit(64, 128, 6, 6, slices=2), 0.56),
    (Presplit(128, 144, 4, 4), 1.06),
    (Presplit(64, 64, 8, 8, slices=2), 0.344),
    (Presplit(64, 32, 12, 12, slices=2), 0.228),
)
_STEPS = {(s.tile_m, s.tile_n): step for s, step in _CANDIDATES}
# Split in front: 1408x2304x1152 66.8 us, 1280^3 39.8 and 1792^3 104 in 128x112 (in 128x64 117), 1536^3 63.5 in 128x144.
_STEPS |= {(128, 96): 0.76, (128, 112): 0.81}
MOST_COLUMNS = 176
"""Of a tile: consumers have registers for the sums of so many, and for those of a step."""
_NARROWEST = 80  # columns of tiles that are cut to fill rounds
# Clusters were not measured: they must promise a twentieth.
_SPLIT = tuple((replace(s, persistent=False, split=split), 1.05 * step) for s, step in _CANDIDATES for split in (2, 4, 8))


def padded(terms: int) -> int:
    """Terms of a line of parts: whole steps."""
    return ceildiv(terms, DEPTH) * DEPTH


def tile(c: Contraction) -> Tiling | None:
    """How ``c`` is cut where its rhs has been split; None if that is not a matrix of weights, or the lhs cannot be copied."""
    tiling = bf16x6.tile(c)
    if tiling is None or c.varies or c.rhs.prologue is not None or any(a.size == 0 for a in (tiling.n, tiling.k)):
        return None
    access, inner, outer = c.rhs.access, tiling.k, tiling.n
    if product(access.shape) != inner.size * outer.size or any(a.stride(access) for a in (*tiling.grid, tiling.m, *tiling.steps)):
        return None
    size = padded(inner.size)
    return replace(tiling, rhs=Source((inner, outer), (1, size), True))


def is_interleaved(c: Contraction, tiling: Tiling) -> bool:
    """Whether the terms of 32 are in the order in which consumers read the lhs: position 16t + 8h + 2q + j has term 8q + 4t + 2h + j."""
    return sources(c, tiling)[0][1].raw_along_k


def raw_bytes(s: Presplit, c: Contraction, tiling: Tiling) -> tuple[int, int]:
    """Bytes of a raw slot's parts: the lhs's tile alone."""
    return bf16x6.raw_bytes(s, c, tiling)[0], 0


def choose(kernel: func.FuncOp, target: Target) -> Presplit | None:
    """The schedule with the lowest estimate for a kernel whose rhs has been split, or is to be in front of it; None where splitting it beside the
    products takes no longer, since three bf16 are half as much again to read, or CUDA cores do not."""
    c = parse_contraction(kernel) if target.hopper else None
    found = candidates(kernel, c, target) if c is not None and not c.varies else []
    if not found:
        return None
    time, best = fastest(found)
    others = [t for t, _ in bf16x6.candidates(kernel, c, target)]
    if not kept(kernel, PARTS):
        others += [t for t, _ in simt.candidates(c, target)]
    return best if time < min(others, default=time + 1) else None


def candidates(kernel: func.FuncOp, c: Contraction, target: Target) -> list[tuple[float, Presplit]]:
    """Schedules with their estimates in microseconds; none where ``c`` is no float32 product of a matrix of weights."""
    takes = target.hopper and precision(kernel, c) is None and supported(c)
    return list(_candidates(c, bool(kept(kernel, PARTS)), target)) if takes else []


@kept_with
def _candidates(c: Contraction, is_split: bool, target: Target) -> list[tuple[float, Presplit]]:
    tiling = tile(c)
    if tiling is None or min(c.M, c.N) <= simt.VECTOR or not (is_split or can_be_split(c, tiling)):
        return []
    ahead, found = 0.0 if is_split else splitting_time(tiling), []
    for s, step in (*_CANDIDATES, *_SPLIT, *_cut(tiling, target)):
        s = fit(s, c, tiling, target)
        if s is not None and (s.split == 1 or splits(s, tiling, target, hint)):
            found.append((ahead + estimate(s, step, c, tiling, target), s))
    return found


def estimate(s: Presplit, step: float, c: Contraction, tiling: Tiling, target: Target) -> float:
    """Microseconds of the kernel that multiplies: as ``bf16x6``'s, but for what there is to read."""
    more = tiling.n.size * (6 * padded(tiling.k.size) - 4 * tiling.k.size)
    return max((moved_bytes(c) + more) / bf16x6.MEMORY_RATE, bf16x6.estimate(s, step, c, tiling, target))


def can_be_split(c: Contraction, tiling: Tiling) -> bool:
    """Whether a kernel can split the rhs: it reads each number with an offset of 32 bits, and so it writes words."""
    return str(c.rhs.access.element) == "f32" and 6 * tiling.n.size * padded(tiling.k.size) < 2**31


_LAUNCH = 2.0  # microseconds of the kernel that splits, beside its bytes (1536^3 is multiplied in 55 us)


def splitting_time(tiling: Tiling) -> float:
    """Microseconds that splitting the rhs in front takes."""
    return _LAUNCH + tiling.n.size * (4 * tiling.k.size + 6 * padded(tiling.k.size)) / bf16x6.MEMORY_RATE


def _cut(tiling: Tiling, target: Target) -> Iterator[tuple[Presplit, float]]:
    """Tiles of 128 rows that are as wide as fill one to four rounds, and microseconds of their steps (1536^3 has 144 tiles of 128x128, more than fit
    into a round, and 132 of 128x144)."""
    together = tiling.positions * ceildiv(tiling.m.size, 128)
    for tile_n in dict.fromkeys(16 * ceil(tiling.n.size / max(1, target.multiprocessors * rounds // together) / 16) for rounds in range(1, 5)):
        if _NARROWEST <= tile_n <= MOST_COLUMNS and tile_n != 128:
            s = Presplit(128, tile_n, 4, 4)
            yield s, step_time(s)


def step_time(s: Presplit) -> float:
    """Microseconds of a step of any tile: between those that were measured, and beyond as columns grow."""
    widths = sorted(n for m, n in _STEPS if m == s.tile_m)
    low = max((n for n in widths if n <= s.tile_n), default=widths[0])
    high = min((n for n in widths if n >= s.tile_n), default=widths[-1])
    if low == high:
        return _STEPS[s.tile_m, low] * max(1.0, s.tile_n / low)
    return _STEPS[s.tile_m, low] + (_STEPS[s.tile_m, high] - _STEPS[s.tile_m, low]) * (s.tile_n - low) / (high - low)


def fit(s: Presplit, c: Contraction, tiling: Tiling, target: Target) -> Presplit | None:
    """``s`` with as many slots as shared memory holds; None if those are none, or do not divide among the steps."""
    steps = tiling.k_steps(DEPTH)
    if s.split == 1 and steps < s.slices:
        s = replace(s, slices=1)
    s = replace(s, persistent=s.persistent and steps % s.slices == 0)
    turn = lcm(s.groups, s.slices)
    while s.raw > 0 and s.shared(sum(raw_bytes(s, c, tiling))).total > target.shared:
        s = replace(s, raw=s.raw - turn) if s.raw > s.stages else replace(s, stages=s.stages - turn)
        if s.stages <= 0:
            return None
    return s if s.raw > 0 and divides(s, tiling) else None

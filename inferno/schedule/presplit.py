"""The schedule of float32 contractions as six products of bf16 whose rhs, a frozen weight, has been split before.

The kernel has one more argument, ``inferno.parts`` (the number of the argument that it is made of): three tiles of bf16 for the copy
engine.  What the kernel computes does not depend on it: the weight itself is there too, for sums that are not finite.
"""

from dataclasses import dataclass, replace
from math import lcm
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule import bf16x6
from inferno.schedule.bf16x6 import DEPTH, Bf16x6, divides, sources, splits
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.cost import moved_bytes
from inferno.schedule.kept_operands import PARTS, kept
from inferno.schedule.tiling import Source, Tiling
from inferno.schedule.wgmma import precision, supported
from inferno.symbolic import ceildiv, hint
from inferno.target import Target


@dataclass(frozen=True)
class Presplit(Bf16x6):
    """As Bf16x6 without its warps that split: one thread copies the lhs's float32 tiles to ``raw`` slots and the rhs's, three of
    bf16 one behind the other, to ``stages`` slots."""

    generator: ClassVar[str] = "presplit"

    stages: int = 4
    groups: int = 1


# Schedules, and microseconds that a step of one block takes.  Measured on an H200: 1024^3 (128x64: 21.4 us), 2048^3 (127) and 4096^3
# (995, both 128x128); the others are bf16x6's times less an eighth, as 128x64 is.
_CANDIDATES = (
    (Presplit(128, 128, 4, 4), 0.955),
    (Presplit(128, 64, 6, 6), 0.573),
    (Presplit(64, 128, 4, 8, slices=2), 0.584),
    (Presplit(64, 64, 8, 8, slices=2), 0.344),
    (Presplit(64, 32, 12, 12, slices=2), 0.228),
)
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
    if access.offset != 0 or any(a.stride(access) for a in (*tiling.grid, tiling.m, *tiling.steps)):
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
    """The schedule with the lowest estimate for a kernel whose rhs has been split; None where splitting it at every call takes no longer,
    since three bf16 are half as much again to read."""
    c = parse_contraction(kernel) if target.hopper and kept(kernel, PARTS) else None
    found = candidates(kernel, c, target) if c is not None else []
    if not found:
        return None
    time, best = min(found, key=lambda item: item[0])
    return best if time < min((t for t, _ in bf16x6.candidates(kernel, c, target)), default=time + 1) else None


def candidates(kernel: func.FuncOp, c: Contraction, target: Target) -> list[tuple[float, Presplit]]:
    """Schedules with their estimates in microseconds; none where ``c`` is no float32 product of a matrix of weights."""
    tiling = tile(c) if target.hopper and precision(kernel, c) is None and supported(c) else None
    found = []
    if tiling is not None:
        more = tiling.n.size * (6 * padded(tiling.k.size) - 4 * tiling.k.size)
        memory = (moved_bytes(c) + more) / bf16x6.MEMORY_RATE
    for s, step in _CANDIDATES + _SPLIT if tiling is not None else ():
        s = _fit(s, c, tiling, target)
        if s is not None and (s.split == 1 or splits(s, tiling, target, hint)):
            found.append((max(memory, bf16x6.estimate(s, step, c, tiling, target)), s))
    return found


def _fit(s: Presplit, c: Contraction, tiling: Tiling, target: Target) -> Presplit | None:
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

"""The schedule of small float32 contractions as six products of bf16 by ``mma.sync``: every warp reads its terms straight from memory to registers.

Where all terms come in one or two rounds of loads a kernel takes as long as those take to arrive: tiles in shared memory, the barriers of their
slots and what a cluster adds up would come on top.
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.analysis.cost import CLOCK, fastest, moved_bytes
from inferno.schedule.matmul import bf16x6, presplit, simt
from inferno.schedule.matmul.contraction import Contraction, Operand, Group, aligned_along
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.symbolic import ceildiv
from inferno.target import STATIC_SHARED, Target

DEPTH = 16
"""Terms of one product of the tensor core."""


@dataclass(frozen=True)
class DirectBf16x6:
    """A block computes ``tile_m`` x ``tile_n`` results; each of its ``warps`` multiplies all of them for every ``warps``-th 16 terms, and in the
    end they add up in shared memory.  ``ahead`` steps of 16 terms are loaded together, before those in front of them are multiplied."""

    generator: ClassVar[str] = "direct_bf16x6"
    parts = tiles = 1  # of those that ``direct`` has (without types, which would say their place among its fields)

    tile_m: int = 32
    tile_n: int = 16
    warps: int = 8
    ahead: int = 2

    @property
    def threads(self) -> int:
        return 32 * self.warps * self.tiles

    @property
    def pitch(self) -> int:
        """Elements from one row of a warp's sums to the next, of which eight rows lie in different banks."""
        return self.tile_n + 8 if self.tile_n % 16 == 0 else self.tile_n

    @property
    def together(self) -> int:
        """Warps of a tile whose sums shared memory holds."""
        return min(self.warps, STATIC_SHARED // (4 * self.tile_m * self.pitch * self.tiles))

    @property
    def loaded(self) -> int:
        """Registers of a step's numbers."""
        return (self.tile_m + self.tile_n) // 2


@dataclass(frozen=True)
class Way:
    """How a warp reads a factor: ``lanes`` neighbours at a time along the terms, or along the tile's other side."""

    along_k: bool
    lanes: int


TILES = ((16, 8), (16, 16), (32, 16), (16, 32), (32, 32), (64, 32), (32, 64))
_WARPS = (4, 8, 16)
# The fastest of these for some product, or within a few percent of it; of four warps, in 16x32 or with four steps together none was the fastest (H200, 23
# products).
_SHAPES = ((16, 16, 8, 2), (32, 16, 8, 2), (16, 16, 16, 1), (32, 16, 16, 1), (32, 32, 8, 1), (32, 32, 8, 2), (16, 8, 8, 2), (64, 32, 8, 1))
_REGISTERS = {4: 200, 8: 200, 16: 80}  # of a thread, for numbers and sums, by the warps of a block
_TWO = 128  # with which two blocks of 8 warps are on a multiprocessor
# Fitted, with the other generators' constants, to 123 times of these on an H200 (in microseconds, terms between rows and columns: 192x384x320 in 16x16 3.5,
# 32x16 3.7, 32x32 4.1; 256x1024x256 5.8, 6.2, 7.4; 512^3 10.6, 10.1, 7.9 and in 64x32 7.2; nine in ten are within 16%).
_START = 1.85  # microseconds until the first numbers are there, and from the last sums to the results
_LOADED = 50.5  # bytes a clock and multiprocessor that come from L2
_PRODUCTS = 1300  # multiply-adds of bf16 a clock by mma.sync
_ISSUED = 3.8  # instructions of warps that a multiprocessor starts in a clock, of four at best
# Instructions of a warp that load and split 16 terms of a row or column (of the assembled kernels), and how many more where lines are no multiples of 16
# bytes, by how many numbers are loaded together (on an H200 96 of 197x197x64 25 us, 200 of 65x65x65 18.1, 64x4097x4097 73).
_SPLITTING, _NARROWER = 3.2, {4: 0.0, 2: 1.5, 1: 3.0}
_SECOND = 0.5  # of the second longest of loads, products and instructions that the longest does not hide
_FEW = {4: 1.8, 8: 1.35}  # times longer where a multiprocessor has so many warps (512^3 in 32x32, one block of 8 warps at a time: 9.2, two: 7.9; of 4 an
# estimate)
_RATE = 3.05e6  # bytes a microsecond that so few loads under way get from memory (16x4096x4096: 23.0, where bf16x6's copies take 21.5)


def ways(c: Contraction, s: DirectBf16x6) -> tuple[Way, Way]:
    """How both factors are read."""
    return way(c, c.lhs, c.m, s.tile_m), way(c, c.rhs, c.n, s.tile_n)


def way(c: Contraction, operand: Operand, side: Group, extent: int, widest: int = 4) -> Way:
    """How a factor is read, at most ``widest`` numbers together."""
    main = max(operand.reads, key=lambda a: sum(x != 0 for x in a.strides))
    found = []
    for along_k, group, most in ((True, c.k, widest), (False, side, min(widest, extent // 8))):
        aligned, lanes = aligned_along(main, group, (c.batch, side, c.k)), most
        while lanes > 1 and not (group.runs and group.run_sizes[-1] % lanes == 0 and aligned >= lanes):
            lanes //= 2
        found.append((bool(group.runs) and group.strides(main)[-1] == 1, lanes, along_k))
    contiguous, lanes, along_k = max(found)
    return Way(along_k, lanes if contiguous else 1)


def takes(kernel: func.FuncOp, c: Contraction | None, target: Target) -> bool:
    """Whether it is a float32 contraction of known sizes, and no product with vectors, which eager adds in trees."""
    if c is None or target.capability < 80 or c.varies or c.is_reduction or precision(kernel, c) is not None or not simt.supported(c):
        return False
    return all(str(x) == "f32" for x in (c.accumulator, c.lhs.element, c.rhs.element)) and min(c.M, c.N) > simt.VECTOR


def registers(s: DirectBf16x6, c: Contraction) -> int:
    """Registers of a thread for sums, a group's numbers and the next one's, and the places of terms that do not lie side by side."""
    groups = ceildiv(ceildiv(c.K, DEPTH * s.warps), s.ahead)
    places = sum(8 * (rows // 8 // way.lanes) * s.ahead for way, rows in zip(ways(c, s), (s.tile_m, s.tile_n)) if not way.along_k)
    return s.tile_m * s.tile_n // 32 + s.loaded * s.ahead * min(2, groups) + s.loaded // 2 + places


def fits(s: DirectBf16x6, c: Contraction) -> bool:
    """Whether registers and shared memory hold what it needs, and every warp has terms."""
    if (s.tile_m, s.tile_n) not in TILES or s.warps not in _WARPS or s.ahead not in (1, 2, 4) or ceildiv(c.K, DEPTH) <= s.warps * (s.ahead - 1):
        return False
    return s.together >= 1 and registers(s, c) <= _REGISTERS[s.warps]


def candidates(kernel: func.FuncOp, c: Contraction | None, target: Target) -> list[tuple[float, DirectBf16x6]]:
    """Schedules with their estimates in microseconds."""
    return [(estimate(s, c, target), s) for s in (DirectBf16x6(*shape) for shape in _SHAPES) if fits(s, c)] if takes(kernel, c, target) else []


def estimate(s: DirectBf16x6, c: Contraction, target: Target) -> float:
    """Microseconds: of each block the loads, the products or the instructions, of which the longest hides half of the second; no less than memory takes."""
    rows, columns = ceil(c.M / s.tile_m), ceil(c.N / s.tile_n)
    share = c.B * rows * columns / target.multiprocessors  # blocks of a multiprocessor
    rounds = ceil(share) if share <= 4 else share + 0.5
    together = 2 if rounds > 1 and s.threads == 256 and registers(s, c) <= _TWO else 1
    steps, results = ceil(c.K / (DEPTH * s.warps)) * s.warps, s.tile_m * s.tile_n
    sides = zip(ways(c, s), (s.tile_m, s.tile_n))
    splitting = sum(extent * (_SPLITTING + _NARROWER[4 * way.lanes // (4 if way.along_k else min(4, extent // 8))]) for way, extent in sides)
    issued = steps * (splitting + results * (6 / 128 + 1 / 32)) / _ISSUED
    products = steps * results * DEPTH * 6 / _PRODUCTS
    loads = c.K * (c.M / rows + c.N / columns) * 4 / _LOADED
    longest, second, _ = sorted((issued, products, loads), reverse=True)
    clocks = rounds * (_FEW.get(s.warps * together, 1.0) * (longest + _SECOND * second) + s.warps * results * 4 / 64)
    return _START + max(clocks / CLOCK, moved_bytes(c) / _RATE)


def choose(kernel: func.FuncOp, target: Target) -> DirectBf16x6 | None:
    """The schedule with the lowest estimate if others would take longer; not measured on other GPUs than Hopper's."""
    if not (target.hopper or takes_unmeasured(kernel.operation)):
        return None
    c = parse_contraction(kernel)
    found = candidates(kernel, c, target)
    if not found:
        return None
    time, best = fastest(found)
    others = [*simt.candidates(c, target), *bf16x6.candidates(kernel, c, target), *presplit.candidates(kernel, c, target)]
    return best if time < min((t for t, _ in others), default=time + 1) else None

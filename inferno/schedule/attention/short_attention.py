"""The schedule of attention of many short rows, in 16 bits: by ``mma.sync`` from registers, a warp for each 16 queries of a head, with all of its keys.

Tiles of 64 queries, as Hopper's own instructions have them, would be mostly padding (windows of an image, frames of a video, the columns of a table).  Nothing
is padded in memory, and nothing waits for a barrier: a warp reads what it multiplies straight to registers, as ``direct`` does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from inferno.mlir import func, ir
from inferno.schedule.analysis.cost import CLOCK, accessed_bytes
from inferno.schedule.attention import attention
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.support import has_supported_accesses
from inferno.schedule.matmul.contraction import Contraction, Destination, Group, Map, Operand
from inferno.schedule.matmul.direct_bf16x6 import Way, way
from inferno.symbolic import Int, bounds, ceildiv, hint
from inferno.target import Target

ROWS = 16
"""Queries of a warp: the rows of a product of the tensor core."""


@dataclass(frozen=True)
class ShortAttention:
    """A block has ``warps`` of them."""

    generator: ClassVar[str] = "short_attention"

    warps: int = 4

    @property
    def threads(self) -> int:
        return 32 * self.warps


@dataclass(frozen=True)
class Side:
    """How a warp reads a factor: of ``extent`` rows (queries, keys, or columns of values), at least as many as there are."""

    way: Way
    extent: int

    @property
    def count(self) -> int:
        """Rows of a thread."""
        return self.extent // 8


@dataclass(frozen=True)
class ShortTiling:
    """Attention as the two products that it is."""

    kernel: AttentionKernel
    scores: Contraction
    values: Contraction

    @cached_property
    def q(self) -> Side:
        return _side(self.scores, self.kernel.q, self.scores.m, self.most_terms, ROWS)

    @cached_property
    def k(self) -> Side:
        return _side(self.scores, self.kernel.k, self.scores.n, self.most_terms)

    @cached_property
    def v(self) -> Side:
        return _side(self.values, self.kernel.v, self.values.n, _PAIR if self.k.way.along_k else 1)

    @property
    def most_terms(self) -> int:
        """That are read together: 16 bytes, of which no lane's are behind the last term."""
        return next(n for n in (8, 4, 2, 1) if n == 1 or 4 * n <= max(16, self.kernel.depth.size))

    @property
    def terms(self) -> int:
        """Of a thread in a step of a product."""
        return max([4, *(s.way.lanes for s in (self.q, self.k) if s.way.along_k)])

    @property
    def steps(self) -> int:
        return ceildiv(self.kernel.depth.size, 4 * self.terms)

    @property
    def tiles(self) -> Int:
        """Warps of the grid that have something to do; the batch may vary."""
        return self.scores.B * ceildiv(self.scores.M, ROWS)

    @property
    def loaded(self) -> int:
        """Numbers that a thread reads: of both factors of scores, and of values."""
        return (self.q.count + self.k.count) * self.steps * self.terms + _PAIR * self.k.count * self.v.count

    @property
    def registers(self) -> int:
        """Of a thread: what it reads, scores and sums."""
        return self.loaded // 2 + 4 * self.k.count + 4 * self.v.count


_MOST_KEYS, _MOST_COLUMNS = 64, 128  # of which a warp holds scores and sums in registers
_PAIR = 2  # keys of a pair of weights
_WARPS = (4, 2, 8, 1)  # of a block; the model does not tell them apart, and so the first is its choice
_REGISTERS, _OVERHEAD = 190, 40  # of a thread, for numbers, and for places and counters
# Bytes of memory a microsecond; microseconds of its start, and of a warp from its first load to its last store; instructions that a multiprocessor starts in a
# clock, and that a warp has for places, for each number of a pair that is read, for each score and each result.  Fitted to 17 times on an H200: 12544x12x8x64
# 142.5 us (a copy of as much: 143), 4096x4x9x32 7.1, 20000x1x8x32 8.1, 512x4x16x32 2.7, 2048x3x49x32 28.1, with a bias 34.0, 1024x8x21x24 10.6.
_RATE, _START, _LATENCY, _ISSUED = 4.0e6, 1.2, 1.1, 3.5
_PLACES, _LOADED, _SCORE, _RESULT = 150, 0.6, 5.0, 2.0


def choose(kernel: func.FuncOp, target: Target) -> ShortAttention | None:
    """The schedule, unless tiles of 64 queries are estimated to take less time."""
    own = time(kernel, target)
    if own is None:
        return None
    other = attention.time(kernel, target)
    return ShortAttention() if other is None or own < other else None


def time(kernel: func.FuncOp, target: Target) -> float | None:
    """Microseconds; None where the generator does not take it."""
    t = read(kernel, target)
    return estimate(t, target) if t is not None else None


def read(kernel: func.FuncOp, target: Target) -> ShortTiling | None:
    """What ``kernel`` computes, if it is attention of few keys that can be generated."""
    a = parse_attention(kernel) if target.capability >= 80 else None
    if a is None or not supported(a):
        return None
    t = ShortTiling(a, *products(a))
    return t if t.registers <= _REGISTERS else None


def supported(a: AttentionKernel) -> bool:
    """Whether types and sizes are ones that the generator takes, and it can inline what is done to scores and results."""
    kinds = {str(x) for x in (a.q.element, a.k.element, a.v.element, a.weight)}
    if len(kinds) != 1 or not kinds & {"bf16", "f16"} or any(bounds(n)[0] < 1 for n in a.sizes):
        return False
    if not all(isinstance(g.size, int) for g in (a.queries, a.keys, a.depth, a.width)) or (a.band is not None and not _is_known(a.band)):
        return False
    if a.keys.size > _MOST_KEYS or max(a.depth.size, a.width.size) > _MOST_COLUMNS:
        return False
    if a.sink is not None or a.dropout is not None or a.weighting is not None or a.blocks is not None or a.pages or a.writes or a.statistics:
        return False
    if a.broken or a.divisor is not None:
        return False
    return has_supported_accesses(a)


def _is_known(band: Band) -> bool:
    return all(end is None or isinstance(end, int) for end in (band.low, band.high))


def products(a: AttentionKernel) -> tuple[Contraction, Contraction]:
    """Queries by keys, whose only result is the score, which nothing stores, and weights by values; weights are in registers, ``q`` stands for them."""
    f32 = ir.F32Type.get()

    def product(n: Group, k: Group, rhs: Operand, epilogue: Map | None, destinations: tuple[Destination, ...]) -> Contraction:
        plain = [replace(o, extend=None) for o in (a.q, rhs)]  # multiplied as they are
        return Contraction(a.sizes, a.batch, a.queries, n, k, *plain, f32, epilogue, destinations, a.tf32, a.module)

    return product(a.keys, a.depth, a.k, a.score, (Destination(0, a.destinations[0].access),)), product(a.width, a.keys, a.v, a.epilogue, a.destinations)


def _side(c: Contraction, operand: Operand, side: Group, most_terms: int, extent: int = 0) -> Side:
    """In as wide pieces as it lies in, unless too many of what it reads were none of its rows."""
    for lanes in (8, 4, 2, 1):
        rows = extent or ceildiv(side.size, 8 * lanes) * 8 * lanes
        if rows % (8 * lanes) or (lanes > 1 and not extent and rows > max(8, 1.25 * side.size)):
            continue
        found = way(c, operand, side, 8 * lanes, max(lanes, most_terms))
        if found.along_k:
            return Side(Way(True, min(found.lanes, most_terms)), extent or ceildiv(side.size, 8) * 8)
        if found.lanes == lanes or lanes == 1:
            return Side(found, rows)
    raise AssertionError(f"no way to read {operand}")


def fits(s: ShortAttention) -> bool:
    """Whether the generator has code for so many warps."""
    return s.warps in _WARPS


def candidates(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, ShortAttention]]:
    """Schedules with their estimates, for the tuner."""
    t = read(kernel, target)
    if t is not None:
        yield from ((estimate(t, target), ShortAttention(warps)) for warps in _WARPS)


def estimate(t: ShortTiling, target: Target) -> float:
    """Microseconds: what memory or instructions take, or one warp after the other."""
    a, c = t.kernel, t.values
    accesses = dict.fromkeys([*(x for o in (a.q, a.k, a.v) for x in o.reads), *a.score_extras, *a.extras, *(d.access for d in a.destinations)])
    memory = sum(accessed_bytes(x, c.sizes) for x in accesses) / _RATE
    narrow = sum(2 * o.count / s for o, s in ((t.q, t.q.way.lanes), (t.k, t.k.way.lanes), (t.v, t.v.way.lanes)))
    products = ceildiv(t.k.count, 2) * t.v.count + t.k.count * t.steps * t.terms // 4
    instructions = _PLACES + _LOADED * t.loaded + narrow + 2 * products + 4 * t.k.count * _SCORE * (1 + len(a.score_extras)) + 4 * t.v.count * _RESULT
    tiles = hint(t.tiles)
    computed = tiles * instructions / target.multiprocessors / _ISSUED / CLOCK
    resident = target.multiprocessors * min(64, 65536 // (32 * (t.registers + _OVERHEAD)))
    return _START + max(memory, computed, tiles / resident * _LATENCY)

"""The schedule of products of few vectors and many columns with few terms, on CUDA cores: lanes of a warp share a column."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, At, fastest, moved_bytes
from inferno.schedule.matmul import simt, vectors
from inferno.schedule.matmul.contraction import Contraction, Group, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.symbolic import hint
from inferno.target import Target


@dataclass(frozen=True)
class ShortVectors:
    """A warp computes all ``rows`` results of the short side times ``width`` columns of the long one, the rhs or, if ``swapped``, the lhs.

    ``share`` lanes have a column together, of which each reads ``terms`` neighbours at a time.  A thread reads ``columns`` of them, a
    multiple of ``share``, finishes as many as are its part, and has up to ``ahead`` loads on the way.  If not ``along_k`` columns are
    neighbours in memory: a thread reads all of its ``columns`` together, and those of ``terms`` one after the other.
    """

    generator: ClassVar[str] = "short_vectors"

    rows: int = 1
    terms: int = 4
    share: int = 4
    columns: int = 4
    ahead: int = 16
    threads: int = 256
    along_k: bool = True
    swapped: bool = False

    @property
    def width(self) -> int:
        """Columns of a warp."""
        return 32 // self.share * self.columns

    def loads(self, terms: int) -> int:
        """Pieces of ``terms`` that a thread has of each column."""
        return ceil(terms / (self.share * self.terms))


def choose(kernel: func.FuncOp, target: Target) -> ShortVectors | None:
    """The schedule with the lowest estimate if ``kernel`` is a product of up to 8 vectors with short sums, and neither longer vectors nor tiles
    are estimated to take less time; else None."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    found = candidates(c, target) if c is not None and not c.varies else []
    if not found:
        return None
    time, best = fastest(found)
    others = [*vectors.candidates(c, target), *vectors.tiles(kernel, c, target, best.terms * bit_width(c.rhs.element) < 64)]
    return best if time <= min((other for other, _ in others), default=time) else None


# (Of 1024 batches of 5x4 by 4x1024 in bf16 an H200 took 3.7 us so, and 42.6 by tiles of 64 rows; of 8x8 by 8x512 4.2 and 21.6, in float32 7.0 and 26.9; of 4096
# of 6x16 by 16x256 14.5 and 36.4, in float32 24.4 and 68.2; of 6x16 by 16x100000 2.1 and 7.0.)
_ROWS, _TERMS = 8, 256
_LOADS = 8  # of a column, whose products a thread adds one after the other
_REGISTERS = 96  # for numbers that are read and sums


def candidates(c: Contraction, target: Target, at: At = hint) -> list[tuple[float, ShortVectors]]:
    """Schedules with their estimates in microseconds; none where the short side has more than 8 results or sums have more than 256 terms, or
    the other factor has neither terms nor columns side by side."""
    if not simt.supported(c) or c.is_reduction:
        return []
    swapped = at(c.N) < at(c.M)
    exchanged = oriented(c, swapped)
    if not all(isinstance(x, int) for x in (exchanged.M, exchanged.K)) or exchanged.M > _ROWS or exchanged.K > _TERMS or not vectors.steps_are_known(exchanged):
        return []
    return [(estimate(s, exchanged, target, at), s) for s in _shapes(exchanged, swapped)]


def _shapes(c: Contraction, swapped: bool) -> Iterator[ShortVectors]:
    most = 16 // max(element_bytes(a.element) for a in c.rhs.reads)
    if _beside(c, c.k):
        terms = vectors.lanes_along(c, c.rhs, c.k, most)
        for share in (1, 2, 4, 8, 16, 32):
            for each in (1, 2, 4):
                s = ShortVectors(c.M, terms, share, share * each, swapped=swapped)
                if share // 2 * terms < c.K and s.loads(c.K) <= _LOADS and _registers(s, c) <= _REGISTERS:
                    yield s
    elif _beside(c, c.n):
        terms = next(t for t in (4, 2, 1) if t == 1 or (c.k.runs and c.k.run_sizes[-1] % t == 0))
        columns = vectors.lanes_along(c, c.rhs, c.n, most)
        for lanes in {columns, max(1, columns // 2)}:
            for share in (1, 2, 4, 8):
                if share <= lanes and share * terms < 2 * c.K:
                    yield ShortVectors(c.M, terms, share, lanes, along_k=False, swapped=swapped)


def _beside(c: Contraction, group: Group) -> bool:
    """Whether the long side's factor has what is neighbours along ``group`` side by side."""
    steps = [a.strides[group.runs[-1][-1]] for a in c.rhs.reads] if group.runs else []
    return 1 in steps and all(s in (0, 1) for s in steps)


def _registers(s: ShortVectors, c: Contraction) -> int:
    """Of numbers of 32 bits: the vectors' terms, sums, and what is on the way."""
    loads = s.loads(c.K)
    return s.rows * (loads * s.terms + s.columns) * (c.accumulator.width // 32) + min(s.ahead, s.columns * loads) * 4


# Bytes that a thread gets in a microsecond, if it reads so many (on an H200 1x4096 of 64 terms in float32 4.0 us, of 256 in bf16 3.2; 1024x2048 of 4 terms
# 11.6, and 13.1 with one of 16 bytes a thread).
_UNDER_WAY, _ENOUGH = 120, 128
_FURTHER = 0.01  # of the time for each further column that a lane finishes (1024x2048 of 16 terms 36.8 us with one, 37.0 with two, 38.1 with four)
_RESIDENT = 48  # warps of a multiprocessor
# Rows from which on registers leave few blocks a multiprocessor, all of which end together: 8x64 by 64x100000 in bf16 took an H200 7.0 us by 196 blocks, one
# after the other, and 4.8 by vectors.
_FEW_ROWS, _REGISTERS_OF_ALL = 4, 1 << 16
_EPILOGUE, _PLACE = 25, 5  # instructions of a result, and of a column to read
_SLOWER = {"f32": 1, "f64": 2}  # times of a multiply-add, and of others
_ISSUED = 4 * CLOCK  # instructions of warps that a multiprocessor starts in a microsecond
_LINE = 128  # bytes of a line of L1, of which a load of a warp takes one a clock


def estimate(s: ShortVectors, c: Contraction, target: Target, at: At = hint) -> float:
    """Microseconds: what memory takes, at its rate or the one of the loads under way, or what is issued; they hide each other in part."""
    warps, loads = at(c.B) * ceil(at(c.N) / s.width), s.loads(c.K)
    size = max(element_bytes(a.element) for a in c.rhs.reads)
    each = loads * (s.columns if s.along_k else s.terms)  # loads of a thread
    read = each * (s.terms if s.along_k else s.columns) * size  # bytes of a thread
    lanes = 32 * at(c.N) / (ceil(at(c.N) / s.width) * s.width)  # of a warp that have a column
    rate = min(MEMORY_RATE, lanes * min(warps, _RESIDENT * target.multiprocessors) * _UNDER_WAY * min(1, read / _ENOUGH))
    memory = moved_bytes(c, at) / rate
    work = warps * max(_instructions(s, c, loads) / _ISSUED, each * _lines(s, c, size) / CLOCK) / target.multiprocessors
    if s.rows > _FEW_ROWS:
        turns = ceil(32 * warps / s.threads) / (target.multiprocessors * max(1, _REGISTERS_OF_ALL // (s.threads * _registers(s, c))))
        memory, work = (x * max(1.0, ceil(turns) / turns) for x in (memory, work))
    return (vectors.START + max(memory, work) + vectors.BOTH * min(memory, work)) * (1 + _FURTHER * (s.columns // s.share - 1) * s.along_k)


def _lines(s: ShortVectors, c: Contraction, size: int) -> float:
    """That a warp's load touches."""
    if not s.along_k:
        return max(s.share, 32 * s.columns * size / _LINE)
    together = s.share * s.terms * size
    distance = min((c.n.strides(a)[-1] * size for a in c.rhs.reads if c.n.runs and c.n.strides(a)[-1]), default=together)
    return max(1, 32 // s.share * min(ceil(together / _LINE), max(distance, together) / _LINE))


def _instructions(s: ShortVectors, c: Contraction, loads: int) -> float:
    """Of a warp, for its columns."""
    sums, slower = s.rows * s.columns, _SLOWER.get(str(c.accumulator), 4)
    widen = s.columns * loads * (s.terms if s.along_k else 1) if c.rhs.extend is not None else 0
    ends = (3 * (s.share - 1) + _EPILOGUE) * sums / s.share + s.rows * loads * 3
    if not s.along_k:
        return s.terms * (widen + loads * (_PLACE + sums * slower)) + ends
    return widen + sums * s.terms * (loads + 1) * slower + s.columns * (loads + _PLACE) + ends

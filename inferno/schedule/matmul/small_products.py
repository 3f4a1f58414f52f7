"""The schedule of products of many small matrices on CUDA cores: a warp has as many of them as its lanes have results for, with nothing in shared memory."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import CLOCK, fastest, moved_bytes
from inferno.schedule.matmul import bf16x6, direct, direct_bf16x6, mma, presplit, short_vectors, simt, vectors, wgmma
from inferno.schedule.matmul.contraction import Contraction, Group, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.reductions import batch_sums, reductions
from inferno.schedule.rows.row_work import body_instructions
from inferno.symbolic import Int, alignment, hint
from inferno.target import Target


@dataclass(frozen=True)
class SmallProducts:
    """A thread has ``rows`` x ``columns`` results of one of the matrices, for which it reads ``terms`` terms of both factors at a time, in as few pieces as
    they lie in; ``share`` lanes have every so many-th of these, and put their sums together.  ``beside``: neighbouring lanes have neighbouring matrices,
    otherwise parts of one."""

    generator: ClassVar[str] = "small_products"

    rows: int = 1
    columns: int = 1
    terms: int = 1
    share: int = 1
    threads: int = 128
    beside: bool = False

    def groups(self, c: Contraction) -> Int:
        """Threads for all results, not counting those that share terms."""
        return c.B * (c.M // self.rows) * (c.N // self.columns)

    def units(self, c: Contraction) -> int:
        """Pieces of terms of a thread."""
        return ceil(c.K // self.terms / self.share)

    def step(self, c: Contraction) -> int:
        """Lanes from one to the next that share terms: those whose columns are neighbours lie between, if a line has several of these."""
        chunks = c.N // self.columns
        beside = any(a.strides[c.n.runs[-1][-1]] == 1 for a in c.rhs.reads) if c.n.runs else False
        return chunks if beside and chunks & (chunks - 1) == 0 and chunks * self.share <= 32 else 1

    def fits(self, c: Contraction) -> bool:
        """Whether all of it divides what it has to, and a thread's work is not too much to write out."""
        powers = all(x > 0 and x & (x - 1) == 0 for x in (self.share, self.threads)) and self.share <= 32 <= self.threads <= 1024
        pieces = ((c.m, self.rows), (c.n, self.columns), (c.k, self.terms))
        if not powers or any(n < 1 or (g.runs[-1:] and g.run_sizes[-1] % n) or (not g.runs and n > 1) for g, n in pieces):
            return False
        if self.beside and (self.share > 1 or not isinstance(c.B, int)):
            return False
        products = self.rows * self.columns * self.terms * self.units(c)
        short = self.units(c) <= _UNITS and products <= _PRODUCTS and products + _making(self, c) <= _INSTRUCTIONS
        return short and self.share // 2 * self.terms < c.K


def choose(kernel: func.FuncOp, target: Target) -> SmallProducts | None:
    """The schedule with the lowest estimate if all others are estimated to take clearly longer."""
    c = parse(kernel) if target.hopper else None
    found = candidates(c, target) if c is not None else []
    if not found:
        return None
    time, best = fastest(found)
    if parse_contraction(kernel).accumulator != c.accumulator:
        return best if not _is_read_whole(kernel, target) else None
    return best if _CLEARLY * time < others(kernel, c, target) else None


def parse(kernel: func.FuncOp) -> Contraction | None:
    """The products that ``kernel`` is, those of 16 bits also where they are added in their own type."""
    c = parse_contraction(kernel)
    return parse_contraction(kernel, narrow=True) if c is not None and str(c.accumulator) in ("bf16", "f16") else c


def _is_read_whole(kernel: func.FuncOp, target: Target) -> bool:
    """Whether sums in their own type, which no generator of products takes, are of terms that lie together in whole vectors: reductions read these as fast.
    Others have lanes for few sums side by side, a block for each matrix (on an H200 262144 of 1x16 by 16x3 in bf16 355 us, 16384 of 1x64 by 64x3 20.5)."""
    read = reductions.read(kernel, target)
    return read is not None and read.along and reductions.pick(read, target).vector * read.bytes >= _PIECE


# Rows, columns and terms of the matrices, and how many there are at least: fewer leave most of a GPU idle, whatever computes them.
_ROWS, _COLUMNS, _TERMS, _MANY = 12, 32, 4096, 512
_PIECE = 16  # bytes that a thread reads at once
# Results of a thread, numbers that it reads at once, and how often and how many products are written out for it.
_RESULTS, _READ, _UNITS, _PRODUCTS = 72, 64, 32, 1024
# Instructions that are written out for products and what makes their factors: powers of 4096 distances by 32 lanes were 12800, and spilled 3.5 KB a thread.
_INSTRUCTIONS = 4096


def supported(c: Contraction) -> bool:
    """Whether they are small matrices of known sizes, many, be it of a number that varies, each result a sum of others than its neighbours'."""
    if not all(isinstance(n, int) for n in (c.M, c.N, c.K)) or not simt.supported(c) or c.is_reduction or not vectors.steps_are_known(c):
        return False
    if any(type(a) is not Access for o in (c.lhs, c.rhs) for a in o.reads):
        return False
    return max(c.M, c.N) <= _COLUMNS and min(c.M, c.N) <= _ROWS and c.K <= _TERMS and hint(c.B) >= _MANY


def candidates(c: Contraction, target: Target) -> list[tuple[float, SmallProducts]]:
    """Schedules with their estimates in microseconds; none for other products than of many small matrices."""
    return [(estimate(s, c, target), s) for s in dict.fromkeys(_shapes(c)) if s.fits(c)] if supported(c) else []


def _shapes(c: Contraction) -> Iterator[SmallProducts]:
    rows, columns, terms = (_parts(g, most, some) for g, most, some in ((c.m, 9, (1, 4)), (c.n, 16, (1, 2, 4, 8)), (c.k, 16, range(16))))
    every = (*c.lhs.reads, *c.rhs.reads, *(d.access for d in c.destinations))
    neighbours = isinstance(c.B, int) and any(a.strides[c.batch.runs[-1][-1]] == 1 for a in every)
    for m in rows:
        for n in columns:
            for k in terms:
                if m * n > _RESULTS or (m + n) * k > _READ:
                    continue
                if neighbours:
                    yield SmallProducts(m, n, k, beside=True)
                for share in (1, 2, 4, 8, 16, 32):
                    if share // 2 * k < c.K:
                        yield SmallProducts(m, n, k, share)


def _parts(group: Group, most: int, some: Container[int]) -> list[int]:
    """Numbers of neighbours along a group that a thread may have: ``some``, and as many as there are or may be."""
    size = group.run_sizes[-1] if group.runs else 1
    divisors = [n for n in range(1, min(size, most) + 1) if size % n == 0]
    return [n for n in divisors if n in some or n == divisors[-1]]


def pieces(a: Access, c: Contraction, group: Group, count: int, terms: int) -> list[tuple[int, int]]:
    """Where ``count`` x ``terms`` elements lie, from the first one on: pieces that are read together, (begin, length), in as few accesses of up to 16 bytes
    as alignment allows."""
    return _pieces(places(a, c, group, count, terms), aligned(a, c, group, count, terms))


def places(a: Access, c: Contraction, group: Group, count: int, terms: int) -> tuple[tuple[int, ...], ...]:
    """Of each of ``count`` neighbours along a group those of the terms, relative to the first one."""
    along, deep = (a.strides[g.runs[-1][-1]] if g.runs else 0 for g in (group, c.k))
    return tuple(tuple(i * along + j * deep for j in range(terms)) for i in range(count))


def aligned(a: Access, c: Contraction, group: Group, count: int, terms: int) -> int:
    """Elements that are aligned together wherever such a block begins."""
    steps = [a.offset]
    for g, n in ((c.batch, 1), (group, count), (c.k, terms)):
        if g.runs:
            inner, size = g.strides(a)[-1], g.run_sizes[-1]
            steps += [*g.strides(a)[:-1], *((inner * n,) if size != n else ())]
    return alignment(steps, max(1, _PIECE // element_bytes(a.element)))


@cache
def _pieces(where: tuple[tuple[int, ...], ...], most: int) -> list[tuple[int, int]]:
    wanted = {x for row in where for x in row}
    found, left = [], sorted(wanted)
    while left:
        begin, width = left[0], most
        while begin % width or not all(x in wanted for x in range(begin, begin + width)):
            width //= 2
        found.append((begin, width))
        left = [x for x in left if x >= begin + width]
    return found


_START, _RATE = 1.7, 4.3e6  # microseconds until the first bytes arrive and from the last sums to the results, and bytes a microsecond
_UNDER_WAY, _ENOUGH = 120, 128  # bytes that a thread gets in a microsecond, if it reads so many (as ``short_vectors``'s)
_REGISTERS, _OVERHEAD, _RESIDENT = 65536, 32, 48  # of a multiprocessor, of a thread for places, and warps of a multiprocessor
_PLACES, _LOADED, _RESULT = 60, 1.5, 8  # instructions of a thread for its places, of a load, and of a result
_ISSUED = 4 * CLOCK * 0.8  # instructions of warps that a multiprocessor starts in a microsecond
_SLOWER, _ROUNDED = {"f32": 1, "f64": 2}, 3  # times of a multiply-add, and of others, and more instructions where products are rounded
_LINE, _SECTOR = 128, 32  # bytes of a line of L1, of which a load of a warp takes one a clock, and of what L2 moves at least
_UNCOALESCED = 2.5e6  # bytes of sectors a microsecond that stores of parts of them reach
_FEW_BLOCKS = 4  # of a multiprocessor, which end together
_SECOND = 0.2  # of the shorter one of both times that the longer one does not hide
_CLEARLY = 1.15  # times its estimate that of others has to be, as ``direct.py`` asks for


def _making(s: SmallProducts, c: Contraction) -> int:
    """Instructions of a thread that widen and compute what is multiplied."""
    def of_element(operand: Operand) -> int:
        return (operand.extend is not None) + (0 if operand.prologue is None else body_instructions(operand.prologue.generic))

    return s.units(c) * s.terms * (s.rows * of_element(c.lhs) + s.columns * of_element(c.rhs))


def estimate(s: SmallProducts, c: Contraction, target: Target) -> float:
    """Microseconds: what memory takes, at its rate or the one of what threads have under way, or what is issued, or the lines of L1 that loads touch."""
    warps, units = ceil(hint(s.groups(c)) * s.share / 32), s.units(c)
    loads, lines, read, made, lanes = 0.0, 0.0, 0.0, _making(s, c), _lanes(s, c)
    for operand, group, count in ((c.lhs, c.m, s.rows), (c.rhs, c.n, s.columns)):
        for a in operand.reads:
            found = pieces(a, c, group, count, s.terms)
            loads += units * len(found)
            lines += units * len(found) * _touched(a, lanes, c, _LINE)
            read += units * sum(n for _, n in found) * element_bytes(a.element)
    results = s.rows * s.columns
    each = ceil(results / s.share)
    stores = each / _together(s, c)
    lines += stores * sum(_touched(d.access, lanes, c, _LINE) for d in c.destinations)
    written = warps * stores * sum(_touched(d.access, lanes, c, _SECTOR) for d in c.destinations) * _SECTOR
    end = _RESULT + (0 if c.epilogue is None else body_instructions(c.epilogue.generic))
    products = results * s.terms * units * (_SLOWER.get(str(c.accumulator), 4) + (_ROUNDED if c.rounds is not None else 0))
    issued = _PLACES + _LOADED * loads + made + products + each * end + (3 * results if s.share > 1 else 0)
    registers = _OVERHEAD + results + min(_READ, (s.rows + s.columns) * s.terms)
    resident = min(_RESIDENT, _REGISTERS // (32 * registers))
    rate = min(_RATE, 32 * min(warps, resident * target.multiprocessors) * _UNDER_WAY * min(1, read / _ENOUGH))
    memory = max(moved_bytes(c) / rate, written / _UNCOALESCED)
    blocks = ceil(32 * warps / s.threads)
    even = ceil(blocks / target.multiprocessors) * target.multiprocessors / blocks if blocks < _FEW_BLOCKS * target.multiprocessors else 1.0
    busy, touched = (warps * x / target.multiprocessors for x in (issued / _ISSUED, lines / CLOCK))
    work = even * (max(busy, touched) + _SECOND * min(busy, touched))
    return _START + max(memory, work) + _SECOND * min(memory, work)


def _together(s: SmallProducts, c: Contraction) -> int:
    """Results that a thread stores at once."""
    step = c.n.strides(c.destinations[0].access)[-1] if c.n.runs else 0
    return s.columns if s.share == 1 and step == 1 and s.columns & (s.columns - 1) == 0 else 1


Where = tuple[int, int, int, int]
"""Of a lane: its matrix, and its first row, column and term."""


def _touched(a: Access, lanes: list[Where], c: Contraction, together: int) -> int:
    """Lines, or sectors, of so many bytes that a load or store of a warp touches."""
    size, groups = element_bytes(a.element), [([hint(n) for n in g.run_sizes], [hint(n) for n in g.strides(a)]) for g in (c.batch, c.m, c.n, c.k)]
    places = (sum(_offset(x, *group) for x, group in zip(lane, groups)) for lane in lanes)
    return len({int(at * size) // together for at in places})


def _offset(value: int, sizes: list[int], steps: list[int]) -> int:
    """Where a group's position lies."""
    found = 0
    for size, step in zip(reversed(sizes[1:]), reversed(steps[1:])):
        found += value % size * step
        value //= size
    return found + (value * steps[0] if steps else 0)


def _lanes(s: SmallProducts, c: Contraction) -> list[Where]:
    """Those of a warp."""
    found, step, down, along = [], s.step(c), c.M // s.rows, c.N // s.columns
    for lane in range(32):
        if s.beside:
            batch, rest = lane % c.B, lane // c.B
            found.append((batch, rest // along * s.rows, rest % along * s.columns, 0))
            continue
        number = lane // step // s.share * step + lane % step
        found.append((number // along // down, number // along % down * s.rows, number % along * s.columns, lane // step % s.share * s.terms))
    return found


def others(kernel: func.FuncOp, c: Contraction, target: Target) -> float:
    """Microseconds of the fastest other generator.  What takes tiles of results does not count how it stores those that are apart, which are a sector each
    (on an H200 9408 products of 9x9 by 9x32 in bf16, of which neighbours in memory were the same results of the next matrix, took ``direct`` 48 us)."""
    found = [*vectors.candidates(c, target), *short_vectors.candidates(c, target), *simt.candidates(c, target), *direct.candidates(kernel, c, target)]
    found += [*wgmma.candidates(kernel, c, target), *mma.candidates(kernel, c, target)]
    if bit_width(c.lhs.element) == 32:
        for module in (bf16x6, presplit, direct_bf16x6):
            found += module.candidates(kernel, c, target)
    apart = sum(1 for d in c.destinations if not c.n.runs or c.n.strides(d.access)[-1] != 1)
    tiles = min((time for time, _ in found), default=float("inf")) + apart * hint(c.B) * c.M * c.N * _SECTOR / _UNCOALESCED
    summed = batch_sums.candidate(kernel, target)
    return tiles if summed is None else min(tiles, summed[0])

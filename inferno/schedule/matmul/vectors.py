"""The schedule of products with few vectors on CUDA cores: the other factor is read once, at the speed of memory."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, At, fastest, moved_bytes
from inferno.schedule.matmul import mma, simt, wgmma
from inferno.schedule.matmul.contraction import Contraction, Group, Operand, aligned_along, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.simt import VECTOR
from inferno.symbolic import hint
from inferno.target import Target


@dataclass(frozen=True)
class Vectors:
    """A block computes ``rows`` results of the short side times ``across * columns`` of the long one, whose factor is the lhs if
    ``swapped``.

    A thread has ``columns`` columns, next to those of ``across`` - 1 others, and multiplies ``terms`` neighbouring terms at a time,
    ``unroll`` times a step, all of which are loaded first; the threads share the terms.  ``along_k``: it loads neighbouring terms
    together, otherwise its columns.
    """

    generator: ClassVar[str] = "vectors"

    rows: int = 1
    columns: int = 4
    across: int = 1
    terms: int = 4
    unroll: int = 2
    threads: int = 256
    along_k: bool = True
    swapped: bool = False

    @property
    def width(self) -> int:
        """Columns of a block."""
        return self.across * self.columns

    @property
    def depth(self) -> int:
        """Terms that a block multiplies at a time; a step has ``unroll`` times as many."""
        return self.threads // self.across * self.terms

    def steps_in_a_row(self, terms: int) -> int:
        """Of a sum of so many terms in float32, steps whose products a thread adds as they come, before it adds those sums: all of them, if they are not
        many more.  Of up to 4 rows, which wait for memory and which eager adds in trees, it is after each step, and so where terms lie together: with 8 steps
        in a row VGG's head, 8x25088x4096, 8x4096x4096 and 8x4096x1000, took an H200 328 us, and 163 so."""
        each, steps = self.terms * self.unroll, self._steps(terms)
        return 1 if self.adds_each else steps if steps * each <= 2 * _IN_A_ROW else max(1, _IN_A_ROW // each)

    def has_totals(self, terms: int) -> bool:
        """Whether there are such sums to add."""
        return self.adds_each or self.steps_in_a_row(terms) < self._steps(terms)

    def keeps_losses(self, terms: int) -> bool:
        """Whether they are added with what additions lose: where they are many, or nothing else is to do."""
        return self.adds_each or self._steps(terms) > 2 * _IN_A_ROW * self.steps_in_a_row(terms)

    @property
    def adds_each(self) -> bool:
        """Whether a thread adds its sums to totals after each step."""
        return self.rows <= 4 or self.along_k

    def _steps(self, terms: int) -> int:
        return ceil(terms / (self.depth * self.unroll))

    @property
    def shared_elements(self) -> int:
        """Each warp's sums."""
        return self.threads // 32 * self.rows * self.width

    def is_narrow(self, c: Contraction) -> bool:
        """Whether a thread reads less than 8 bytes of the longer factor at a time."""
        factor = c.lhs if self.swapped else c.rhs
        return (self.terms if self.along_k else self.columns) * max(bit_width(a.element) for a in factor.reads) < 64


def choose(kernel: func.FuncOp, target: Target) -> Vectors | None:
    """The schedule with the lowest estimate if ``kernel`` is a product with up to 8 vectors and tiles would take longer, else None."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    found = candidates(c, target) if c is not None and not c.varies else []
    if not found:
        return None
    time, best = fastest(found)
    others = tiles(kernel, c, target, best.is_narrow(c))
    return best if time <= min((other for other, _ in others), default=time) else None


def tiles(kernel: func.FuncOp, c: Contraction, target: Target, is_narrow: bool) -> list[tuple[float, Any]]:
    """What computes the same by tiles, with estimates; ``is_narrow``: the longer factor is read by less than 8 bytes at a time."""
    others = mma.candidates(kernel, c, target) if mma.takes(target) else wgmma.candidates(kernel, c, target)
    if others and is_narrow:  # as Hopper's own instructions mma.sync reads what is not aligned faster
        others = [*others, *mma.candidates(kernel, c, target)]
    return others or simt.candidates(c, target)


def candidates(
    c: Contraction, target: Target, at: At = hint, swapped: bool | None = None, most: int = VECTOR,
) -> list[tuple[float, Vectors]]:
    """Schedules with their estimates in microseconds; none where the short side, N if ``swapped``, has more than 8 results, sums have
    64 bits or vary in length, or the other factor can neither be read 8 bytes at a time nor has its terms side by side.  They are right for more
    results, too.  ``most``: results of the short side that there are at most, where their number varies."""
    if not simt.supported(c) or c.is_reduction or c.accumulator.width != 32:
        return []
    swapped = at(c.N) < at(c.M) if swapped is None else swapped
    exchanged = oriented(c, swapped)
    if at(exchanged.M) > VECTOR or not isinstance(exchanged.K, int) or not steps_are_known(exchanged):
        return []
    rows = exchanged.M if isinstance(exchanged.M, int) else min(most, VECTOR)
    shapes = [replace(s, swapped=swapped, threads=t) for s in _shapes(exchanged, rows) for t in (64, 128, 256, 512)]
    shapes = [s for s in shapes if s.threads * _registers(s, exchanged, at) <= _REGISTERS]
    found = [s for s in shapes if 2 * s.depth <= exchanged.K] or [replace(s, threads=32) for s in shapes[:1]]
    if shapes and shapes[0].is_narrow(c):
        found = [s for s in found if s.depth * _NARROW >= exchanged.K] or found[-1:]
    found += [one for one in (_warp_for_each(exchanged, rows, swapped),) if one is not None]
    return [(estimate(s, exchanged, target, at), s) for s in found]


def steps_are_known(c: Contraction) -> bool:
    """Whether neighbours that a thread reads together are at distances that are numbers."""
    reads = [(a, g) for o, groups in ((c.lhs, (c.k,)), (c.rhs, (c.k, c.n))) for a in o.reads for g in groups]
    return all(isinstance(s, int) for a, g in reads for s in g.strides(a))


def _shapes(c: Contraction, rows: int) -> list[Vectors]:
    """Ways to read the long side's factor: 16 bytes at a time, along the terms if it can be."""
    width = max(element_bytes(a.element) for a in c.rhs.reads)
    most = min(16 // width, 8) if rows <= 4 else min(16 // width, 4)  # more sums than that would not fit the registers
    lanes, columns = lanes_along(c, c.rhs, c.k, most), 4 if rows <= 4 else 2
    if lanes * width >= 8:
        return [Vectors(rows, columns, 1, lanes, 2 if rows * lanes <= 32 else 1)]
    if c.k.runs and all(a.strides[c.k.runs[-1][-1]] in (0, 1) for a in c.rhs.reads):
        return [Vectors(rows, columns, 1, lanes, (8 if rows <= 4 else 4) // lanes)]
    if (lanes := lanes_along(c, c.rhs, c.n, most)) * width < 8:
        return []
    terms = next(t for t in (4, 2, 1) if _inside(c.k, t))
    unroll = (8 if rows <= 4 else 4) // terms
    return [Vectors(rows, lanes, across, terms, unroll, along_k=False) for across in (2, 4, 8, 16)]


def _warp_for_each(c: Contraction, rows: int, swapped: bool) -> Vectors | None:
    """Of one vector of 16 bits and long sums: a warp for each column, which waits for no other one."""
    lanes = lanes_along(c, c.rhs, c.k, 8)
    found = Vectors(1, 1, 1, lanes, 4, 32, swapped=swapped)
    long = lanes == 8 and _LONG * found.depth * found.unroll <= c.K and all(bit_width(a.element) == 16 for a in c.rhs.reads)
    return found if rows == 1 and long else None


def lanes_along(c: Contraction, operand: Operand, group: Group, most: int) -> int:
    """Neighbours along ``group`` that the factor's largest tensor holds side by side and aligned."""
    main = max(operand.reads, key=lambda a: sum(s != 0 for s in a.strides))
    lanes = most
    while lanes > 1 and not (_inside(group, lanes) and aligned_along(main, group, (c.batch, c.m, c.n, c.k)) >= lanes):
        lanes //= 2
    return lanes


def _inside(group: Group, lanes: int) -> bool:
    """Whether so many neighbours never cross the end of a run."""
    return lanes == 1 or (bool(group.runs) and group.run_sizes[-1] % lanes == 0)


# Fitted to times on an H200, in microseconds: bf16 1x4096x11008 22.6, float32 1x4096x4096 17.4 and 8x4096x4096 24.4 (weights along
# k); 26.3 and 18.2 (along n); 1x18944x3584 42.3 (along k, 64 threads), 1x8192x28672 107.3 (256 threads) and 147 to 187 (along n, lines of 256 to 32 bytes).
START = 1.7  # microseconds until the first bytes arrive, and from the last ones to the results
_LINES = ((128, 0.89), (64, 0.84), (0, 0.7))  # of that rate where a block's columns lie together, by their bytes
_RESIDENT, _REGISTERS, _MOST = 1280, 65536, 32  # threads, registers and blocks of a multiprocessor
_UNDER_WAY = 62  # bytes that a thread has under way for a microsecond: the assembler starts 5 of its loads before the first product
# Terms in a row, whose sums a thread then adds, and parts of a sum in a row: eager adds in trees, whose error 64 missed in ``simt``.  After each step and with
# what additions lose that took eight operations a sum, by count more than half of 8 rows' (float32, 8x1024x50304 by 64 threads 108 us on an H200, cuBLAS 75).
_IN_A_ROW = 16
_TOTALS = {False: 1.4, True: 2.4}  # registers of a thread for each sum's total, without or with what it lost (8 rows and 4 columns: 124, 155 and 80 without)
_BYTE = 15  # instructions to make a factor of a scaled byte (1 and 4 x 4096 x 11008: 29.1 and 41.8)
_HALVES = 2.0  # times longer for numbers of 16 bits (7x3072x768: 5.9 us, columns together 9, without it 3.7)
_VARYING = 1.3  # where the rows are not as many, each at an address of its own (float32 4096x4096: 27 to 31 us, 8 rows that are known 24.4)
BOTH = 0.1  # of the shorter one of both times that the longer one does not hide (1x8192x28672: 106 us)
_BLOCKS = 820  # that begin in a microsecond (1x768x50257, a warp for each column: 61.5 us; 1x2048x32000: 39.3)
_LONG = 5  # steps of a warp that has a column to itself (1x18944x3584 32.9 us, in fours by 128 threads 34.4; 1x8192x8192 32.5 and 33.5; 1x11008x4096 22.5
# and 30.4; 1x4096x11008, of four steps, 23.6 and 23.0)
# Terms of a thread where one load is less than 8 bytes: fewer threads read shorter pieces of more lines (on an H100 float32 1x4097x4096 by 512 threads 25.3
# us, by 256 26.3, 128 45.4, 64 80.5; bf16 4x5121x13824 74, 71, 78 and 95, but 4x1001x8192 18.0, 11.4, 8.5 and 10.3).
_NARROW = 32
_LOAD = 2.5 / CLOCK  # microseconds of a load of a warp (4x5121x13824, one number of 16 bits at a time: 70 us on an H100, where memory takes 42)
_LINE = 128  # bytes of a line of L1
_ISSUED = 4 * CLOCK  # instructions of warps that a multiprocessor starts in a microsecond
# Of steps that the terms do not fill, and of blocks that all fit at once and that then lie unevenly: after a kernel whose last ones still run,
# 1x13824x5120 takes 44.4 us, not 38.7, and 1x5120x5120 17.0 and 14.6 (1280 blocks where 1716 fit).  Not of one warp (1x18944x3584, a column each: 32.9).
_UNEVEN, _MANY = 1.2, 4  # so many of a multiprocessor's and more: by two or three, as of 8192x1024, times are as they were


def estimate(s: Vectors, c: Contraction, target: Target, at: At = hint, second: Operand | None = None) -> float:
    """Microseconds: what memory takes, at its rate or the one of the loads under way, or the arithmetic; they hide each other in part.
    With a ``second`` rhs each result has two sums."""
    factors, more = (1, ()) if second is None else (2, second.reads)
    blocks = at(c.B) * ceil(at(c.M) / s.rows) * ceil(at(c.N) / s.width)
    resident = min(_RESIDENT, _REGISTERS / _registers(s, c, at, factors))
    at_once = target.multiprocessors * min(_MOST, max(1, int(resident / s.threads)))
    width = element_bytes(c.rhs.reads[0].element)
    share = 1 if s.along_k else next(share for bytes_, share in _LINES if s.width * width >= bytes_)
    reading = min(s.threads, max(1, at(c.K) // s.terms))  # of a block's threads

    def rate(blocks: int) -> float:
        return min(share * MEMORY_RATE, min(blocks * reading, target.multiprocessors * resident) * _UNDER_WAY)

    # The last blocks may be too few to keep memory busy.
    last = blocks % at_once if s.threads > 32 or blocks < at_once else 0  # those of one warp begin as others end
    memory = moved_bytes(c, at, tuple(more)) / blocks * ((blocks - last) / rate(at_once) + (last / rate(last) if last else 0))
    loading = _loads(s, c, at, factors) * _LOAD + _lines(s, c, at) / CLOCK
    work = blocks * s.threads / 32 * max(_instructions(s, c, at, factors) / _ISSUED, loading) / target.multiprocessors
    memory = max(memory * _idle(s, c, at, blocks, at_once, target), blocks / _BLOCKS)
    return START + (max(memory, work) + BOTH * min(memory, work)) * _slower(s, c)


def _registers(s: Vectors, c: Contraction, at: At, factors: int = 1) -> float:
    """Of a thread."""
    sums = factors * s.rows * s.columns
    counted = not s.adds_each and _is_exact(c) and s.has_totals(at(c.K))
    kept = _TOTALS[s.keeps_losses(at(c.K))] * sums if counted else 0
    return 30 + 1.5 * sums * (s.terms if s.along_k else 1) + kept


def _idle(s: Vectors, c: Contraction, at: At, blocks: int, at_once: int, target: Target) -> float:
    """How much longer memory takes because threads have nothing to read.  Of a last step that is not full, which the other blocks of a
    multiprocessor hide: 1x18944x3584 takes 44.2 us by one block of 2.3 steps and 36.4 by a kernel that keeps memory busy, 1x5120x13824 38.7
    by three of 1.25 steps, 8% more by its bytes than 1x8192x8192 by whole ones."""
    if not s.along_k:
        return 1.0
    step = s.depth * s.unroll
    idle = 1 + (ceil(at(c.K) / step) * step / at(c.K) - 1) * target.multiprocessors / at_once if at(c.K) > step else 1.0
    uneven = s.threads > 32 and _MANY * target.multiprocessors < blocks < at_once
    return idle * min(_UNEVEN, (1 + at_once / blocks) / 2) if uneven else idle


def _slower(s: Vectors, c: Contraction) -> float:
    """How much longer than that more than 4 rows take, whose addresses and numbers need most registers."""
    if s.rows <= 4:
        return 1.0
    return (_HALVES if bit_width(c.lhs.element) == 16 else 1.0) * (1.0 if isinstance(c.M, int) else _VARYING)


def _loads(s: Vectors, c: Contraction, at: At, factors: int) -> float:
    """Of a warp, each for all its threads."""
    each = s.rows + factors * s.columns if s.along_k else s.rows + factors * s.terms
    return ceil(at(c.K) / (s.depth * s.unroll)) * s.unroll * each


def _lines(s: Vectors, c: Contraction, at: At) -> float:
    """Lines that a warp's loads of vectors touch, one a clock, where a term's numbers lie side by side and the terms do not (4096x1024 by 1024x8 took 23 us
    in float32, 6.3 of which memory and the products are)."""
    if not s.along_k or s.rows == 1 or not c.k.runs or all(c.k.strides(a)[-1] in (0, 1) for a in c.lhs.reads):
        return 0.0
    term = s.rows * max(element_bytes(a.element) for a in c.lhs.reads)  # bytes
    return ceil(at(c.K) / (s.depth * s.unroll)) * s.unroll * s.terms * ceil(term / 16) * 32 * min(1.0, s.terms * term / _LINE)


def _is_exact(c: Contraction) -> bool:
    """Whether sums are of products in float32."""
    return str(c.lhs.element) == str(c.rhs.element) == "f32"


def _instructions(s: Vectors, c: Contraction, at: At, factors: int) -> float:
    """Of a warp: products and what adds and widens them, for each step; in the end five exchanges a sum."""
    exact, sums, terms = _is_exact(c), factors * s.rows * s.columns, s.terms * s.unroll
    added = (8 if s.keeps_losses(at(c.K)) else 1) * sums / s.steps_in_a_row(at(c.K)) if exact and s.has_totals(at(c.K)) else 0
    step = terms * 1.5 * sums + added if exact else terms * (sums + s.rows + s.columns)
    if any(bit_width(a.element) == 8 for a in c.rhs.reads):
        step += _BYTE * terms * s.columns
    return ceil(at(c.K) / (s.depth * s.unroll)) * step + 14 * sums

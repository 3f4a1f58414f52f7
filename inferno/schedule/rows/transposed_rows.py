"""The schedule of kernels that go over rows side by side of which some tensors have the rows one behind the other: ``softmax(x.t())``, a norm of ``x.t() + y``,
a softmax that is given back transposed.

A block has some neighbouring rows, as one of ``columns``, and reads and writes side by side what lies so.  What lies with a row's points together goes through
a tile in shared memory, so that memory is read and written by pieces of lines either way: a tile is filled before the rows are gone over, and what is given
back so is written from one in the end.  Rows that do not fit are left to two kernels, of which one transposes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, gcd, inf, prod
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.rows import columns, rows
from inferno.schedule.rows.column_schedule import Columns, kept_accesses
from inferno.schedule.rows.columns import MOST
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.moments import moments
from inferno.schedule.rows.packed_rows import row_runs
from inferno.schedule.rows.parser import parse_by_loops, parse_row_kernel, parse_transposing
from inferno.schedule.rows.row_schedule import moved_bytes
from inferno.schedule.rows.row_work import busy, instructions
from inferno.schedule.rows.rows import read_rows
from inferno.target import RESERVED_SHARED, STATIC_SHARED, WARP, Target

PIECE, LINE = 16, 128  # bytes of an access, and of neighbours that go to different banks
_SIDES = (32, 64, 128)  # bytes of neighbouring rows that a block reads of each point
_THREADS, _CLUSTERS, _UNROLL = (128, 256, 512), (1, 2, 4, 8), (4, 2)
_LANES = 8  # rows of a vector at most
_HELD, _OWN = 96, 40  # registers of a thread for its points, and for all else
BYTES = (4, 8, 16)  # of a copy to shared memory that takes no registers
_AT_ONCE, _PIECES = 128, 32  # bytes that a thread has on their way to a tile, and pieces

# The estimate, by 31 kernels that an H200 ran, of which most took 0.9 to 1.2 times as long.  Microseconds of a kernel, of a phase that others wait for, of
# tiles that are filled or written in the end, for which a block waits, and of a cluster.
_LAUNCH, _LEVEL, _TILES, _CLUSTER = 1.0, 0.25, 0.2, 1.28
# Bytes a microsecond, of a copy and of a multiprocessor; the share of it by bytes that lie together of each point, and of rows of clusters; bytes that a
# multiprocessor has on their way, of which loads are so much of its time, that memory is busy; and how far the last blocks and idle threads count.
_RATE, _ONE = 3.96e6, 6e4
_SHARES = {32: 0.6, 64: 0.8, 128: 0.84}
_OF_ELEMENT, _OF_PIECE = 2, 8  # instructions that move an element between memory and a tile
# Of a copy's rate, what ``rows`` puts together in shared memory, which its estimate does not say: running sums of 40000x500 in bf16 took an H100 51 us, of
# which a copy takes 28, of 195361x45 28 and 12, of 40000x200 in float32 42 and 22, an RMS norm of 30000x256 in bf16 17 and 11.
_GATHERED = 0.6
_IN_CLUSTERS, _ENOUGH, _LOADING, _TAIL, _IDLE = 0.8, 30e3, 0.4, 0.5, 0.5
# And what is left of it where a multiprocessor has one block at once, and several one after the other, so that nothing is read while one writes: of 8192x4096
# F.normalize(x.t() * o, dim=0) in bf16 took an H200 138 us so and 86 with three blocks at once, in float32 227 and 138, LayerNorm of 4096x8192 151 and 93, 223
# and 134; where it has one or two in all (of 4096x1024 9.4 and 13.0 by clusters of 4, in float32 20.4 and 23.2); and where vectors divide no rows: of
# 3001x1999 a softmax that is given back transposed took 22.5 and 15.6 by two kernels, in float32 49 and 18.5.
_ONE_BY_ONE, _ALONE, _SINGLE = 0.55, 0.85, 0.42
# Of a multiprocessor registers, threads and bytes of shared memory.
_REGISTERS, _MOST_THREADS, _MULTIPROCESSOR = 1 << 16, 2048, 228 << 10


@dataclass(frozen=True)
class TransposedRows(Columns):
    """As ``Columns``, whose blocks have a tile in shared memory of what lies with rows one behind the other (``tiles``).  ``brought``: what is kept of the rest
    comes there by copies that take no registers, all of it at once."""

    generator: ClassVar[str] = "transposed_rows"

    brought: bool = False

    def side(self) -> int:
        """Rows of a block."""
        return self.across * self.vector

    def local(self, c: RowKernel) -> int:
        """Points of a row that a block has a place for."""
        return self.rounds(c) * self.unroll * self.along

    def tile_bytes(self, c: RowKernel, access: Access) -> int:
        return -(-self.local(c) * self.side() * element_bytes(access.element) // LINE) * LINE

    def dynamic_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block whose size the launch says."""
        first = {}
        for access, number in tiles(c).items():
            first.setdefault(number, access)
        return self.kept_bytes(c) + sum(self.tile_bytes(c, a) for a in first.values())

    def piece(self, c: RowKernel, access: Access) -> int:
        """Neighbouring points of a row that are moved at once between memory and a tile."""
        return gcd(_together(c, access), self.along)

    def together(self, c: RowKernel, access: Access) -> int:
        """Threads of a warp that move neighbouring pieces of a row, a line's; the others have other rows."""
        piece = self.piece(c, access)
        pieces = self.local(c) // piece
        return min(WARP, max(1, LINE // (piece * element_bytes(access.element))), pieces & -pieces)

    def fits(self, c: RowKernel) -> bool:
        powers = all(x & (x - 1) == 0 for x in (self.threads, self.across, self.vector, self.cluster))
        if not powers or self.threads % WARP or WARP % self.across or self.run != 1 or self.whole or c.count % self.vector or self.side() > self.threads:
            return False
        if self.held and (self.kept or self.rounds(c) > 1):
            return False
        if self.brought and not (self.kept and self.kept == self.rounds(c) and can_bring(c, self.vector)):
            return False
        if (self.once and moments(c) is None) or (self.sends and self.cluster == 1):
            return False
        if self.left_bytes(c) > STATIC_SHARED or self.dynamic_bytes(c) + self.left_bytes(c) > MOST:
            return False
        return all(self.side() * element_bytes(a.element) % PIECE == 0 and WARP // self.together(c, a) <= self.side() for a in transposed(c))


def choose(kernel: func.FuncOp, target: Target) -> TransposedRows | None:
    """A schedule if ``kernel`` is several operations on such rows of which one reduces them, and the rows fit."""
    planned = _planned(kernel, target)
    return planned[0] if planned is not None and len(planned[1].steps) > 1 else None


def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated, and ``rows`` does not take it, or takes longer, as it reads or writes apart."""
    planned = _planned(kernel, target)
    return None if planned is None else planned[1]


@asked_once
def _planned(kernel: func.FuncOp, target: Target) -> tuple[TransposedRows, RowKernel] | None:
    c = parse(kernel, target) if target.kind == "nvptx" and target.capability >= 90 else None
    s = pick(c, target) if c is not None else None
    if s is None or columns.read(kernel, target) is not None:
        return None
    return (s, c) if _by_rows(kernel, target) > estimate(s, c, target) else None


def _by_rows(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds of the same by ``rows``; infinity where it takes no such kernel."""
    c = rows.read(kernel, target)
    if c is None:
        return inf
    s = rows.pick(c, target)
    return rows.estimate(s, c, target) / (_GATHERED if s.gathers else 1.0)


def parse(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """The same where rows may be longer than what a cluster's blocks have a place for."""
    found = (read_rows(kernel, target, p) for p in (parse_row_kernel, parse_transposing, parse_by_loops))
    return next((c for c in found if c is not None and _is_transposed(c)), None)


def _is_transposed(c: RowKernel) -> bool:
    """Whether every tensor lies with its rows side by side or with their points together, or is common to rows that are neighbours, and both are there."""
    if c.varies or c.in_pieces or c.parts or c.scans or not c.rows or c.together > 1:
        return False
    of_points = [s for s in c.steps if not s.per_row]
    if any(d in c.rows for s in of_points for d in s.indices if d is not None) or any(walk(s.generic, "tensor.extract") for s in of_points):
        return False
    every = [a for a in _wide(c) if a.strides[c.rows[-1]]]
    beside, apart = [a for a in every if a.strides[c.rows[-1]] == 1], transposed(c)
    return bool(beside) and bool(apart) and len(beside) + len(apart) == len(every) and all(str(a.element) in ("f32", "bf16", "f16") for a in apart)


def _wide(c: RowKernel) -> list[Access]:
    """What differs between the points of a row."""
    return [a for a in dict.fromkeys([*(a for s in c.steps for a in s.extras), *(d.access for d in c.destinations)]) if c.wide(a)]


def transposed(c: RowKernel) -> list[Access]:
    """What lies with a row's points together, and its rows apart."""
    return [a for a in _wide(c) if a.strides[c.rows[-1]] not in (0, 1) and a.strides[c.runs[-1][-1]] == 1]


def _together(c: RowKernel, access: Access) -> int:
    """Neighbouring points of a row that are aligned together wherever rows begin, at most 16 bytes."""
    strides = [access.strides[d] for d in c.rows] + [access.strides[run[-1]] for run in c.runs[:-1]]
    return gcd(PIECE // element_bytes(access.element), access.offset, c.run_sizes[-1], *strides)


def most_at_once(bytes_: int) -> int:
    """Pieces of so many bytes that a thread has on their way at most."""
    return min(_PIECES, _AT_ONCE // bytes_)


def can_bring(c: RowKernel, vector: int) -> bool:
    """Whether copies have the width of vectors of what is kept, or of its pieces, and these are aligned."""
    def whole(a: Access) -> bool:
        width = min(vector, PIECE // element_bytes(a.element))
        strides = [a.strides[d] for d in c.rows[:-1]] + [a.strides[run[-1]] for run in c.runs]
        return width * element_bytes(a.element) in BYTES and all(x % width == 0 for x in (a.offset, *strides))

    return bool(kept_accesses(c)) and all(map(whole, kept_accesses(c)))


def tiles(c: RowKernel) -> dict[Access, int]:
    """The number of the tile that each of them has.  A result takes the place of what no later phase reads: each point of a tile is one thread's own."""
    written = {d.access: d for d in c.destinations if c.wide(d.access)}
    found: dict[Access, int] = {}
    free = {}
    for access in (a for a in transposed(c) if a not in written):
        found[access] = len(found)
        free[access] = max(p for p in range(c.phases) if access in c.needed(p)[0])
    count = len(found)
    for access in (a for a in transposed(c) if a in written):
        phase = c.computed(written[access].source)
        place = next((a for a, last in free.items() if last <= phase and element_bytes(a.element) == element_bytes(access.element)), None)
        if place is not None:
            found[access] = found[place]
            del free[place]
        else:
            found[access], count = count, count + 1
    return found


@dataclass(frozen=True)
class _Work:
    """What schedules are told apart by: bytes that are moved, and those of the narrowest point that lies beside other rows', and of such that are read; rows of
    its vectors; of a point, bytes that are kept, of tiles and of what is read into these, by pieces of so many, and registers; whether what is kept can be
    brought; instructions of a point; totals of a row; and how many times, of two, tiles are moved."""

    moved: float
    beside: int
    read: int
    lanes: int
    kept: int
    tiles: int
    filled: int
    piece: int
    held: int
    brings: bool
    instructions: float
    totals: int
    moves: int


def _work(c: RowKernel) -> _Work:
    beside = [a for a in _wide(c) if a.strides[c.rows[-1]] == 1]
    lanes = gcd(min(_LANES, PIECE // min(element_bytes(a.element) for a in beside)), prod(c.sizes[d] for d in row_runs(c)[-1]))
    written = {d.access for d in c.destinations}
    numbers = {number: element_bytes(a.element) for a, number in tiles(c).items()}
    kept = sum(PIECE * ceil(lanes * element_bytes(a.element) / PIECE) for a in kept_accesses(c)) // lanes
    read = [a for a in transposed(c) if a not in written]
    moving = sum(_OF_ELEMENT + _OF_PIECE / _together(c, a) for a in transposed(c))
    return _Work(
        moved=moved_bytes(c, True), beside=min(element_bytes(a.element) for a in beside), lanes=lanes, kept=kept,
        read=min((element_bytes(a.element) for a in beside if a not in written), default=0),
        tiles=sum(numbers.values()), filled=sum(element_bytes(a.element) for a in read),
        piece=min((_together(c, a) * element_bytes(a.element) for a in read), default=PIECE),
        held=(max(32, c.held_bits()) + 32) // 32, brings=can_bring(c, lanes), instructions=instructions(c, True) + moving,
        totals=sum(k is not None for s in c.steps for k in s.combiners), moves=len({a in written for a in transposed(c)}),
    )


def pick(c: RowKernel, target: Target) -> TransposedRows | None:
    """The schedule that is estimated to take least; None where none fits."""
    k = _work(c)
    found = sorted(_schedules(c, k), key=lambda s: _time(s, c, k, target))
    return next((m for s in found if (m := _meeting(s, c)) is not None), None)


def _schedules(c: RowKernel, k: _Work) -> Iterator[TransposedRows]:
    """Those whose blocks have a place for their part of rows."""
    for side, threads, cluster in product(_SIDES, _THREADS, _CLUSTERS):
        across = side // (k.lanes * k.beside)
        if not 1 <= across <= WARP or (side > _SIDES[0] and across * k.lanes >= 2 * c.count):
            continue
        along = threads // across * cluster
        each = ceil(c.width / along)
        if along >= 2 * c.width and (threads > _THREADS[0] or cluster > 1):
            continue
        s = TransposedRows(threads, across, k.lanes, cluster, each, reciprocals=True, approximate=True)
        if each * k.lanes * k.held <= _HELD:
            yield replace(s, held=True)
        for unroll in (u for u in _UNROLL if u <= each) if each >= min(_UNROLL) else (each,):
            found = replace(s, unroll=unroll, kept=ceil(each / unroll) if k.kept else 0, brought=k.brings)
            if found.local(c) * found.side() * (k.kept + k.tiles) <= MOST:
                yield found


def _meeting(s: TransposedRows, c: RowKernel) -> TransposedRows | None:
    """The same whose blocks meet as they do fastest; None where it fits by no means."""
    found = [s]
    if s.cluster > 1:
        once = replace(s, once=not s.held and moments(c) is not None)
        found = [replace(once, sends=True), once, s]
    return next((x for x in found if x.fits(c)), None)


def estimate(s: TransposedRows, c: RowKernel, target: Target) -> float:
    """Microseconds."""
    return _time(s, c, _work(c), target)


def _time(s: TransposedRows, c: RowKernel, k: _Work, target: Target) -> float:
    points, blocks = s.local(c) * s.side(), s.blocks(c)
    registers = _OWN + s.unroll * s.vector * (k.held if s.held else 1)
    memory = points * (k.tiles + (0 if s.held else k.kept)) + s.side() * (s.threads // WARP + 2) * 8 * k.totals + RESERVED_SHARED
    resident = min(_MULTIPROCESSOR // memory, _REGISTERS // (registers * s.threads), _MOST_THREADS // s.threads, WARP)
    if resident < 1:
        return inf
    each = blocks / target.multiprocessors
    filled = min(most_at_once(k.piece), ceil(points * k.filled / k.piece / s.threads)) * k.piece / PIECE if k.filled else inf
    read = points * k.kept / PIECE / s.threads if s.brought else s.unroll * s.vector * k.read / PIECE if k.read else inf
    on_way = (read + (filled if k.filled else 0) if s.brought else min(filled, read)) * PIECE * s.threads * max(1.0, min(resident, each))
    enough = min(_ENOUGH, _LOADING * k.moved / target.multiprocessors)
    share = _SHARES[max((x for x in _SIDES if x <= s.side() * k.beside), default=_SIDES[0])] * min(1.0, _LOADING * on_way / enough)
    share *= (_IN_CLUSTERS if s.cluster > 1 else 1.0) * (_SINGLE if k.lanes == 1 else 1.0)
    share *= 1.0 if resident > 1 else _ONE_BY_ONE if each > 2 else _ALONE
    share /= 1 + _IDLE * (s.local(c) * s.cluster / c.width - 1) + _TAIL * (ceil(each) / each - 1 if each > 1 else 0.0)
    rate = share * min(_RATE * target.multiprocessors / 132, _ONE * blocks)
    waits = _LEVEL * (c.phases - 1) * (2 if s.cluster > 1 else 1) + _TILES * k.moves + (_CLUSTER if s.cluster > 1 else 0.0)
    return _LAUNCH + waits + max(k.moved / rate, busy(c.count * c.width * k.instructions, target) * max(1.0, 1 / each))

"""The schedule of kernels that go over rows whose length varies: several kernels, of which each call launches the one that its rows ask for.

Threads hold rows up to a length that they have registers for, and what is shorter leaves some of them idle; a loop goes over rows of any length, and reads
them again in each phase.  Vectors lie as memory does, for rows begin anywhere where their length is no multiple of one.
"""

from dataclasses import replace

from inferno.mlir import func, ir, outside_values
from inferno.powers import next_power_of_two
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.parser import parse_sized_rows
from inferno.schedule.rows.row_lanes import leading, most_lanes
from inferno.schedule.rows.row_lengths import LENGTHS, ranges, that_hold
from inferno.schedule.rows.row_maxima import online_sums
from inferno.schedule.rows.row_schedule import HELD, Rows
from inferno.schedule.rows.row_time import estimate
from inferno.schedule.rows.rows import read_rows
from inferno.symbolic import Int, hint, is_multiple, minimum, quotient
from inferno.target import Target

__all__ = ["choose", "estimate", "fits", "pick", "read"]

_SHORTEST = 128  # points of the shortest of these
# Of a thread, half as many of short rows, and where all rows are fewer elements than that, as where lengths are known.
_POINTS, _SHORT, _MUCH = 32, 2048, 1 << 24
_NEIGHBOURS = 8  # threads of a row at least, so that what a warp reads at once are whole lines
_THREADS, _BLOCK = 512, 256  # of a row at most, and of a block of several rows
_ENOUGH = 128  # threads of a multiprocessor
_UNROLL = 4  # vectors of a turn
_LOOPING = 128, 512  # threads of a row by turns, at least and at most


def choose(kernel: func.FuncOp, target: Target) -> BySize | Rows | None:
    """Schedules for ranges of lengths if ``kernel`` is maps and reductions of rows whose length varies."""
    c = read(kernel, target)
    if c is None:
        return None
    return ranges(_points(c), _held(c, target), _by_turns(c))


def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if its rows are of a length that varies, and neighbours in all tensors, or of one element for each run of neighbours."""
    c = read_rows(kernel, target, parse_sized_rows)
    return c if c is not None and _lies_together(c) else None


def _lies_together(c: RowKernel) -> bool:
    read, written = [a for s in c.steps for a in s.extras if c.wide(a)], [d.access for d in c.destinations if c.wide(d.access)]
    shared = [a for a in read if not c.flat(a)]
    whole = most_lanes(c) > 1 and max(c.rows, default=-1) < min(c.columns) and not c.joined and bool(read or written) and c.flat(leading(c))
    return whole and all(map(c.flat, written)) and all(a.strides[c.runs[-1][-1]] == 0 for a in shared)


def pick(c: RowKernel, target: Target) -> Rows:
    """The one for the example's length."""
    length = hint(_points(c))
    return next((s for s in _held(c, target) if length <= s.longest), None) or _by_turns(c)


def fits(s: Rows, c: RowKernel) -> bool:
    """Whether the generator takes it for rows whose length varies."""
    return s.ragged and 1 < s.vector == most_lanes(c) and s.cluster == 1 and not (s.kept or s.persistent or s.gathers or c.scans) and s.held == (s.longest > 0)


def _points(c: RowKernel) -> Int:
    """A row's, with those of other rows that are in its vectors."""
    vector, lead = most_lanes(c), leading(c)

    def follows(begin: Int) -> bool:
        """Whether vectors begin there where they divide a row."""
        return is_multiple(begin, vector) or quotient(begin, c.width) is not None

    divides = all(follows(x) for x in (lead.offset, *(lead.strides[d] for d in c.rows)))
    return c.width + (vector - 1) * (minimum(c.width % vector, 1) if divides else 1)


def _held(c: RowKernel, target: Target) -> list[Rows]:
    """Schedules that have rows in registers, by the lengths that they are for."""
    lengths = dict.fromkeys(max(_SHORTEST, next_power_of_two(int(hint(c.width) * x))) for x in LENGTHS)
    return that_hold(_points(c), lengths, lambda longest: _holding(c, target, longest))


def _holding(c: RowKernel, target: Target, longest: int) -> Rows | None:
    """A schedule for rows of so many points, if registers hold them."""
    known, vector = c.in_example(), most_lanes(c)
    bits = max(8, c.held_bits())
    vectors, rows = longest // vector, known.count
    points = max(vector, _POINTS if rows * known.width >= _MUCH and longest > _SHORT else _POINTS // 2)
    across = min(_THREADS, max(next_power_of_two(-(-longest // points)), min(_NEIGHBOURS, next_power_of_two(vectors))))
    while rows * across < _ENOUGH * target.multiprocessors and across < min(_THREADS, vectors):
        across *= 2
    threads = max(across, min(_BLOCK, next_power_of_two(rows) * across), 32)
    while threads > max(across, 32) and -(-rows * across // threads) < 2 * target.multiprocessors:
        threads //= 2
    s = Rows(threads, across, vector, ragged=True, packed=True, reciprocals=True, approximate=True, longest=longest)
    s = min((s, replace(s, packed=False)), key=lambda s: estimate(s, known, target))
    return s if s.chunks(c) * vector <= _POINTS and s.chunks(c) * vector * bits <= HELD else None


def _by_turns(c: RowKernel) -> Rows:
    """The one for rows of any length."""
    vector = most_lanes(c)
    longest = next_power_of_two(int(hint(c.width) * LENGTHS[-1]))
    threads = min(_LOOPING[1], max(_LOOPING[0], longest // (vector * _UNROLL)))
    return Rows(
        threads, threads, vector, held=False, unroll=_UNROLL, ragged=True, reciprocals=True, approximate=True, online=bool(online_sums(c)) and not _computes(c),
    )


def _computes(c: RowKernel) -> bool:
    """Whether bodies compute with sizes."""
    return any(isinstance(v.type, ir.IndexType) for s in c.steps for v in outside_values(s.generic))

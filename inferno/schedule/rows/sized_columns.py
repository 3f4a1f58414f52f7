"""The schedule of kernels that go over rows side by side (``columns.py``) whose length varies, or their number: several kernels, of which each call
launches the one that its rows' length asks for.

Threads hold rows of up to so many points as the registers of a cluster have room for; a loop goes over rows of any length, of which the first turns stay in
shared memory and the others are read again in each phase.  Rows are not written one behind the other here, and share no reductions.
"""

from dataclasses import replace
from math import ceil

from inferno.mlir import func
from inferno.powers import next_power_of_two
from inferno.schedule.composite.size_ranges import BySize, along, at_point
from inferno.schedule.rows import columns
from inferno.schedule.rows.column_schedule import Columns, holding, keeping
from inferno.schedule.rows.columns import MOST
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.parser import parse_varying_rows
from inferno.schedule.rows.row_lengths import LENGTHS, ranges, that_hold
from inferno.schedule.rows.rows import read_rows
from inferno.schedule.rows.transposed_results import lanes
from inferno.symbolic import hint
from inferno.target import Target

# Points of the shortest rows that have a kernel, and parts of a power of two, by whole ones of which lengths go.
_SHORTEST, _PARTS = 16, 8
_BESIDE = 32  # vectors: more are more than a warp


def choose(kernel: func.FuncOp, target: Target) -> BySize | Columns | None:
    """Schedules for ranges of lengths if ``kernel`` is several operations on such rows of which one reduces them."""
    c = read(kernel, target)
    if c is None or len(c.steps) < 2:
        return None
    return ranges(c.width, _held(c, target), _by_turns(c, target))


def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that are rows side by side, in all tensors, of which something varies."""
    c = read_rows(kernel, target, parse_varying_rows)
    if c is None or c.in_pieces or not c.rows or c.rows[-1] != len(c.sizes) - 1:
        return None
    return None if any(d in c.rows for s in c.steps if not s.per_row for d in s.indices if d is not None) else c


def fits(s: Columns, c: RowKernel) -> bool:
    """Whether the generator takes it for rows of which something varies."""
    return s.fits(c) and s.run == 1 and lanes(c) % s.vector == 0 and not (s.sends or s.once or s.whole)


def pick(c: RowKernel, target: Target) -> Columns:
    """The one for the example's length."""
    return next((s for s in _held(c, target) if hint(c.width) <= s.longest), None) or _by_turns(c, target)


def estimate(s: Columns, c: RowKernel, target: Target) -> float:
    """Microseconds."""
    return columns.longest_time(s, c.in_example(), target)


def _held(c: RowKernel, target: Target) -> list[Columns]:
    """Schedules that have rows in registers, by the lengths that they are for."""
    if isinstance(c.width, int):
        return []
    lengths = dict.fromkeys(max(_SHORTEST, _rounded(ceil(hint(c.width) * x))) for x in LENGTHS)
    return that_hold(c.width, lengths, lambda longest: _holding(c, target, longest))


def _holding(c: RowKernel, target: Target, longest: int) -> Columns | None:
    """A schedule for rows of so many points, if registers hold them."""
    known = _at(c, longest)
    s = holding(_narrowed(columns.pick(known, target), c, known), known)
    return replace(s, longest=longest) if s.held and longest <= s.points else None


def _by_turns(c: RowKernel, target: Target) -> Columns:
    """The one for rows of any length; of one that is known, for that."""
    if isinstance(c.width, int):
        known = c.in_example()
        return holding(_narrowed(columns.pick(known, target), c, known), known)
    known = _at(c, ceil(hint(c.width) * LENGTHS[-1]))
    s = _narrowed(columns.by_length(known, target), c, known)
    return replace(s, reciprocals=True, approximate=True)


def _narrowed(s: Columns, c: RowKernel, known: RowKernel) -> Columns:
    """The same by vectors that divide all numbers of neighbouring rows, and more of them side by side."""
    if (vector := min(s.vector, lanes(c))) == s.vector:
        return s
    across = min(max(_BESIDE, s.across), s.across * (s.vector // vector))
    return keeping(replace(s, vector=vector, across=across, unroll=s.unroll * across // s.across), known, MOST)


def _at(c: RowKernel, length: int) -> RowKernel:
    """The same of rows of so many points, as nearly as can be, of as many rows as the example has."""
    return c.of_sizes(at_point(along(c.width, length)))


def _rounded(x: int) -> int:
    """The next whole number of parts of a power of two."""
    part = max(1, next_power_of_two(x) // _PARTS)
    return -(-x // part) * part

"""The schedule of rows that are added to others where both are few: each row looks for its own among all that are added, and adds them in order.

So it is one kernel, which rounds sums of 16-bit floats once, and gives the same bits each time.  What it costs is that the place of each update is asked of
for each row: where these are many, others are faster (``row_sums``, ``sorted_rows``).
"""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.powers import next_power_of_two
from inferno.scatter_limits import MULTIPROCESSORS, worthwhile_matches
from inferno.schedule.scatters.added_rows import AddedRows, parse_added_rows
from inferno.target import WARP, Target

# Places that a lane of a warp looks at together, warps that share the updates of a row at most, warps of a block, and updates that a thread reads at once.
_LOOKS, _PARTS, _WARPS, _UNROLL = 8, 16, 8, 4
_EACH = 4  # updates of a row that one warp finds, on average: more are added one after the other
_EMPTY = 16  # rows for each update: in the place of what they begin as nothing need be done of most of them


@dataclass(frozen=True)
class MatchedRows:
    """A warp has a part of a row: ``width`` threads have ``lanes`` neighbours each, and the warp's other threads have other updates of it.  It looks for these
    among as many as ``looks`` places of each thread at a time; ``parts`` warps of a block share those of a row, and a block has ``groups`` rows' parts.  A
    thread reads ``unroll`` updates at once."""

    generator: ClassVar[str] = "matched_rows"

    lanes: int
    width: int
    groups: int
    parts: int
    looks: int
    unroll: int

    @property
    def threads(self) -> int:
        return WARP * self.groups * self.parts

    @property
    def round(self) -> int:
        """Places that a warp looks at together."""
        return WARP * self.looks

    def slices(self, c: AddedRows) -> int:
        """The parts of a row, each of a warp or several."""
        return -(-c.columns // (self.lanes * self.width))

    def rounds(self, c: AddedRows) -> int:
        """How often a warp looks."""
        return -(-c.count // (self.parts * self.round))

    def all_rounds(self, c: AddedRows) -> int:
        """How often all warps look."""
        return c.rows * self.slices(c) * self.parts * self.rounds(c)

    def blocks(self, c: AddedRows) -> int:
        return -(-c.rows * self.slices(c) // self.groups)

    def fits(self, c: AddedRows) -> bool:
        """Whether the generator takes the kernel with this schedule."""
        sizes = min(self.lanes, self.groups, self.parts, self.looks, self.unroll) > 0 and self.threads <= 1024
        return sizes and not c.varies and c.columns % self.lanes == 0 and self.width in (1, 2, 4, 8, 16, 32)


def choose(kernel: func.FuncOp, target: Target) -> MatchedRows | None:
    """A schedule if ``kernel`` adds few rows to few others; None otherwise."""
    found = fit(kernel, target) if target.kind == "nvptx" else None
    if found is None:
        return None
    c, s = found
    begins = isinstance(c.start, int)
    few = c.count <= _EACH * s.parts * c.rows and not (begins and c.rows > _EMPTY * c.count)
    return s if few and worthwhile_matches(c.rows, c.columns, c.count, element_bytes(c.element), s.all_rounds(c), begins) else None


def fit(kernel: func.FuncOp, target: Target | None = None) -> tuple[AddedRows, MatchedRows] | None:
    """What ``kernel`` computes, and its schedule, if it adds rows to others."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_added_rows(kernel)
    return (c, pick(c, target.multiprocessors if target is not None else MULTIPROCESSORS)) if c is not None and not c.varies else None


def pick(c: AddedRows, multiprocessors: int) -> MatchedRows:
    """The schedule: a warp looks once, if that is enough, and there are blocks for all multiprocessors, if there are as many rows."""
    lanes = gcd(c.columns, 16 // element_bytes(c.element))
    width = min(WARP, next_power_of_two(c.columns // lanes))
    parts = min(_PARTS, next_power_of_two(-(-c.count // (WARP * _LOOKS))))
    looks = min(_LOOKS, next_power_of_two(-(-c.count // (WARP * parts))))
    s = MatchedRows(lanes, width, max(1, _WARPS // parts), parts, looks, _UNROLL)
    while s.groups > 1 and s.blocks(c) < multiprocessors:
        s = MatchedRows(lanes, width, s.groups // 2, parts, looks, _UNROLL)
    return s

"""The schedule of rows that are added to others of which any may get any number: updates are put in order by the row that they go to, and what one row gets
more than a few of is added up by several groups of threads, whose sums are added in the end.  So it takes no longer where all go to one row.
"""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.mlir import func
from inferno.powers import next_power_of_two
from inferno.scatter_limits import MULTIPROCESSORS, worthwhile_order
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.schedule.scatters.added_rows import EXTREMES, AddedRows, parse_added_rows
from inferno.target import Target

# Threads of a block, and of a row at most, and how many updates a group adds one after the other at least, and at most.
_THREADS, _WIDTH, _STEPS, _MOST = 256, 64, 32, 1 << 16
_PARTS = 2  # times as many where rows are of several parts: of 65536x1024 of bf16, all to one of 50257, steps of 64 took 149 us, 128 137 (anywhere 137 and 136)
# Updates that a thread has on their way at a time, and blocks of a multiprocessor, which bound its registers: in words of 32 bits and in others.  Where rows
# get few, many threads wait for one each.  (ptxas, left to itself, makes 40 registers do, and reads one after the other.  An H100 took for 65536x256 of bf16 to
# 4096 20.5 us, with 4 at a time in 6 blocks 22.4, and with 2 in 8, which spill, 25.9; for 65536x1024 to 50257 137, with 8 in 4 155.)
_MANY, _FEW = (8, 4, 3), (4, 6, 5)
_WAITING = 48  # words on the way: 8 rows of a table of bf16 by places of 64 bits; of two tables, three numbers and a factor they were 80, and 52 spilled
_OFTEN = 8  # updates of a row on average, from which on they are many
_TIMES = 4  # that a group reads what is on its way, for a row of few (1 took 37.9 us for 20.5 where rows get 16 each, and 8 the same)
_ROUNDS = 2  # as many blocks for pieces as run at a time, at most: most of these may have nothing to do


@dataclass(frozen=True)
class SortedRows:
    """A thread adds up ``lanes`` neighbours; ``width`` threads are a group, that has a row or a part of one, and ``groups`` a block.  What goes to a row of at
    most ``few`` updates one group adds up, ``unroll`` at a time; what goes to another is cut into pieces of ``steps`` for each group of a block, that adds
    ``ahead`` at a time.  As many as ``blocks`` take the pieces by turns, of each part of rows, and ``resident`` run on a multiprocessor."""

    generator: ClassVar[str] = "sorted_rows"

    lanes: int
    width: int
    groups: int
    few: int
    steps: int
    unroll: int
    ahead: int
    blocks: int
    resident: int

    @property
    def threads(self) -> int:
        return self.width * self.groups

    @property
    def piece(self) -> int:
        """The most updates of a block."""
        return self.steps * self.groups

    def slices(self, c: AddedRows) -> int:
        """The parts of a row, each of a group."""
        return -(-c.columns // (self.lanes * self.width))

    def pieces(self, c: AddedRows) -> int:
        """How many pieces there can be of rows that have several."""
        return c.count // self.piece + self.shared(c) if self.shared(c) else 0

    def shared(self, c: AddedRows) -> int:
        """How many rows can have several."""
        return min(c.rows, c.count // (self.piece + 1))

    def whole(self, c: AddedRows) -> int:
        """How many rows can have one."""
        return min(c.rows, c.count // (self.few + 1)) if self.few < self.piece else 0


def choose(kernel: func.FuncOp, target: Target) -> SortedRows | None:
    """A schedule if ``kernel`` adds so many rows to others that putting them in order is estimated to be the faster way; None otherwise."""
    found = fit(kernel, target) if target.kind == "nvptx" else None
    if found is None:
        return None
    c, schedule = found
    read = sum(tensor_bytes(t) for n, t in enumerate(kernel.type.inputs) if n not in (c.start, c.target))
    begins = isinstance(c.start, int)
    alone = c.combiner.name in EXTREMES
    return schedule if worthwhile_order(c.rows, c.columns, c.count, c.element.width // 8, schedule.lanes, begins, read, alone) else None


def fit(kernel: func.FuncOp, target: Target | None = None) -> tuple[AddedRows, SortedRows] | None:
    """What ``kernel`` computes, and its schedule, if it adds rows to others."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_added_rows(kernel)
    lanes = gcd(c.columns, 16 // (c.element.width // 8)) if c is not None and not c.varies else 1
    return (c, pick(c, lanes, target.multiprocessors if target is not None else MULTIPROCESSORS)) if lanes > 1 else None


def pick(c: AddedRows, lanes: int, multiprocessors: int) -> SortedRows:
    """The schedule: a block can have what goes to a row twice as often as on average, if there are blocks for all multiprocessors then where all goes to
    one; a row has no more pieces than each group of their blocks adds updates, and half as many where several blocks, one for each part, have a piece."""
    parts = c.columns // lanes
    slices = -(-parts // _WIDTH)
    width = -(-parts // slices)
    groups, each = max(1, _THREADS // width), -(-c.count // c.rows)
    usual, spread = 2 * each // groups, c.count * slices // (multiprocessors * groups)
    even = int(c.count ** 0.5) // groups
    steps = max(_STEPS, min(max(usual, even * min(slices, _PARTS)), spread), even)
    ahead, *resident = _MANY if each >= _OFTEN else _FEW
    resident = resident[lanes > 4]
    while ahead > 1 and ahead * _words(c, lanes) > _WAITING:
        ahead //= 2
    blocks = -(-_ROUNDS * resident * multiprocessors // slices)
    steps, unroll = min(_MOST, next_power_of_two(steps)), min(ahead, next_power_of_two(each))
    return SortedRows(lanes, width, groups, min(_TIMES * unroll, steps), steps, unroll, ahead, blocks, resident)


def _words(c: AddedRows, lanes: int) -> int:
    """Registers of what an update of a thread is read from."""
    if c.updates is None:
        return 0
    last = c.updates.runs[-1][-1] if c.updates.runs else None
    sources = {(s.argument, s.offset, s.strides): s for s in c.updates.sources if s is not None}.values()
    read = [(s.element, last is not None and s.strides[last] != 0) for s in sources]
    read += [(t.type.element_type, last is not None and t.type.shape[-1:] == [c.updates.sizes[last]]) for t, _ in c.updates.tables]
    return sum(-(-element.width * (lanes if along else 1) // 32) for element, along in read)

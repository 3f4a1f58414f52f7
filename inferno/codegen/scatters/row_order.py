"""Counting sort of updates by the row that they go to: kernels that count the updates of each row, give each row a part of a list, and put the updates there;
the order of those of one row differs from run to run.

Rows of many updates get pieces of a number of them, whose sums are made apart.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import word
from inferno.codegen.builders.gpu_function import Buffer
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import from_before, from_lane
from inferno.codegen.scatters.flat_elements import Reader
from inferno.mlir import arith, ir, math, memref, nvvm
from inferno.schedule.scatters.added_rows import AddedRows
from inferno.schedule.scatters.sorted_rows import SortedRows

_ADD, _WARP = 1, 32  # MLIR's number of the atomic operation
# What is counted for all rows together, behind the counts of each: updates, pieces of rows that have several, rows that have one, and those that have several.
LISTED, PIECES, WHOLE, SHARED = range(4)


def lists_of(c: AddedRows, schedule: SortedRows) -> dict[str, int]:
    """The lists and how long they are: how many go to each row, and to all; where those of a row begin in ``order``, and its pieces; the place of each update
    among its row's; the updates in order; the row of each piece and the first of that row's updates it has, those that are a row's only ones at the end; and
    the rows of several."""
    pieces = max(1, schedule.pieces(c) + schedule.whole(c))
    return {
        "counts": c.rows + 4, "begins": c.rows, "firsts": c.rows, "ranks": c.count, "order": c.count, "piece_rows": pieces, "piece_begins": pieces,
        "shared": max(1, schedule.shared(c)),
    }


@dataclass
class RowOrder:
    """``buffers``: the kernel's arguments, and the lists behind them.  The methods are bodies of kernels for the thread of a number; ``inside``: whether there
    is such a row, or such an update.  Warps are whole everywhere."""

    c: AddedRows
    schedule: SortedRows
    ints: Integers
    buffers: list[ir.Value]
    first: int
    """The number of the first list among the buffers."""

    def empty(self, number: Integer, inside: ir.Value) -> None:
        with only_if(inside):
            self.write("counts", number, word(0))

    def count(self, update: Integer, inside: ir.Value) -> None:
        """The updates of a warp that go to one row are counted at once: memory counts those that meet one after the other."""
        ints, i32 = self.ints, ir.IntegerType.get_signless(32)
        row, there = self.row_of(ints.min(update, self.c.count - 1))
        there = arith.andi(there, inside)
        row = arith.select(there, row, word(-1))
        same = nvvm.MatchSyncOp(word(-1), row, nvvm.MatchSyncKind.any, results=[i32]).res
        lane = _lane(ints, update)
        before = math.ctpop(arith.andi(same, arith.subi(arith.shli(word(1), lane), word(1))))
        leader = math.cttz(same)
        counts = if_else(
            arith.andi(there, arith.cmpi(arith.CmpIPredicate.eq, lane, leader)), [i32],
            lambda: [self.add("counts", row, math.ctpop(same))],
            lambda: [word(0)],
        )
        rank = arith.addi(from_lane(counts[0], leader), before)
        with only_if(there):
            self.write("ranks", update, rank)

    def divide(self, row: Integer, inside: ir.Value) -> None:
        """Give rows their parts of the lists: a warp takes those of its rows at once."""
        ints, s = self.ints, self.schedule
        held = ints.min(row, self.c.rows - 1)
        count = arith.select(inside, self.read("counts", held), word(0))
        pieces = arith.select(is_more(count, s.few), arith.divui(arith.addi(count, word(s.piece - 1)), word(s.piece)), word(0))
        several, one = is_more(pieces, 1), arith.cmpi(arith.CmpIPredicate.eq, pieces, word(1))
        lane = _lane(ints, row)
        begin, first, whole, place = (
            self.take(lane, counter, n) for counter, n in
            ((LISTED, count), (PIECES, arith.select(several, pieces, word(0))), (WHOLE, _as_number(one)), (SHARED, _as_number(several)))
        )
        with only_if(inside):
            self.write("begins", row, begin)
            self.write("firsts", row, arith.select(one, arith.addi(whole, word(s.pieces(self.c))), first))
        with only_if(several):
            self.write("shared", self.number(place), ints.word(row))

    def take(self, lane: ir.Value, counter: int, count: ir.Value) -> ir.Value:
        """The first of ``count`` places that each lane gets of those that a counter gives out."""
        i32, total = ir.IntegerType.get_signless(32), count
        for distance in (1, 2, 4, 8, 16):
            far = arith.cmpi(arith.CmpIPredicate.uge, lane, word(distance))
            total = arith.addi(total, arith.select(far, from_before(total, distance), word(0)))
        some = arith.andi(arith.cmpi(arith.CmpIPredicate.eq, lane, word(_WARP - 1)), is_more(total, 0))
        last = if_else(some, [i32], lambda: [self.add("counts", word(self.c.rows + counter), total)], lambda: [word(0)])
        return arith.addi(from_lane(last[0], _WARP - 1), arith.subi(total, count))

    def place(self, update: Integer, inside: ir.Value) -> None:
        """Put an update in its place; the first of each piece says which that is."""
        ints, s = self.ints, self.schedule
        with only_if(inside):
            row, there = self.row_of(update)
            with only_if(there):
                row, rank = self.number(row), self.read("ranks", update)
                self.write("order", self.number(arith.addi(self.read("begins", row), rank)), ints.word(update))
                if not s.pieces(self.c) + s.whole(self.c):
                    return
                begins = arith.cmpi(arith.CmpIPredicate.eq, arith.remui(rank, word(s.piece)), word(0))
                with only_if(arith.andi(begins, is_more(self.read("counts", row), s.few))):
                    piece = self.number(arith.addi(self.read("firsts", row), arith.divui(rank, word(s.piece))))
                    self.write("piece_rows", piece, ints.word(row))
                    self.write("piece_begins", piece, rank)

    def row_of(self, update: Integer) -> tuple[ir.Value, ir.Value]:
        """The row that an update goes to, in 32 bits, and whether there is one."""
        (place,) = Reader(self.ints, self.buffers).read(self.c.places, update)
        # In the place's own width: one far outside could be one inside in another.
        there = arith.cmpi(arith.CmpIPredicate.ult, place, arith.constant(place.type, self.c.rows))
        i32 = ir.IntegerType.get_signless(32)
        return place if place.type == i32 else arith.trunci(i32, place), there

    # The lists.

    def many(self, counter: int) -> ir.Value:
        return self.read("counts", self.c.rows + counter)

    def read(self, name: str, at: Integer) -> ir.Value:
        return memref.load(self.list(name), [self.ints.index(at)])

    def write(self, name: str, at: Integer, value: ir.Value) -> None:
        memref.store(value, self.list(name), [self.ints.index(at)])

    def add(self, name: str, at: ir.Value, value: ir.Value) -> ir.Value:
        kind = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ADD)
        return memref.AtomicRMWOp(kind, value, self.list(name), [self.ints.index(self.number(at))]).result

    def list(self, name: str) -> ir.Value:
        return self.buffers[self.first + list(lists_of(self.c, self.schedule)).index(name)]

    def number(self, value: ir.Value) -> ir.Value:
        """A number of 32 bits as one of the kernel's."""
        return value if self.ints.width == 32 else arith.extui(self.ints.type, value)


Body = Callable[[RowOrder, Integer, ir.Value], None]


def steps_of(c: AddedRows) -> list[tuple[Body, int, set[str]]]:
    """The kernels in order: what a thread does, how many there are, and which lists are written."""
    return [
        (RowOrder.empty, c.rows + 4, {"counts"}), (RowOrder.count, c.count, {"counts", "ranks"}),
        (RowOrder.divide, c.rows, {"counts", "begins", "firsts", "shared"}), (RowOrder.place, c.count, {"order", "piece_rows", "piece_begins"}),
    ]


def list_buffers(c: AddedRows, schedule: SortedRows, written: set[str]) -> list[Buffer]:
    """The kernel's parameters for its lists."""
    return [Buffer(ir.IntegerType.get_signless(32), n, name not in written) for name, n in lists_of(c, schedule).items()]


def is_more(value: ir.Value, number: int) -> ir.Value:
    """Whether a word without a sign is above a number."""
    return arith.cmpi(arith.CmpIPredicate.ugt, value, word(number))


def _as_number(condition: ir.Value) -> ir.Value:
    return arith.extui(ir.IntegerType.get_signless(32), condition)


def _lane(ints: Integers, thread: Integer) -> ir.Value:
    return ints.word(ints.rem(thread, _WARP))

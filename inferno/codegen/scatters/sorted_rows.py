"""Rows that are added to others, put in order by the row that they go to first (see ``row_order``).

Then a group of threads adds up what goes to a row, and blocks what goes to rows of many updates, each a piece of them; the sums of a row's pieces are added
by another kernel, always in the same order.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.conditions import all_of, only_if
from inferno.codegen.builders.elements import join, lanes_of, load_vector, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, index_width, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, temporary
from inferno.codegen.scatters.row_order import PIECES, SHARED, WHOLE, RowOrder, is_more, list_buffers, lists_of, steps_of
from inferno.codegen.scatters.row_values import RowValues
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, scf
from inferno.schedule.scatters.added_rows import parse_added_rows
from inferno.schedule.scatters.sorted_rows import SortedRows
from inferno.target import Target

_THREADS = 256  # of the kernels that put in order


def generate(kernel: func.FuncOp, schedule: SortedRows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that adds rows to others, and make ``kernel`` its launcher."""
    c, s, name = parse_added_rows(kernel), schedule, kernel.name.value
    if c is None or s.lanes < 2 or c.columns % s.lanes or not 0 < s.threads <= 1024 or min(s.few, s.steps, s.unroll, s.ahead, s.blocks) < 1:
        raise CompileError(f"@{name} adds no rows to others by {schedule}")
    expand_math(c.updates.generic)
    own, sums = parameters_of(kernel, {c.target}), c.combiner.type
    slices, pieces, shared = s.slices(c), s.pieces(c) + s.whole(c), s.shared(c)
    apart = max(1, s.pieces(c) * c.columns)  # elements of sums of pieces
    ints = Integers(index_width(own, c.count * c.columns, apart))
    ordering = steps_of(c)
    for number, (body, count, written) in enumerate(ordering):
        with gpu_function(kernel, [*own, *list_buffers(c, s, written)], _THREADS, suffix=f"_{number}" if number else "") as function:
            thread, block = _place(ints, _THREADS)
            mine = ints.add(ints.mul(block, _THREADS), thread)
            body(RowOrder(c, s, ints, function.buffers, len(own)), mine, ints.less(mine, count))
    adding = [(_Adder.add, min(pieces, s.blocks) + -(-c.rows // s.groups), True)] + [(_Adder.join, min(shared, s.blocks), False)] * (shared > 0)
    array = [(s.threads * s.lanes, sums)] if s.groups > 1 and pieces else []
    for number, (body, _, written) in enumerate(adding, len(ordering)):
        buffers = [*own, *list_buffers(c, s, set()), Buffer(sums, apart, not written)]
        with gpu_function(kernel, buffers, s.threads, array, minimum_blocks=s.resident, suffix=f"_{number}") as function:
            thread, block = _place(ints, s.threads)
            order = RowOrder(c, s, ints, function.buffers, len(own))
            body(_Adder(c, s, ints, function.buffers, order, function.shared, thread), *ints.split(block, [0, slices]))
    with launcher(kernel) as arguments:
        lists = [temporary([n], ir.IntegerType.get_signless(32)) for n in lists_of(c, s).values()]
        parameters = [*(parameter(a) for a in arguments), *map(pointer, lists)]
        grids = [(-(-count // _THREADS), _THREADS) for _, count, _ in ordering] + [(count * slices, s.threads) for _, count, _ in adding]
        last = pointer(temporary([apart], sums))
        for number, (grid, threads) in enumerate(grids):
            given = parameters if number < len(ordering) else [*parameters, last]
            launch(f"{name}_gpu", name + (f"_{number}" if number else ""), given, (grid, 1, 1), (threads, 1, 1))


def _place(ints: Integers, threads: int) -> tuple[Integer, Integer]:
    """The numbers of the thread and of the block."""
    thread = ints.thread(threads)
    return thread, ints.block()


@dataclass
class _Adder(RowValues):
    """``buffers``: the kernel's arguments, the lists, and the sums of pieces; ``shared``: an array for the sums of a block's groups, if there are several."""

    order: RowOrder
    shared: list[ir.Value]
    thread: Integer

    def add(self, number: Integer, part: Integer) -> None:
        """Pieces, by turns, or behind the blocks of these as many rows as there are groups, of which a block has a part."""
        ints, s = self.ints, self.schedule
        blocks = min(s.blocks, s.pieces(self.c) + s.whole(self.c))
        if not blocks:
            self.rows(ints.mul(number, s.groups), part)
            return
        is_piece = scf.IfOp(ints.less(number, blocks), has_else=True)
        with ir.InsertionPoint(is_piece.then_block):
            several, whole = (self.order.number(self.order.many(n)) for n in (PIECES, WHOLE))

            def turn(turn: Integer) -> None:
                behind = arith.select(ints.less(turn, several), ints.value(0), ints.sub(ints.value(s.pieces(self.c)), several))
                self.piece(ints.add(turn, behind), part)

            self.by_turns(ints.add(several, whole), number, blocks, turn)
            scf.yield_([])
        with ir.InsertionPoint(is_piece.else_block):
            self.rows(ints.mul(ints.sub(number, blocks), s.groups), part)
            scf.yield_([])

    def by_turns(self, count: Integer, number: Integer, blocks: int, body: Callable[[Integer], None]) -> None:
        """What the ``number``-th of so many blocks does of ``count`` pieces, or rows."""
        loop = scf.ForOp(self.ints.value(number), self.ints.value(count), self.ints.value(blocks), [])
        with ir.InsertionPoint(loop.body):
            body(loop.induction_variable)
            scf.yield_([])

    def rows(self, first: Integer, part: Integer) -> None:
        """Each group adds what goes to its row, if that is little."""
        c, s, ints, order = self.c, self.schedule, self.ints, self.order
        group, column, is_column = self.place(part)
        row = ints.add(first, group)
        inside = ints.less(row, c.rows) if c.rows % s.groups else None
        with only_if(_all(inside, is_column)):
            count = order.read("counts", row)
            begin = order.number(order.read("begins", row))
            with only_if(arith.xori(is_more(count, s.few), arith.constant(ir.IntegerType.get_signless(1), 1))):
                with only_if(self.changes(count)):
                    start = self.begin(row, column)  # on its way with the rest
                    total = self.total(order.number(count), s.unroll, lambda k: self.update(ints.add(begin, k), column))
                    self.end(total, start, row, column)

    def changes(self, count: ir.Value) -> ir.Value:
        """Whether a row is anything else than what is there: the result may be in the place of what it begins as."""
        some = is_more(count, 0)
        if not isinstance(self.c.start, int):
            return arith.constant(some.type, 1)
        return arith.ori(some, self.apart())

    def piece(self, number: Integer, part: Integer) -> None:
        """All groups of a block add what it has of a row's updates, by turns."""
        c, s, ints, order = self.c, self.schedule, self.ints, self.order
        group, column, is_column = self.place(part)
        row, first = order.number(order.read("piece_rows", number)), order.number(order.read("piece_begins", number))
        count, begin = order.number(order.read("counts", row)), order.number(order.read("begins", row))
        here = ints.min(ints.sub(count, first), s.piece)
        start = ints.add(ints.add(begin, first), group)
        turns = ints.div(ints.sub(ints.add(here, s.groups - 1), group), s.groups)
        total = self.total(turns, s.ahead, lambda k: self.update(ints.add(start, ints.mul(k, s.groups)), column))
        total = self.of_block(total, group)
        with only_if(_all(ints.equal(group, 0), is_column)):
            if not s.shared(c):
                self.end(total, self.begin(row, column), row, column)
                return
            whole = scf.IfOp(ints.less(s.piece, count), has_else=True)
            with ir.InsertionPoint(whole.then_block):
                store_vector(ints, join(total), self.buffers[-1], ints.add(ints.mul(number, c.columns), column), s.lanes)
                scf.yield_([])
            with ir.InsertionPoint(whole.else_block):
                self.end(total, self.begin(row, column), row, column)
                scf.yield_([])

    def join(self, number: Integer, part: Integer) -> None:
        """Add up the sums of the pieces of rows that have several, from the ``number``-th on by turns."""
        c, s, ints, order = self.c, self.schedule, self.ints, self.order
        group, column, is_column = self.place(part)

        def one(number: Integer) -> None:
            row = order.number(order.read("shared", number))
            first, count = order.number(order.read("firsts", row)), order.number(order.read("counts", row))
            pieces = ints.div(ints.add(count, s.piece - 1), s.piece)
            turns = ints.div(ints.sub(ints.add(pieces, s.groups - 1), group), s.groups)

            def sums(k: Integer) -> list[ir.Value]:
                at = ints.mul(ints.add(ints.add(first, group), ints.mul(k, s.groups)), c.columns)
                return lanes_of(load_vector(ints, self.buffers[-1], ints.add(at, column), c.combiner.type, s.lanes, s.lanes))

            total = self.of_block(self.total(turns, s.ahead, sums), group)
            with only_if(_all(ints.equal(group, 0), is_column)):
                self.end(total, self.begin(row, column), row, column)

        self.by_turns(order.number(order.many(SHARED)), number, min(s.blocks, s.shared(c)), one)

    # Sums.

    def place(self, part: Integer) -> tuple[Integer, Integer, ir.Value | None]:
        """A thread's group, the first of its columns, and whether it has any, if that is not known; one that has none reads the last."""
        ints, s, parts = self.ints, self.schedule, self.c.columns // self.schedule.lanes
        mine = ints.add(ints.mul(part, s.width), ints.rem(self.thread, s.width))
        inside = ints.less(mine, parts) if parts % s.width else None
        return ints.div(self.thread, s.width), ints.mul(mine if inside is None else ints.min(mine, parts - 1), s.lanes), inside

    def update(self, at: Integer, column: Integer) -> list[ir.Value]:
        """The elements from ``column`` on of the update that is in order at a place."""
        return self.term(self.order.number(self.order.read("order", at)), column)

    def of_block(self, sums: list[ir.Value], group: Integer) -> list[ir.Value]:
        """The sums of the first group and of all others, in the first: half of them add those of the other half, until one is left."""
        ints, s, left = self.ints, self.schedule, self.schedule.groups
        while left > 1:
            half, (array,) = (left + 1) // 2, self.shared
            with only_if(arith.andi(ints.less(half - 1, group), ints.less(group, left))):
                store_vector(ints, join(sums), array, ints.mul(self.thread, s.lanes), s.lanes)
            gpu.barrier()
            adds = ints.less(group, left - half)
            other = ints.add(self.thread, arith.select(adds, ints.value(half * s.width), ints.value(0)))
            found = lanes_of(load_vector(ints, array, ints.mul(other, s.lanes), self.c.combiner.type, s.lanes, s.lanes))
            sums = [arith.select(adds, self.c.combiner.combine(a, b), a) for a, b in zip(sums, found)]
            left = half
        if s.groups > 1:
            gpu.barrier()  # before the next piece
        return sums


def _all(*conditions: ir.Value | None) -> ir.Value:
    every = all_of(*conditions)
    return arith.constant(ir.IntegerType.get_signless(1), 1) if every is None else every

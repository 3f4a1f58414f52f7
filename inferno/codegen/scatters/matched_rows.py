"""Rows that are added to others, each of which looks for its own among the places of all that are added, and adds them in order: one kernel.

Warps vote on 32 places at a time, list those of their row in shared memory, and read what is listed there; warps that share the updates of a row meet there.
"""

from dataclasses import dataclass
from functools import reduce

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of, load_vector, splat, store_vector, word
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import gpu_function, index_width, parameters_of
from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.nvvm.shuffles import ballot, exchange
from inferno.codegen.scatters.flat_elements import Reader
from inferno.codegen.scatters.row_values import RowValues
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, math, memref, nvvm, scf
from inferno.schedule.scatters.added_rows import parse_added_rows
from inferno.schedule.scatters.matched_rows import MatchedRows
from inferno.target import WARP, Target


_RESIDENT = 1024  # threads of a multiprocessor, for all whose registers there is room: ptxas, left to itself, takes half as many and waits for each read


def generate(kernel: func.FuncOp, schedule: MatchedRows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that adds rows to others, and make ``kernel`` its launcher."""
    c, s, name = parse_added_rows(kernel), schedule, kernel.name.value
    if c is None or not s.fits(c):
        raise CompileError(f"@{name} adds no rows to others by {schedule}")
    expand_math(c.updates.generic)
    own, i32, warps = parameters_of(kernel, {c.target}), ir.IntegerType.get_signless(32), s.groups * s.parts
    shared = [(warps * s.round, i32)] + ([(s.threads * s.lanes, c.combiner.type), (warps, i32)] if s.parts > 1 else [])
    with gpu_function(kernel, own, s.threads, shared, minimum_blocks=_RESIDENT // s.threads) as function:
        ints = Integers(index_width(own, s.parts * s.rounds(c) * s.round * c.columns))
        _Matcher(c, s, ints, function.buffers, function.shared).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (s.blocks(c), 1, 1), (s.threads, 1, 1))


@dataclass
class _Matcher(RowValues):
    """``shared``: the numbers of the updates that each warp has found, and if several share a row's, the sums of each, and how many it found."""

    shared: list[ir.Value]

    def emit(self) -> None:
        c, s, ints = self.c, self.schedule, self.ints
        thread, block = ints.thread(s.threads), ints.block()
        self.lane, self.warp = ints.rem(thread, WARP), ints.div(thread, WARP)
        self.part = ints.rem(self.warp, s.parts)
        number, slices = ints.add(ints.mul(block, s.groups), ints.div(self.warp, s.parts)), s.slices(c)
        inside = ints.less(number, c.rows * slices) if c.rows * slices % s.groups else None
        row, slice_ = ints.split(number if inside is None else ints.min(number, c.rows * slices - 1), [c.rows, slices])
        mine, vectors = ints.add(ints.mul(slice_, s.width), ints.rem(self.lane, s.width)), c.columns // s.lanes
        is_column = ints.less(mine, vectors) if vectors % s.width else None
        column = ints.mul(mine if is_column is None else ints.min(mine, vectors - 1), s.lanes)
        apart = self.apart()
        # What the row begins as is on its way with the rest, but where the row may stay as it is.
        start = self.begin(row, column) if apart is None else self.begin_if(apart, row, column)
        sums, found = self.found(row, column)
        for distance in [1 << i for i in range(5) if s.width <= 1 << i]:
            sums = [c.combiner.combine(a, exchange(a, distance)) for a in sums]
        if s.parts > 1:
            self.leave(sums, found, thread)
        first = ints.equal(self.part, 0) if s.parts > 1 else None
        one = ints.less(self.lane, s.width) if s.width < WARP else None
        with only_if(inside, is_column, first, one):
            if s.parts > 1:
                sums, found = self.of_parts(sums)
            changed = None if apart is None else arith.ori(apart, arith.cmpi(arith.CmpIPredicate.ne, found, word(0)))
            with only_if(changed):
                if apart is not None:
                    start = if_else(apart, [v.type for v in start], lambda: start, lambda: self.begin(row, column))
                self.end(sums, start, row, column)

    def begin_if(self, condition: ir.Value, row: Integer, column: Integer) -> list[ir.Value]:
        """What a row begins as if a condition holds, or anything."""
        none = [splat(self.c.element, 0)] * self.schedule.lanes
        return if_else(condition, [v.type for v in none], lambda: self.begin(row, column), lambda: none)

    def found(self, row: Integer, column: Integer) -> tuple[list[ir.Value], ir.Value]:
        """The sums of what a warp finds of a row's updates, of each thread those that it reads, and how many there are."""
        c, s, ints = self.c, self.schedule, self.ints
        begin, sums = ints.mul(self.part, s.rounds(c) * s.round), [c.combiner.identity()] * s.lanes
        if s.rounds(c) == 1:
            return self.round(begin, row, column, sums, word(0))
        loop = scf.ForOp(ints.value(0), ints.value(s.rounds(c)), ints.value(1), [*sums, word(0)])
        with ir.InsertionPoint(loop.body):
            *sums, before = loop.inner_iter_args
            sums, found = self.round(ints.add(begin, ints.mul(loop.induction_variable, s.round)), row, column, sums, before)
            nvvm.SyncWarpOp(word(-1))  # before others are listed
            scf.yield_([*sums, found])
        *sums, found = loop.results
        return sums, found

    def round(self, begin: Integer, row: Integer, column: Integer, sums: list[ir.Value], before: ir.Value) -> tuple[list[ir.Value], ir.Value]:
        """The same with those from ``begin`` on, in one look at them."""
        c, s, ints, (listed, *_) = self.c, self.schedule, self.ints, self.shared
        numbers = [ints.add(ints.add(begin, k * WARP), self.lane) for k in range(s.looks)]
        places = [Reader(ints, self.buffers).read(c.places, ints.min(n, c.count - 1))[0] for n in numbers]
        first, wanted = ints.mul(self.warp, s.round), resize(ints.value(row), places[0].type.width)
        below = arith.subi(arith.shli(word(1), ints.word(self.lane)), word(1))
        found = word(0)
        for number, place in zip(numbers, places):
            here = arith.andi(arith.cmpi(arith.CmpIPredicate.eq, place, wanted), ints.less(number, c.count))
            votes = ballot(here)
            at = arith.addi(found, math.ctpop(arith.andi(votes, below)))
            with only_if(here):
                memref.store(ints.word(number), listed, [ints.index(ints.add(first, self.number(at)))])
            found = arith.addi(found, math.ctpop(votes))
        nvvm.SyncWarpOp(word(-1))
        others = WARP // s.width
        own = ints.div(self.lane, s.width)
        count = self.number(found)
        turns = ints.div(ints.sub(ints.add(count, others - 1), own), others)

        def term(k: Integer) -> list[ir.Value]:
            at = ints.add(ints.add(first, own), ints.mul(k, others))
            return self.term(self.number(memref.load(listed, [ints.index(at)])), column)

        return self.total(turns, s.unroll, term, sums), arith.addi(before, found)

    def leave(self, sums: list[ir.Value], found: ir.Value, thread: Integer) -> None:
        """Let the first warp of a row know what this one has."""
        ints, s, (_, values, counts) = self.ints, self.schedule, self.shared
        store_vector(ints, join(sums), values, ints.mul(thread, s.lanes), s.lanes)
        with only_if(ints.equal(self.lane, 0)):
            memref.store(found, counts, [ints.index(self.warp)])
        gpu.barrier()

    def of_parts(self, sums: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        """What the warps of a row have together, for the first of them."""
        c, s, ints, (_, values, counts) = self.c, self.schedule, self.ints, self.shared
        for p in range(1, s.parts):
            at = ints.mul(ints.add(ints.mul(ints.add(self.warp, p), WARP), self.lane), s.lanes)
            sums = list(map(c.combiner.combine, sums, lanes_of(load_vector(ints, values, at, c.combiner.type, s.lanes, s.lanes))))
        return sums, reduce(arith.addi, [memref.load(counts, [ints.index(ints.add(self.warp, p))]) for p in range(s.parts)])

    def number(self, value: ir.Value) -> ir.Value:
        """A number of 32 bits as one of the kernel's."""
        return value if self.ints.width == 32 else arith.extui(self.ints.type, value)

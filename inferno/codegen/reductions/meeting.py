"""How the threads of a block combine what each has: those of a warp by shuffles, warps in shared memory."""

from collections.abc import Callable, Iterator

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, lanes_of, store, to_memory
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import exchange
from inferno.codegen.reductions.chunks import write_results
from inferno.codegen.reductions.joining import Joining, Values
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.reduction_schedule import TOGETHER, Reductions


class Meeting:
    """Of an ``Emitter`` of reductions: what follows when each thread has its share."""

    c: ReductionKernel
    s: Reductions
    ints: Integers
    joining: Joining
    buffers: list[ir.Value]
    shared: list[ir.Value]
    mine: ir.Value | None
    point: Integer
    begin: Integer
    base: Integer
    meet_extrema: Callable[..., Values]

    def meet_along(self, values: Values, thread: Integer, lane: Integer, column: Integer, chunk: Integer, end: Integer | None) -> None:
        ints, s, joining = self.ints, self.s, self.joining
        distances = [32 >> i for i in range(1, 6) if 32 >> i < s.along]
        if self.c.extremum is not None:
            values = self.meet_extrema(values, distances, thread, column, end)
        else:
            for distance in distances:
                values = joining.totals(values, [exchange(v, distance) for v in values])
            values = self.between_warps(values, self.shared, joining.tree, thread, column)
        conditions = [ints.equal(lane, 0)] if s.along > 1 else []
        with only_if(*conditions, self.mine):
            self.put(values, self.point, chunk)

    def between_warps(self, values: Values, arrays: list[ir.Value], tree_: Callable[[list[Values]], Values], thread: Integer, column: Integer) -> Values:
        """What the warps along a sum have together, each of which has ``values``."""
        ints, s = self.ints, self.s
        if s.along <= 32:
            return values
        warps = s.along // 32
        with only_if(ints.equal(ints.rem(thread, 32), 0)):
            for value, array in zip(values, arrays):
                memref.store(to_memory(value), array, [ints.index(ints.div(thread, 32))])
        gpu.barrier()
        begin, types = ints.mul(column, warps), [v.type for v in values]
        return tree_([[from_memory(memref.load(a, [ints.index(begin, i)]), t) for a, t in zip(arrays, types)] for i in range(warps)])

    def meet_across(self, values: Values, thread: Integer, lane: Integer, column: Integer, chunk: Integer) -> None:
        """The threads along sums put together what they have: those of a warp by shuffles, warps in shared memory, where each has a row."""
        ints, s, joining = self.ints, self.s, self.joining
        parts, first = self.within_warps([list(each) for each in zip(*map(lanes_of, values))], lane)
        turn = ints.rem(lane, s.beside)
        whose = [ints.less(turn, s.vector)] if s.beside > s.vector else []  # the others have the same
        rows = s.along // s.beside
        if rows == 1:
            with only_if(*whose, self.mine):
                for i, part in enumerate(parts):
                    self.put(part, ints.add(self.point, ints.add(first, i)), chunk)
            return
        width, types = s.across * s.vector, [k.total for k in joining.combiners]

        def get(place: Integer) -> Values:
            return [from_memory(memref.load(a, [ints.index(place)]), t) for a, t in zip(self.shared, types)]

        def set_(place: Integer, values: Values) -> None:
            for value, array in zip(values, self.shared):
                memref.store(to_memory(value), array, [ints.index(place)])

        begin = ints.add(ints.mul(ints.div(lane, s.beside), width), column)
        with only_if(*whose):
            for i, part in enumerate(parts):
                set_(ints.add(begin, ints.mul(ints.add(first, i), s.across)), part)
        gpu.barrier()
        while rows > TOGETHER:  # half of the rows with the other half
            rows //= 2
            for here, conditions in self.numbers(thread, rows * width):
                with only_if(*conditions):
                    set_(here, joining.totals(get(here), get(ints.add(here, rows * width))))
            gpu.barrier()
        for here, conditions in self.numbers(thread, width):
            other, of = ints.rem(here, s.across), ints.div(here, s.across)
            vectors = s.row(self.c)
            if self.mine is not None:
                conditions.append(ints.less(ints.add(self.begin, other), vectors))
            with only_if(*conditions):
                found = joining.tree([get(ints.add(here, y * width)) for y in range(rows)])
                self.put(found, ints.add(ints.add(self.base, ints.mul(other, s.vector)), of), chunk)

    def within_warps(self, parts: list[Values], lane: Integer) -> tuple[list[Values], Integer]:
        """What the threads of a warp along the same sums have together of these, and the number of the first of those that a thread is left with: each
        time two of them keep half of what they have, and give the other half away, until each has one."""
        ints, s, joining = self.ints, self.s, self.joining
        first: Integer = 0
        step = 1
        while step < s.beside:
            if (half := len(parts) // 2) == 0:
                parts = [joining.totals(x, [exchange(v, step * s.across) for v in x]) for x in parts]
            else:
                side = ints.rem(ints.div(lane, step), 2)
                upper = ints.equal(side, 1)
                kept = [[arith.select(upper, b, a) for a, b in zip(x, y)] for x, y in zip(parts, parts[half:])]
                given = [[arith.select(upper, a, b) for a, b in zip(x, y)] for x, y in zip(parts, parts[half:])]
                parts = [joining.totals(x, [exchange(v, step * s.across) for v in y]) for x, y in zip(kept, given)]
                first = ints.add(first, ints.mul(side, half))
            step *= 2
        return parts, first

    def numbers(self, thread: Integer, count: int) -> Iterator[tuple[Integer, list[ir.Value]]]:
        """A thread's numbers of so many, and the condition on which there is one."""
        for begin in range(0, count, self.s.threads):
            number = self.ints.add(thread, begin)
            yield number, [self.ints.less(number, count)] if count - begin < self.s.threads else []

    def put(self, totals: Values, point: Integer, chunk: Integer) -> None:
        """The results of a sum, or what a chunk of it has."""
        c, s, ints = self.c, self.s, self.ints
        if s.cuts(c) > 1:
            where = ints.add(ints.mul(chunk, c.count), point)
            for value, buffer in zip(totals, self.buffers[-len(totals):]):
                store(ints, value, buffer, where)
            return
        write_results(c, ints, self.joining.results(totals), point, dict(enumerate(self.buffers)))

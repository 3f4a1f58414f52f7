"""How the threads of a block combine what each has: by shuffles and shared memory along a sum, in shared memory where lanes are sums of their own."""

from collections.abc import Callable

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, lanes_of, store, to_memory
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import exchange
from inferno.codegen.reductions.chunks import write_results
from inferno.codegen.reductions.joining import Joining, Values
from inferno.mlir import gpu, ir, memref
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.reduction_schedule import TOGETHER, Reductions
from inferno.symbolic import floordiv


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
        """Each thread adds up what those along have of some sums."""
        ints, s, joining = self.ints, self.s, self.joining
        own = [self.mine] if self.mine is not None else []
        if s.along == 1:
            with only_if(*own):
                for i, each in enumerate(zip(*map(lanes_of, values))):
                    self.put(list(each), ints.add(self.point, i), chunk)
            return
        width, types = s.across * s.vector, [k.total for k in joining.combiners]

        def places(lane: Integer) -> list[ir.Value]:
            return [ints.index(ints.add(ints.add(ints.mul(lane, width), i * s.across), column)) for i in range(s.vector)]

        def get(place: ir.Value) -> Values:
            return [from_memory(memref.load(a, [place]), t) for a, t in zip(self.shared, types)]

        for value, array in zip(values, self.shared):
            for x, place in zip(lanes_of(value), places(lane)):
                memref.store(to_memory(x), array, [place])
        gpu.barrier()
        left = s.along
        while left > TOGETHER:  # half of the threads with the other half's
            left //= 2
            with only_if(ints.less(lane, left)):
                here = places(lane)
                found = [(get(mine), get(other)) for mine, other in zip(here, places(ints.add(lane, left)))]  # all before what is stored, which may be the same
                for (mine, other), place in zip(found, here):
                    for value, array in zip(joining.totals(mine, other), self.shared):
                        memref.store(to_memory(value), array, [place])
            gpu.barrier()
        for begin in range(0, width, s.threads):
            here = ints.add(thread, begin)
            conditions = [ints.less(here, width)] if width - begin < s.threads else []
            other, of = ints.rem(here, s.across), ints.div(here, s.across)
            vectors = floordiv(self.c.inner, s.vector)
            if self.mine is not None:
                conditions.append(ints.less(ints.add(self.begin, other), vectors))
            with only_if(*conditions):
                found = joining.tree([get(ints.index(ints.add(here, y * width))) for y in range(left)])
                self.put(found, ints.add(ints.add(self.base, ints.mul(other, s.vector)), of), chunk)

    def put(self, totals: Values, point: Integer, chunk: Integer) -> None:
        """The results of a sum, or what a chunk of it has."""
        c, s, ints = self.c, self.s, self.ints
        if s.cuts(c) > 1:
            where = ints.add(ints.mul(chunk, c.count), point)
            for value, buffer in zip(totals, self.buffers[-len(totals):]):
                store(ints, value, buffer, where)
            return
        write_results(c, ints, self.joining.results(totals), point, dict(enumerate(self.buffers)))

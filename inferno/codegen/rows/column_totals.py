"""Reductions across threads of rows side by side: by warp shuffles or in shared memory, and across a cluster by distributed shared memory.

Rows that share their reductions, as the channels of a group, are of one block: what they have meets there before what the cluster's blocks have.  Where all
lanes of a vector share them a thread has one part of each.  A thread that has all points of its rows meets nobody.
"""

from collections.abc import Callable

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, convert, from_memory, join, lanes_of, to_memory, tree
from inferno.codegen.nvvm.cluster import arrive_in_cluster, read_remote, wait_for_cluster
from inferno.codegen.nvvm.shuffles import exchange
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep

MEAN = -1  # the number of means, where a row's moments are taken at once


class ColumnTotals:
    """What an emitter of ``columns`` does with them."""

    def identities(self, running: list[tuple[int, Combiner]]) -> list[ir.Value]:
        whole = self.s.shares_lanes(self.c)
        return [k.identity(k.total) if whole else as_vector(k.identity(k.total), self.s.vector) for _, k in running]

    def total(self, combiner: Combiner, value: ir.Value) -> ir.Value:
        return convert(tree(combiner.combine, lanes_of(value)) if self.s.shares_lanes(self.c) else value, combiner.total)

    def finish(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], parts: dict[int, ir.Value]) -> None:
        """Combine what threads have of each row, and take what it comes to: across a block's threads, the rows of a group, and the blocks of a cluster."""
        s, c = self.s, self.c
        if s.alone(c):
            self._rows.update(self.results(reducing, parts))
            return
        combination = _Combination(self, reducing, running, parts)
        if self.exchange is not None and not self.exchange.ready:
            self.exchange.await_others()
        combination.combine_groups()
        if self.exchange is not None:
            combination.send()
            combination.receive()
        elif s.cluster > 1:
            combination.leave_of_block()
            wait_for_cluster()
            combination.combine_cluster()
        else:
            combination.combine_block()
        gpu.barrier()
        if s.cluster > 1 and self.exchange is None and not any(self.reductions(phase)[1] for phase in range(self.now + 1, c.phases)):
            arrive_in_cluster()
        self._rows.update({n: self.taken(combination.whole[n], type_) for n, type_ in self.result_types(reducing).items()})

    def results(self, reducing: list[RowStep], totals: dict[int, ir.Value]) -> dict[int, ir.Value]:
        """What reductions come to with what they begin with."""
        met = [(n, k, start) for step in reducing for n, k, start in zip(step.results, step.combiners, step.starts) if k is not None]
        lanes = self.s.vector if self.s.alone(self.c) else 0  # a thread has the totals of all of its rows, or one

        def begin(k: Combiner, start: object) -> ir.Value:
            value = convert(arith.constant(k.narrow, start), k.total)
            return as_vector(value, lanes) if lanes else value

        return {n: convert(k.combine(begin(k, start), totals[n]), k.narrow) for n, k, start in met}

    def result_types(self, reducing: list[RowStep]) -> dict[int, ir.Type]:
        return {n: k.narrow for step in reducing for n, k in zip(step.results, step.combiners) if k is not None}

    def leave(self, running: list[tuple[int, Combiner]], parts: dict[int, ir.Value], arrays: list[ir.Value]) -> int:
        """Leave what a warp has of each row, or a thread, in shared memory; how many such parts a row has.

        Of two threads that meet each goes on with half of the rows, until it has one: 7 exchanges for 8 rows, where all that have all would take 24."""
        ints, s, whole = self.ints, self.s, self.s.shares_lanes(self.c)
        lanes = {n: [parts[n]] if whole else lanes_of(parts[n]) for n, _ in running}
        distance, first, left = 16, 0, 1 if whole else s.vector
        while s.by_shuffles and distance >= s.across and left > 1:
            bit, left = ints.rem(ints.div(self.thread, distance), 2), left // 2
            upper, first = ints.equal(bit, 1), ints.add(first, ints.mul(bit, left))
            for n, k in running:
                low, high = lanes[n][:left], lanes[n][left:]
                given = [exchange(arith.select(upper, x, y), distance) for x, y in zip(low, high)]
                lanes[n] = [k.combine(arith.select(upper, y, x), z) for x, y, z in zip(low, high, given)]
            distance //= 2
        same = 2 * distance // s.across  # threads of a row that have the same of it in the end
        while s.by_shuffles and distance >= s.across:
            lanes = {n: [k.combine(x, exchange(x, distance)) for x in lanes[n]] for n, k in running}
            distance //= 2
        number = ints.div(self.thread, 32 if s.by_shuffles else s.across)
        begin = ints.add(ints.add(ints.mul(number, s.across * (1 if whole else s.vector)), self.column), ints.mul(first, s.across))

        alone = [ints.equal(ints.rem(ints.div(self.thread, s.across), same), 0)] if s.by_shuffles and same > 1 else []
        with only_if(*alone):
            for (n, _), array in zip(running, arrays):
                for i, x in enumerate(lanes[n]):
                    memref.store(to_memory(x), array, [ints.index(begin, i * s.across)])
        return s.threads // 32 if s.by_shuffles else s.along

    def taken(self, array: ir.Value, type_: ir.Type) -> ir.Value:
        """What a vector's rows came to."""
        ints, s, together = self.ints, self.s, self.c.together

        def get(place: object, plus: int = 0) -> ir.Value:
            return from_memory(memref.load(array, [ints.index(place, plus)]), type_)

        if s.shares_lanes(self.c):
            return as_vector(get(ints.div(self.column, together // s.vector)), s.vector)
        if together > 1:
            return join([get(ints.div(ints.add(ints.mul(self.column, s.vector), i), together)) for i in range(s.vector)])
        return join([get(self.column, i * s.across) for i in range(s.vector)])


class _Combination:
    """What is in shared memory of the reductions of one phase, on its way from threads to the whole block and cluster.

    Each combiner has its own array at every stage: what warps (or threads) have of a row, what rows of a group have, what the block has, and the whole.
    ``numbers``: how many results a combiner has in a block.
    """

    def __init__(self, e: ColumnTotals, reducing: list[RowStep], running: list[tuple[int, Combiner]], parts: dict[int, ir.Value]) -> None:
        self.e, self.reducing, self.running = e, reducing, running
        s, c, count = e.s, e.c, len(e.places)
        self.lanes = 1 if s.shares_lanes(c) else s.vector  # that a thread has parts of
        self.side, self.members = s.across * self.lanes, c.together * self.lanes // s.vector
        of_warps = [e.shared[e.parts[n]] for n, _ in running]
        self.numbers = s.numbers(c)
        self.block, whole, *of_rows = ([e.shared[e.lists + e.places[n] + i * count] for n, _ in running] for i in range(2 + (c.together > 1)))
        self.whole = {n: array for (n, _), array in zip(running, whole)}
        if s.once:
            self.whole[MEAN] = e.shared[e.lists + (2 + (c.together > 1)) * count]
        self.places = [e.places[n] for n, _ in running]
        self.several = e.leave(running, parts, of_warps)
        gpu.barrier()
        self.mine = e.ints.rem(e.thread, self.numbers) if e.exchange is not None else e.thread
        self.of_rows = of_rows[0] if self.members > 1 else None
        self.last, self.get = of_warps, self.get_row

    def combine_groups(self) -> None:
        """Where rows share their reductions: what each of them comes to is what the next step reads."""
        if self.members > 1:
            self.bring(self.side, self.last, self.of_rows)
            gpu.barrier()
            self.last, self.get = self.of_rows, self.get_group

    def combine_block(self) -> None:
        self.conclude(lambda i, k: self.get(self.last[i], k.total))

    def leave_of_block(self) -> None:
        self.bring(self.numbers, self.last, self.block)

    def combine_cluster(self) -> None:
        e = self.e
        self.conclude(lambda i, k: [from_memory(read_remote(self.block[i], rank, e.thread), k.total) for rank in range(e.s.cluster)])

    def send(self) -> None:
        """A thread for each number and block sends it."""
        e = self.e

        with only_if(e.ints.less(e.thread, e.exchange.senders)):
            values = [tree(k.combine, self.get(array, k.total)) for (_, k), array in zip(self.running, self.last)]
            e.exchange.send(e.now, self.places, values)

    def receive(self) -> None:
        e = self.e

        def get(i: int, k: Combiner) -> list[ir.Value]:
            return [e.exchange.receive(self.places[i], rank, k.total, e.thread) for rank in range(e.s.cluster)]

        self.conclude(get, lambda: e.exchange.wait(e.now))

    def bring(self, threads: int, arrays: list[ir.Value], to: list[ir.Value]) -> None:
        """By so many threads, each what ``get`` says of an array."""
        e = self.e

        with only_if(e.ints.less(e.thread, threads)):
            for (_, k), array, target in zip(self.running, arrays, to):
                memref.store(to_memory(tree(k.combine, self.get(array, k.total))), target, [e.ints.index(e.thread)])

    def conclude(self, get: Callable[[int, Combiner], list[ir.Value]], begin: Callable[[], None] = lambda: None) -> None:
        """By a thread for each number, which begins with ``begin``: what all threads take of it."""
        e = self.e

        with only_if(e.ints.less(e.thread, self.numbers)):
            begin()
            found = e.results(self.reducing, {n: tree(k.combine, get(i, k)) for i, (n, k) in enumerate(self.running)})
            for n, value in found.items():
                memref.store(to_memory(value), self.whole[n], [e.ints.index(e.thread)])

    def get_row(self, array: ir.Value, type_: ir.Type) -> list[ir.Value]:
        """A row's parts."""
        ints, at = self.e.ints, self.mine if self.members == 1 else self.e.thread
        return [from_memory(memref.load(array, [ints.index(at, w * self.side)]), type_) for w in range(self.several)]

    def get_group(self, array: ir.Value, type_: ir.Type) -> list[ir.Value]:
        """What the rows of a group came to."""
        ints, across = self.e.ints, self.e.s.across
        rows = [ints.add(ints.mul(self.mine, self.members), i) for i in range(self.members)]
        places = [ints.add(ints.mul(ints.rem(r, self.lanes), across), ints.div(r, self.lanes)) for r in rows]
        return [from_memory(memref.load(array, [ints.index(p)]), type_) for p in places]

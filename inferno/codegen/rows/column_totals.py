"""Reductions across threads of rows side by side: by warp shuffles or in shared memory, and across a cluster by distributed shared memory.

Rows that share their reductions, as the channels of a group, are of one block: what they have meets there before what the cluster's blocks have.  Where all
lanes of a vector share them a thread has one part of each.  A thread that has all points of its rows meets nobody.
"""

from collections.abc import Callable

from inferno.codegen.builders.elements import as_vector, convert, from_memory, join, lanes_of, to_memory, tree
from inferno.codegen.nvvm.cluster import arrive_in_cluster, read_remote, wait_for_cluster
from inferno.codegen.nvvm.shuffles import exchange
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep

MEAN = -1  # the number of means, where a row's moments are taken at once
Get = Callable[[ir.Value, ir.Type], list[ir.Value]]


class ColumnTotals:
    """What an emitter of ``columns`` does with them."""

    def identities(self, running: list[tuple[int, Combiner]]) -> list[ir.Value]:
        whole = self.s.shares_lanes(self.c)
        return [k.identity(k.total) if whole else as_vector(k.identity(k.total), self.s.vector) for _, k in running]

    def total(self, combiner: Combiner, value: ir.Value) -> ir.Value:
        return convert(tree(combiner.combine, lanes_of(value)) if self.s.shares_lanes(self.c) else value, combiner.total)

    def finish(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], parts: dict[int, ir.Value]) -> None:
        ints, s, c, count = self.ints, self.s, self.c, len(self.places)
        if s.alone(c):
            self._rows.update(self.results(reducing, parts))
            return
        lanes = 1 if s.shares_lanes(c) else s.vector  # that a thread has parts of
        side, members = s.across * lanes, c.together * lanes // s.vector
        of_warps = [self.shared[self.parts[n]] for n, _ in running]
        numbers = s.numbers(c)
        of_block, whole, *of_rows = ([self.shared[self.lists + self.places[n] + i * count] for n, _ in running] for i in range(2 + (c.together > 1)))
        results = {n: array for (n, _), array in zip(running, whole)}
        if s.once:
            results[MEAN] = self.shared[self.lists + (2 + (c.together > 1)) * count]
        several = self.leave(running, parts, of_warps)
        gpu.barrier()

        def bring(threads: int, arrays: list[ir.Value], to: list[ir.Value], get: Get) -> None:
            """By so many threads, each what ``get`` says of an array."""
            def put() -> None:
                for (_, k), array, target in zip(running, arrays, to):
                    memref.store(to_memory(tree(k.combine, get(array, k.total))), target, [ints.index(self.thread)])

            self.where([ints.less(self.thread, threads)], put)

        def conclude(get: Callable[[int, Combiner], list[ir.Value]]) -> None:
            """By a thread for each number: what all threads take of it."""
            found = self.results(reducing, {n: tree(k.combine, get(i, k)) for i, (n, k) in enumerate(running)})
            for n, value in found.items():
                memref.store(to_memory(value), results[n], [ints.index(self.thread)])

        mine = ints.rem(self.thread, numbers) if self.exchange is not None else self.thread

        def of_row(array: ir.Value, type_: ir.Type) -> list[ir.Value]:
            at = mine if members == 1 else self.thread
            return [from_memory(memref.load(array, [ints.index(at, w * side)]), type_) for w in range(several)]

        def of_group(array: ir.Value, type_: ir.Type) -> list[ir.Value]:
            rows = [ints.add(ints.mul(mine, members), i) for i in range(members)]
            places = [ints.add(ints.mul(ints.rem(r, lanes), s.across), ints.div(r, lanes)) for r in rows]
            return [from_memory(memref.load(array, [ints.index(p)]), type_) for p in places]

        def of_blocks(array: ir.Value, type_: ir.Type) -> list[ir.Value]:
            return [from_memory(read_remote(array, rank, self.thread), type_) for rank in range(s.cluster)]

        def send(arrays: list[ir.Value], get: Get) -> None:
            """A thread for each number and block sends it."""
            def put() -> None:
                values = [tree(k.combine, get(array, k.total)) for (_, k), array in zip(running, arrays)]
                self.exchange.send(self.now, places, values)

            self.where([ints.less(self.thread, self.exchange.senders)], put)

        def receive() -> None:
            self.exchange.wait(self.now)
            conclude(lambda i, k: [self.exchange.receive(places[i], rank, k.total, self.thread) for rank in range(s.cluster)])

        places = [self.places[n] for n, _ in running]
        if self.exchange is not None and not self.exchange.ready:
            self.exchange.await_others()
        if members > 1:
            bring(side, of_warps, of_rows[0], of_row)
            gpu.barrier()
        last, get = (of_rows[0], of_group) if members > 1 else (of_warps, of_row)
        if self.exchange is not None:
            send(last, get)
            self.where([ints.less(self.thread, numbers)], receive)
        elif s.cluster > 1:
            bring(numbers, last, of_block, get)
            wait_for_cluster()
            self.where([ints.less(self.thread, numbers)], lambda: conclude(lambda i, k: of_blocks(of_block[i], k.total)))
        else:
            self.where([ints.less(self.thread, numbers)], lambda: conclude(lambda i, k: get(last[i], k.total)))
        gpu.barrier()
        if s.cluster > 1 and self.exchange is None and not any(self.reductions(phase)[1] for phase in range(self.now + 1, c.phases)):
            arrive_in_cluster()
        self._rows.update({n: self.taken(results[n], type_) for n, type_ in self.result_types(reducing).items()})

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

        def put() -> None:
            for (n, _), array in zip(running, arrays):
                for i, x in enumerate(lanes[n]):
                    memref.store(to_memory(x), array, [ints.index(begin, i * s.across)])

        alone = [ints.equal(ints.rem(ints.div(self.thread, s.across), same), 0)] if s.by_shuffles and same > 1 else []
        self.where(alone, put)
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

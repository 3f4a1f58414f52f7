"""What threads of rows side by side reduce together: warps by shuffles or in shared memory, the blocks of a cluster by distributed shared memory.

Rows that share their reductions, as the channels of a group, are of one block: what they have meets there before what the cluster's blocks have.  Where all
lanes of a vector share them a thread has one part of each.
"""

from collections.abc import Callable

from inferno.codegen.cluster import arrive_in_cluster, read_remote, wait_for_cluster
from inferno.codegen.elements import as_vector, convert, from_memory, join, lanes_of, to_memory, tree
from inferno.codegen.shuffles import exchange
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.columns import Columns
from inferno.schedule.combiners import Combiner
from inferno.schedule.row_kernel import RowKernel
from inferno.schedule.row_steps import RowStep

Get = Callable[[ir.Value, ir.Type], list[ir.Value]]


def is_whole(s: Columns, c: RowKernel) -> bool:
    """Whether the lanes of a vector share their reductions."""
    return c.together > 1 and c.together % s.vector == 0


class ColumnTotals:
    """What an emitter of ``columns`` does with them."""

    def identities(self, running: list[tuple[int, Combiner]]) -> list[ir.Value]:
        whole = is_whole(self.s, self.c)
        return [k.identity(k.total) if whole else as_vector(k.identity(k.total), self.s.vector) for _, k in running]

    def total(self, combiner: Combiner, value: ir.Value) -> ir.Value:
        return convert(tree(combiner.combine, lanes_of(value)) if is_whole(self.s, self.c) else value, combiner.total)

    def finish(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], parts: dict[int, ir.Value]) -> None:
        ints, s, c, count = self.ints, self.s, self.c, len(self.places)
        lanes = 1 if is_whole(s, c) else s.vector  # that a thread has parts of
        side, members = s.across * lanes, c.together * lanes // s.vector
        of_warps = [self.shared[self.parts[n]] for n, _ in running]
        numbers = side // members
        of_block, whole, *of_rows = ([self.shared[self.lists + self.places[n] + i * count] for n, _ in running] for i in range(2 + (c.together > 1)))
        several = self.leave(running, parts, of_warps)
        gpu.barrier()

        def bring(threads: int, arrays: list[ir.Value], to: list[ir.Value], get: Get) -> None:
            """By so many threads, each what ``get`` says of an array."""
            def put() -> None:
                for (_, k), array, target in zip(running, arrays, to):
                    memref.store(to_memory(tree(k.combine, get(array, k.total))), target, [ints.index(self.thread)])

            self.where([ints.less(self.thread, threads)], put)

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

            self.where([ints.less(self.thread, s.cluster * numbers)], put)

        def receive() -> None:
            self.exchange.wait(self.now)
            for (_, k), place, target in zip(running, places, whole):
                parts = [self.exchange.receive(place, rank, k.total, self.thread) for rank in range(s.cluster)]
                memref.store(to_memory(tree(k.combine, parts)), target, [ints.index(self.thread)])

        places = [self.places[n] for n, _ in running]
        if self.exchange is not None and not self.exchange.ready:
            self.exchange.await_others()
        to = of_block if s.cluster > 1 else whole
        if members > 1:
            bring(side, of_warps, of_rows[0], of_row)
            gpu.barrier()
        last, get = (of_rows[0], of_group) if members > 1 else (of_warps, of_row)
        if self.exchange is not None:
            send(last, get)
            self.where([ints.less(self.thread, numbers)], receive)
        else:
            bring(numbers, last, to, get)
        if s.cluster > 1 and self.exchange is None:
            wait_for_cluster()
            bring(numbers, of_block, whole, of_blocks)
        gpu.barrier()
        later = any(self.reductions(phase)[1] and not self.is_taken(phase) for phase in range(self.now + 1, c.phases))
        if s.cluster > 1 and self.exchange is None and not later:
            arrive_in_cluster()
        totals = {n: self.taken(array, k.total) for (n, k), array in zip(running, whole)}
        self.met.update(totals)
        for step in reducing:
            for n, k, start in zip(step.results, step.combiners, step.starts):
                if k is not None:
                    begins = as_vector(convert(arith.constant(k.narrow, start), k.total), s.vector)
                    self._rows[n] = convert(k.combine(begins, totals[n]), k.narrow)

    def leave(self, running: list[tuple[int, Combiner]], parts: dict[int, ir.Value], arrays: list[ir.Value]) -> int:
        """Leave what a warp has of each row, or a thread, in shared memory; how many such parts a row has.

        Of two threads that meet each goes on with half of the rows, until it has one: 7 exchanges for 8 rows, where all that have all would take 24."""
        ints, s, whole = self.ints, self.s, is_whole(self.s, self.c)
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

        if is_whole(s, self.c):
            return as_vector(get(ints.div(self.column, together // s.vector)), s.vector)
        if together > 1:
            return join([get(ints.div(ints.add(ints.mul(self.column, s.vector), i), together)) for i in range(s.vector)])
        return join([get(self.column, i * s.across) for i in range(s.vector)])

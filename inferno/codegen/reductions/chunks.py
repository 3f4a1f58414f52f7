"""The second kernel of a reduction whose sums are cut into chunks: it combines them."""

from collections.abc import Mapping

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, load, splat, store, to_memory
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.reductions.joining import Joining, Values
from inferno.mlir import arith, gpu, ir, memref, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.symbolic import is_multiple


_AT_ONCE = 8  # chunks that a thread reads at once: 260 of 49 sums took 7.3 us one by one


def write_results(c: ReductionKernel, ints: Integers, values: Values, point: Integer, arguments: Mapping[int, ir.Value]) -> None:
    """Store what sums come to, or what is made of it; ``arguments`` are the kernel's results, what it reads beside sums, and sizes, by their numbers."""
    at = ints.split(point, [c.size(run) for run in c.points])

    def place(access: Access) -> Integer:
        return ints.dot(at, [access.strides[run[-1]] for run in c.points], access.offset)

    if c.after is not None:
        sums = list(c.generic.results)
        read = [
            values[sums.index(v)] if a is None else load(ints, arguments[a.argument], place(a), a.element) for v, a in zip(c.after.operands, c.beside)
        ]
        unread = [splat(ir.IntegerType.get_signless(1), 0)] * len(c.after.results)
        values = inline_body(c.after.regions[0].blocks[0], read + unread, outside=c.outside(arguments))
    for value, result in zip(values, c.results):
        if result is not None:
            store(ints, value, arguments[result.argument], place(result))


def add_chunks(
    c: ReductionKernel, chunks: int, ints: Integers, joining: Joining, across: int, along: int, parts: list[ir.Value], arguments: Mapping[int, ir.Value],
    shared: list[ir.Value],
) -> None:
    """The kernel that puts chunks together, which have ``parts`` of each sum: ``along`` threads a sum, ``across`` neighbouring sums a block."""
    threads = across * along
    thread = ints.thread(threads)
    block = ints.block()
    column, lane = ints.rem(thread, across), ints.div(thread, across) if along > 1 else 0
    own = ints.add(ints.mul(block, across), column)
    ragged = not is_multiple(c.count, across)
    point = ints.min(own, c.count - 1) if ragged else own
    types = [k.total for k in joining.combiners]

    def get(chunk: Integer) -> Values:
        return [load(ints, b, ints.add(ints.mul(chunk, c.count), point), t) for b, t in zip(parts, types)]

    def some(first: Integer, count: int, totals: Values) -> Values:
        """The totals with ``count`` chunks more, all of which are read first."""
        for values in [get(ints.add(first, i * along)) for i in range(count)]:
            totals = joining.totals(totals, values)
        return totals

    rounds, left = divmod(chunks, along)
    batches, rest = divmod(rounds, _AT_ONCE)
    totals = joining.identities()
    if batches:
        loop = scf.ForOp(ints.value(0), ints.value(batches), ints.value(1), totals)
        with ir.InsertionPoint(loop.body):
            first = ints.add(ints.mul(loop.induction_variable, along * _AT_ONCE), lane)
            scf.YieldOp(some(first, _AT_ONCE, list(loop.inner_iter_args)))
        totals = list(loop.results_)
    totals = some(ints.add(lane, batches * _AT_ONCE * along), rest, totals)
    if left:
        chunk = ints.add(lane, rounds * along)
        inside = ints.less(chunk, chunks)
        last = [arith.select(inside, v, i) for v, i in zip(get(ints.min(chunk, chunks - 1)), joining.identities())]
        totals = joining.totals(totals, last)
    distance = along // 2
    if along > 1:
        for value, array in zip(totals, shared):
            memref.store(to_memory(value), array, [ints.index(thread)])
        while distance:
            gpu.barrier()
            with only_if(ints.less(lane, distance)):
                mine, other = (
                    [from_memory(memref.load(a, [ints.index(ints.add(thread, n))]), t) for a, t in zip(shared, types)]
                    for n in (0, distance * across)
                )
                for value, array in zip(joining.totals(mine, other), shared):
                    memref.store(to_memory(value), array, [ints.index(thread)])
            distance //= 2
    with only_if(ints.equal(lane, 0) if along > 1 else None, ints.less(own, c.count) if ragged else None):
        if along > 1:
            totals = [from_memory(memref.load(a, [ints.index(thread)]), t) for a, t in zip(shared, types)]
        write_results(c, ints, joining.results(totals), point, arguments)

"""Long sums by several threads each, for the generator that takes every kernel.

Two layouts.  *Lanes along the sum*: neighbouring threads read neighbouring terms, and the partial sums meet by shuffles in a warp and
through shared memory between warps.  *Lanes along the points*, where that is how memory runs (sums over columns): a
warp computes 32 neighbouring points, the other warps of the block other terms of the same ones.

A thread keeps four running values, so that four loads are under way.  Float32 is added in float64: such sums wait for memory, which
brings at most a quarter of the terms that even a GPU with few float64 units can add.  The tree has a fixed shape: results are the
same run after run.  Where there are too few blocks to fill the machine, each sum is cut into ``chunks``, whose sums
a second kernel adds.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import tree
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.shuffles import exchange
from inferno.codegen.universal.points import Emitter, Values
from inferno.codegen.universal.structured import Structured, to_terms
from inferno.mlir import arith, gpu, ir, linalg, memref
from inferno.passes.affine import projection, renumber
from inferno.passes.generics import PARALLEL, REDUCTION, maps, substitute
from inferno.powers import last_power_of_two
from inferno.schedule.universal.universal import Universal
from inferno.symbolic import Int, bounds, ceildiv, hint
from inferno.target import Target

_UNROLL = 4  # running values of a thread, which do not wait for each other
_VARYING = 256  # terms that a sum of varying length is taken to have at least


@dataclass(frozen=True)
class Shape:
    """``across`` neighbouring points a block and ``along`` threads a sum; a sum is cut into ``chunks`` of ``chunk`` terms."""

    lanes_along: bool
    across: int
    along: int
    chunks: int = 1
    chunk: int = 0

    @property
    def threads(self) -> int:
        return self.across * self.along

    def blocks(self, structured: Structured) -> Int:
        return ceildiv(structured.points, self.across) * self.chunks

    def shared(self, structured: Structured) -> list[tuple[int, ir.Type]]:
        """The shared arrays: a partial result a warp, or a thread where lanes run along the points."""
        count = self.threads if not self.lanes_along else self.threads // 32 if self.along > 32 else 0
        return [(count, c.total) for c in structured.combiners] if count else []


def choose_shape(s: Structured, schedule: Universal, target: Target) -> Shape | None:
    """How to sum with several threads a point; None where a thread a point is better or the only way."""
    # The layout is right for any size, and chosen for the example's; but a sum that may be long in another call is one that is.
    length, points = s.length if isinstance(s.length, int) else max(_VARYING, hint(s.length)), hint(s.points)
    if s.combiners is None or min(length, bounds(s.length)[1]) < 32 or points == 0:
        return None
    lanes_along = runs_along(s)
    if not lanes_along and points >= schedule.few:
        return None
    if lanes_along:
        along = schedule.threads if length >= schedule.long else min(32, max(4, last_power_of_two(length // 4)))
        if along < 32 and points * along < 32:
            along = 32
        shape = Shape(True, max(1, schedule.threads // along), along)
    else:
        shape = Shape(False, 32, min(16, last_power_of_two(length // 8)))
    if not isinstance(s.length, int) or not isinstance(s.points, int):
        return shape  # how many chunks would pay depends on the call
    wanted = 4 * target.multiprocessors
    most = s.length // (shape.along * _UNROLL * 4)
    chunks = min(-(-wanted // shape.blocks(s)), most, 1024)
    if shape.blocks(s) >= target.multiprocessors or chunks < 2 or s.extremum is not None:
        return shape
    step = shape.along * _UNROLL
    chunk = -(-s.length // (chunks * step)) * step
    return Shape(shape.lanes_along, shape.across, shape.along, -(-s.length // chunk), chunk)


def runs_along(s: Structured) -> bool:
    """Whether neighbouring terms of a sum are neighbours in memory, more than neighbouring points are."""
    inner = next((d for d in reversed(s.serial) if hint(s.sizes[d]) > 1), None)
    points = next((d for d in reversed(s.parallel) if hint(s.sizes[d]) > 1), None)
    inputs = [x for x in s.strides[: s.inputs] if x is not None]
    if inner is None or points is None:
        return True
    return any(x[inner] in (1, -1) for x in inputs) and not any(x[points] in (1, -1) and x[inner] != 0 for x in inputs)


def reduce_by_block(emitter: Emitter, shape: Shape, shared: list[ir.Value], partial: list[ir.Value] | None) -> None:
    """The whole kernel.  ``partial``: where the sums of chunks go, at [chunk, point...]; None where sums are whole."""
    block = emitter.ints.block()
    thread = emitter.ints.thread(shape.threads)
    emitter.contract()
    to_terms(emitter.structured)
    reduce_points(emitter, shape, block, thread, shared, partial)


def reduce_points(
    emitter: Emitter, shape: Shape, block: Integer, thread: Integer, shared: list[ir.Value], partial: list[ir.Value] | None = None,
) -> None:
    """What the threads of one block do: the sums of its points, where the operation's body yields terms."""
    s, ints = emitter.structured, emitter.ints
    first, second = (shape.along, shape.across) if shape.lanes_along else (shape.across, shape.along)
    minor, major = ints.rem(thread, first), ints.div(thread, first) if second > 1 else 0
    lane, column = (minor, major) if shape.lanes_along else (major, minor)
    if not shape.lanes_along and shape.along == 1:
        lane = 0
    number = ints.rem(block, shape.chunks)
    mine = ints.add(ints.mul(ints.div(block, shape.chunks), shape.across), column)
    # Threads beyond the last point help with it, for all must reach the barriers, and write nothing.
    point = ints.min(mine, s.points - 1) if s.points % shape.across != 0 else mine
    at = emitter.place(point)
    begin = ints.mul(number, shape.chunk)
    end = ints.min(ints.add(begin, shape.chunk), s.length) if shape.chunks > 1 else s.length
    totals = _terms(emitter, shape, at, begin, end, lane)
    totals = _across_lanes(emitter, shape, totals, thread, column, shared)
    conditions = [ints.equal(lane, 0)] if shape.along > 1 else []
    if s.points % shape.across != 0:
        conditions.append(ints.less(mine, s.points))
    condition = arith.constant(ir.IntegerType.get_signless(1), 1)
    for c in conditions:
        condition = arith.andi(condition, c)
    with only_if(condition):
        if partial is None:
            starts = [c.widen(v) for c, v in zip(s.combiners, emitter.running(at))]
            totals = emitter.combine([c.to_total(v) for c, v in zip(s.combiners, starts)], totals)
            emitter.store(at, [c.round(v) for c, v in zip(s.combiners, totals)])
        else:
            where = [ints.index(number), *(ints.index(at[d]) for d in s.parallel)]
            for value, buffer in zip(totals, partial):
                memref.store(value, buffer, where)


def _terms(emitter: Emitter, shape: Shape, at: dict[int, Integer], begin: Integer, end: Integer, lane: Integer) -> Values:
    """This thread's share of the terms from ``begin`` to ``end``."""
    s, ints = emitter.structured, emitter.ints
    loops = [d for d in s.serial if s.sizes[d] != 1]

    def term(number: Integer, values: Values) -> Values:
        return emitter.add(values, emitter.terms({**at, **dict(zip(loops, ints.split(number, [s.sizes[d] for d in loops])))}))

    step, count = shape.along * _UNROLL, len(s.combiners)
    rounds = ints.div(ints.sub(end, begin), step)
    first = ints.add(begin, lane)

    def some(number: Integer, values: Values) -> Values:
        start, found = ints.add(first, ints.mul(number, step)), []
        for u in range(_UNROLL):
            found += term(ints.add(start, u * shape.along), values[u * count:(u + 1) * count])
        return found

    running = [c.identity(c.total) for c in s.combiners] * _UNROLL
    if not isinstance(rounds, int) or rounds != 0:
        running = emitter.loop(0, rounds, running, some)
    rest = ints.add(first, ints.mul(rounds, step))
    if not isinstance(end, int) or not isinstance(begin, int) or (end - begin) % step:
        running[:count] = emitter.loop(rest, end, running[:count], term, step=shape.along)
    parts = [running[u * count:(u + 1) * count] for u in range(_UNROLL)]
    return emitter.combine(emitter.combine(parts[0], parts[1]), emitter.combine(parts[2], parts[3]))


def _across_lanes(
    emitter: Emitter, shape: Shape, values: Values, thread: Integer, column: Integer, shared: list[ir.Value],
) -> Values:
    """The totals of a point; every thread of lane 0 has them."""
    ints = emitter.ints
    if not shape.lanes_along:
        if shape.along == 1:
            return values
        for value, array in zip(values, shared):
            memref.store(value, array, [ints.index(thread)])
        gpu.barrier()
        return tree(emitter.combine, [
            [memref.load(array, [ints.index(ints.add(column, i * shape.across))]) for array in shared] for i in range(shape.along)
        ])
    distance = min(32, shape.along) // 2
    while distance:
        values = emitter.combine(values, [exchange(v, distance) for v in values])
        distance //= 2
    if shape.along <= 32:
        return values
    warp = ints.div(thread, 32)
    with only_if(ints.equal(ints.rem(thread, 32), 0)):
        for value, array in zip(values, shared):
            memref.store(value, array, [ints.index(warp)])
    gpu.barrier()
    first = ints.mul(column, shape.along // 32)
    return tree(emitter.combine, [[memref.load(array, [ints.index(ints.add(first, i))]) for array in shared] for i in range(shape.along // 32)])


def partial_buffers(s: Structured, chunks: int) -> list[ir.Value]:
    """Buffers for the sums of a reduction's chunks, [chunk, point...], one a result."""
    with ir.InsertionPoint(s.operation):
        return [memref.AllocOp(ir.MemRefType.get([chunks, *(s.sizes[d] for d in s.parallel)], c.total), [], []).memref for c in s.combiners]


def sum_of_chunks(s: Structured, partial: list[ir.Value]) -> ir.Operation:
    """The operation behind ``s`` that combines the sums of its chunks, at [chunk, point...], with what its results start from."""
    points = len(s.parallel)
    loops = points + 1
    chunk_map = projection([points, *range(points)], loops)
    out_maps = [substitute(m, renumber(s.parallel, len(s.sizes)), loops) for m in maps(s.operation)[s.inputs:]]
    kinds = [ir.Attribute.parse(kind) for kind in [*[PARALLEL] * points, REDUCTION]]
    place = ir.InsertionPoint(s.operation)
    with place:
        generic = linalg.GenericOp(
            [], partial, s.outputs, ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in [chunk_map] * len(partial) + out_maps]),
            ir.ArrayAttr.get(kinds),
        )
    types = [c.total for c in s.combiners] + [c.narrow for c in s.combiners]
    body = generic.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * len(types))
    count = len(partial)
    with ir.InsertionPoint(body):
        linalg.YieldOp([
            c.round(c.combine(c.to_total(body.arguments[count + i]), body.arguments[i])) for i, c in enumerate(s.combiners)
        ])
    return generic.operation

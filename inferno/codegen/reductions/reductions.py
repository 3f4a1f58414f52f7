"""Reductions over any dimensions, bound by memory: threads read whole vectors, several at once, and keep running values in registers.

Where neighbours in memory are terms of one sum a thread's vectors are parts of that sum; lanes meet in the thread, threads by shuffles and shared
memory.  Otherwise each lane is a sum of its own, and shared memory brings together what threads along the sums have.  What is loaded at once is
added in a tree, and joins a running total, in float64 for sums of float32: one addition a tree.  For a maximum and its place see ``extrema.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import (
    as_vector, branch_together, convert, element_type, join, lanes_of, load, load_vector, splat, store, store_vector, tree,
)
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gathered_values import gather_neighbours
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, integers_for, parameters_of, stored_type
from inferno.codegen.builders.inline import inline_bodies
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.lane_patterns import Pattern, Patterns
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, temporary
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.reductions.chunks import add_chunks
from inferno.codegen.reductions.choices import COPIES, Choices
from inferno.codegen.reductions.extrema import Extrema, by_turns, element_of
from inferno.codegen.reductions.joined_exponentials import take_exponentials
from inferno.codegen.reductions.joining import Joining, Values
from inferno.codegen.reductions.meeting import Meeting
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, scf, walk
from inferno.powers import next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.reductions.joined_rows import resident
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.schedule.reductions.reductions import read, read_sized
from inferno.symbolic import alignment, ceildiv, floordiv, hint, is_multiple, reach
from inferno.target import STATIC_SHARED, Target

_FINISH, _MANY = 256, 64  # threads of a block that puts chunks together, and chunks from which on it has four times as many
# Sums from which on a block of that kernel has 32 side by side, and how many where there are fewer, so that more blocks read, and chunks of a thread then: 523
# of a softmax's 96 sums took 8.0 us by three blocks.
_SUMS, _BESIDE, _EACH = 512, 8, 4


def generate(kernel: func.FuncOp, schedule: Reductions, target: Target) -> None:
    """Add the ``gpu.module`` of a reduction, with a second kernel where sums are cut, and make ``kernel`` its launcher."""
    from inferno.codegen.reductions.joined_rows import JoinedRows  # which are made of this module's
    from inferno.codegen.reductions.transposed_sums import TransposedSums

    c, s, name = read(kernel, target) or read_sized(kernel, target), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} is no reduction")
    if not s.fits(c):
        raise CompileError(f"@{name}: {s} does not fit {c.count} sums of {c.length}")
    recognise_maximum(c.generic)
    expand_math(c.generic)
    if c.after is not None:
        expand_math(c.after)
    own = s.walked(c)
    c, cuts = own if own.count == c.count else c, s.cuts(c)
    made = {a.argument for a in c.results if a is not None}
    buffers = parameters_of(kernel, made | {a.argument for a in c.stored})
    blocks = s.tiles(c) * s.chunks
    work = (s.share(c) + s.along * s.unroll) * s.chunks * (s.vector if c.along else max(1, s.rows))
    offsets = (reach(blocks * s.threads * s.vector), reach(work), reach(c.count * cuts), *(b.count for b in buffers if b is not None))
    width = 32 if max(offsets) < 2**31 else 64
    join_ = Joining(c, 32 if reach(c.length) < 2**31 else 64)
    types = [stored_type(k.total) for k in join_.combiners]
    partial = [Buffer(t, reach(c.count * cuts), False) for t in types] if cuts > 1 else []
    sizes = [i for i, b in enumerate(buffers) if b is None]
    met = s.joined(c)
    if s.rows:
        shared = [(s.vector * s.pitch, t) for t in types]
    else:
        shared = _shared(met.along, met.across, 1, types, True) if c.along else _shared(s.along // s.beside, s.across, s.vector, types, False)
    with gpu_function(kernel, [*buffers, *partial], s.threads, shared, resident(s.threads) if s.rows else 0) as function:
        ints = integers_for(kernel, width, function.buffers)
        given = (s, ints, join_, function.buffers, function.shared)
        emitter = TransposedSums(own, *given, whole=c) if met is not s else JoinedRows(c, *given) if s.rows else Emitter(c, *given)
        emitter.emit()
    blocks_of_sums, across, along = 0, 0, 0
    if cuts > 1:
        count = hint(c.count)
        across = min(32, next_power_of_two(count))
        along = min((_FINISH if cuts < _MANY else 4 * _FINISH) // across, next_power_of_two(cuts))
        if _BESIDE < count < _SUMS:
            across, along = _BESIDE, min(across * along // _BESIDE, next_power_of_two(-(-cuts // _EACH)))
        while across * along * sum(element_bytes(t) for t in types) > STATIC_SHARED:
            along //= 2
        along = max(along, 32 // across)
        blocks_of_sums = ceildiv(c.count, across)
        read_only = [replace(b, readonly=True) for b in partial]
        last = sorted(made | {a.argument for a in c.beside if a is not None})
        own = _shared(along, across, 1, types, False)
        with gpu_function(kernel, [*read_only, *(buffers[i] for i in last), *[None] * len(sizes)], across * along, own, suffix="_sums") as function:
            given = dict(zip((*last, *sizes), function.buffers[len(partial):]))
            add_chunks(c, cuts, integers_for(kernel, width, given), join_, across, along, function.buffers[:len(partial)], given, function.shared)
    with launcher(kernel) as arguments:
        parts = [temporary([c.count * cuts], t) for t in types] if cuts > 1 else []
        given = [pointer(t) for t in parts]
        launch(f"{name}_gpu", name, [*map(parameter, arguments), *given], (blocks, 1, 1), (s.threads, 1, 1))
        if parts:
            to = [parameter(arguments[i]) for i in (*last, *sizes)]
            launch(f"{name}_gpu", f"{name}_sums", [*[pointer(t) for t in parts], *to], (blocks_of_sums, 1, 1), (across * along, 1, 1))


def _shared(along: int, across: int, lanes: int, types: Sequence[ir.Type], shuffled: bool) -> list[tuple[int, ir.Type]]:
    """Arrays in shared memory, one a result: a value for each warp along a sum, or of each of ``along`` rows for each lane."""
    count = (along // 32 * across if along > 32 else 0) if shuffled else along * across * lanes if along > 1 else 0
    return [(count, t) for t in types] if count else []


@dataclass
class Emitter(Choices, Extrema, Meeting):
    """``at`` are the coordinates of a thread's first sum by run, ``point`` its number, ``mine`` whether there is one.  Of a block's sums that lie side by
    side ``begin`` is the number of the first vector, ``base`` of the first sum."""

    c: ReductionKernel
    s: Reductions
    ints: Integers
    joining: Joining
    buffers: list[ir.Value]
    shared: list[ir.Value]
    at: dict[tuple[int, ...], Integer] = field(default_factory=dict)
    mine: ir.Value | None = None
    point: Integer = 0
    begin: Integer = 0
    base: Integer = 0
    held: Values = field(default_factory=list)
    patterns: Patterns = field(default_factory=lambda: Patterns({}))
    sides: dict[ir.Value, int] = field(default_factory=dict)

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        thread = ints.thread(s.threads)
        block = ints.block()
        tile, chunk = ints.div(block, s.chunks), ints.rem(block, s.chunks)
        first = s.along if c.along else s.across
        minor = ints.rem(thread, first)
        major = ints.div(thread, first) if s.threads > first else 0
        lane, column = (minor, major) if c.along else (major, minor)
        self.place(tile, column)
        begin = ints.mul(chunk, s.share(c))
        units = s.units(c)
        begin = begin if isinstance(units, int) else ints.min(begin, units)  # a chunk of nothing begins at the end
        length = s.share(c) if s.share(c) * s.chunks == units else ints.min(s.share(c), ints.sub(units, begin))
        totals = self.chosen([v.type for v in self.identities(0)], lambda: self.share(chunk, begin, length, lane), 1 if by_turns(c, s) else COPIES)
        if c.extremum is not None:
            totals[0] = convert(totals[0], c.combiners[0].total)
        if c.along:
            end = units if s.interleaved else None if isinstance(length, int) and length % (s.along * s.unroll) == 0 else ints.add(begin, length)
            self.meet_along(totals, thread, lane, column, chunk, end)
        else:
            self.meet_across(totals, thread, lane, column, chunk)

    def place(self, tile: Integer, column: Integer) -> None:
        """Take the coordinates of this thread's sums; threads beyond the last help with it."""
        ints, c, s = self.ints, self.c, self.s
        sizes = [c.size(run) for run in c.points]
        if c.along:
            point = ints.add(ints.mul(tile, s.across), column)
            if not is_multiple(c.count, s.across):
                self.mine = ints.less(point, c.count)
                point = ints.min(point, c.count - 1)
            self.point = point
            self.at = dict(zip(c.points, ints.split(point, sizes))) if c.points else {}
            return
        vectors = s.row(c)
        tiles = ceildiv(vectors, s.across)
        self.begin = ints.mul(ints.rem(tile, tiles), s.across)
        vector = ints.add(self.begin, column)
        if not is_multiple(vectors, s.across):
            self.mine = ints.less(vector, vectors)
            vector = ints.min(vector, vectors - 1)
        outer = ints.div(tile, tiles)
        before = ints.mul(ints.mul(outer, vectors), s.vector)
        self.point, self.base = ints.add(before, ints.mul(vector, s.vector)), ints.add(before, ints.mul(self.begin, s.vector))
        if s.spans(c):
            neighbours = floordiv(c.inner, s.vector)
            outer, vector = ints.div(vector, neighbours), ints.rem(vector, neighbours)
        inner = ints.mul(vector, s.vector)
        self.at = {**dict(zip(c.points[:-1], ints.split(outer, sizes[:-1]))), c.points[-1]: inner}

    # A thread's part.

    def share(self, chunk: Integer, begin: Integer, length: Integer, lane: Integer) -> Values:
        """Its totals of a chunk, of which ``length`` units begin with ``begin``."""
        totals = self.reduce_interleaved(chunk, lane) if self.s.interleaved else self.reduce(begin, length, lane)
        return self.reduce_rest(totals, chunk, lane) if self.s.leaves(self.c) else totals

    def reduce(self, begin: Integer, length: Integer, lane: Integer) -> Values:
        """Its totals of ``length`` units: scalars along a sum, else vectors of lanes."""
        ints, s = self.ints, self.s
        step = s.along * s.unroll
        rounds = ints.div(length, step)
        first = ints.add(begin, lane)
        running = self.identities(first)
        if isinstance(rounds, int) and rounds == 1:
            running = self.some(first, None, running)
        elif not isinstance(rounds, int) or rounds:
            loop = scf.ForOp(ints.value(0), ints.value(rounds), ints.value(1), running)
            with ir.InsertionPoint(loop.body):
                scf.YieldOp(self.some(ints.add(first, ints.mul(loop.induction_variable, step)), None, list(loop.inner_iter_args)))
            running = list(loop.results_)
        if not isinstance(length, int) or length % step:
            left = ceil(length % step / s.along) if isinstance(length, int) else s.unroll
            rest, end = ints.add(first, ints.mul(rounds, step)), ints.add(begin, length)
            if isinstance(s.units(self.c), int):
                return self.some(rest, end, running, left)
            # (of no terms there is none that could be read instead)
            running = if_else(ints.less(rest, end), [v.type for v in running], lambda: self.some(rest, end, running, left), lambda: running)
        return running

    def identities(self, first: Integer) -> Values:
        """Running values of nothing, of a thread that begins with ``first``."""
        return self.begin_extrema(first) if self.c.extremum is not None else self.joining.identities(1 if self.c.along else self.s.vector)

    def reduce_interleaved(self, chunk: Integer, lane: Integer) -> Values:
        """The same of a chunk's turns, of which the other chunks' lie between."""
        ints, s = self.ints, self.s
        units, step = s.units(self.c), s.along * s.unroll
        rounds, left = divmod(units, step * s.chunks)
        first = ints.add(ints.mul(chunk, step), lane)
        running = self.identities(first)
        if rounds:
            loop = scf.ForOp(ints.value(0), ints.value(rounds), ints.value(1), running)
            with ir.InsertionPoint(loop.body):
                scf.YieldOp(self.some(ints.add(first, ints.mul(loop.induction_variable, step * s.chunks)), None, list(loop.inner_iter_args)))
            running = list(loop.results_)
        return self.some(ints.add(first, rounds * step * s.chunks), units, running) if left else running

    def reduce_rest(self, running: Values, chunk: Integer, lane: Integer) -> Values:
        """The same with the terms behind the last whole vector, of which the last chunk's first threads have one each."""
        ints, c, s = self.ints, self.c, self.s
        term = ints.add(ints.value(ints.mul(s.units(c), s.vector)), lane)
        here = arith.andi(ints.less(term, c.length), ints.equal(chunk, s.chunks - 1))
        return if_else(here, [v.type for v in running], lambda: replace(self, s=replace(s, vector=1)).some(term, None, running, 1), lambda: running)

    def some(self, unit: Integer, end: Integer | None, running: Values, count: int = 0) -> Values:
        """The totals with ``unroll`` units more, or ``count``, of which those from ``end`` on are none."""
        ints, c, s = self.ints, self.c, self.s
        units, inside = [], []
        for u in range(count or s.unroll):
            at = ints.add(unit, u * s.along)
            inside.append(None if end is None else ints.less(at, end))
            units.append(at if end is None else ints.min(at, ints.sub(end, 1)))
        where = [self.coordinates(at) for at in units]
        read = [[None if a is None else self.load(a, w) for a in c.sources] for w in where]  # all that is read first
        found: list[Values] = []  # by result, a vector (or a scalar) for each unit
        for (terms, points), w, here in zip(self.terms(read, where), where, inside):
            self.write(points, w, here)
            if here is not None:
                terms = [arith.select(here, t, self.same(k.identity(element_type(t)), t)) for k, t in zip(c.combiners, terms)]
            found.append(terms)
        if c.extremum is not None:
            return self.extrema([t[0] for t in found], units, running)
        if c.exponentials is not None:
            return take_exponentials(c.combiners, running, [x for t in found for x in (lanes_of(t[0]) if c.along else t[:1])])
        totals = []
        for i, k in enumerate(c.combiners):
            value = tree(k.combine, [terms[i] for terms in found])
            if c.along:
                value = tree(k.combine, lanes_of(value))
            totals.append(convert(value, k.total))
        return self.joining.totals(running, totals)

    def same(self, value: ir.Value, like: ir.Value) -> ir.Value:
        return as_vector(value, self.s.vector) if isinstance(like.type, ir.VectorType) else value

    def terms(self, read: Sequence[Sequence[ir.Value | None]], where: Sequence[dict[tuple[int, ...], Integer]]) -> list[tuple[Values, Values]]:
        """The body's terms of each unit, as running values, and what it makes of points beside them."""
        c, s = self.c, self.s
        lanes = s.vector if s.vector > 1 else 0
        if c.extremum is not None and (element := element_of(c)) is not None:
            return [([as_vector(values[element], s.vector) if lanes else values[element]], []) for values in read]
        unread = splat(ir.IntegerType.get_signless(1), 0)
        arguments = [[*(unread if v is None else v for v in values), *[unread] * (len(c.block.arguments) - len(c.sources))] for values in read]
        self.patterns = Patterns({})
        points = list(zip(arguments, map(self.indices, where)))
        branch = lambda op, condition, inline: branch_together(op, condition, lanes, inline)  # noqa: E731  (vectors lie in one piece)
        outside = c.outside(dict(enumerate(self.buffers)))
        return [self.split(results) for results in inline_bodies(c.block, points, lanes, {"tensor.extract": self.extract}, outside, branch, sides=self.sides)]

    def split(self, results: Values) -> tuple[Values, Values]:
        """Of what the body yields for a unit the terms, as running values, and the rest."""
        c, s = self.c, self.s
        if c.extremum is not None or c.exponentials is not None:
            results = results[:1]
        results = [as_vector(r, s.vector) if s.vector > 1 else r for r in results]
        return [convert(r, k.type) for k, r in zip(c.combiners, results)], results[len(c.combiners):]

    def write(self, points: Values, place: dict[tuple[int, ...], Integer], here: ir.Value | None) -> None:
        """Store what is made of points, if there is a unit ``here``, by threads that have a sum of their own: the others have it from one of these."""
        ints, c, s = self.ints, self.c, self.s
        if not points:
            return
        inner = (c.terms if c.along else c.points)[-1]
        with only_if(here, self.mine):
            for value, at in zip(points, c.stored):
                strides = {run: at.strides[run[-1]] for run in place}
                offset, buffer, step = ints.dot(list(place.values()), list(strides.values()), at.offset), self.buffers[at.argument], strides[inner]
                if s.vector == 1 or step != 1:
                    for i, lane in enumerate(lanes_of(value)):
                        store(ints, lane, buffer, ints.add(offset, i * step))
                else:
                    store_vector(ints, value, buffer, offset, self.aligned(at, strides, inner))

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """``tensor.extract`` from an argument of the kernel: neighbours by vectors, others for each lane by itself."""
        ints, number = self.ints, ir.BlockArgument(op.operands[0]).arg_number
        table, buffer = next(t for t in self.c.tables if t.argument == number), self.buffers[number]
        lanes = max((v.type.shape[0] for v in operands[1:] if isinstance(v.type, ir.VectorType)), default=0)
        if (together := gather_neighbours(ints, buffer, self.patterns, operands[1:], table)) is not None:
            return together
        each = [[lanes_of(v)[i] if isinstance(v.type, ir.VectorType) else v for v in operands[1:]] for i in range(max(1, lanes))]
        found = [load(ints, buffer, ints.dot([ints.narrow(v) for v in at], table.strides), table.element) for at in each]
        return join(found) if lanes else found[0]

    def indices(self, where: dict[tuple[int, ...], Integer]) -> Values:
        """For ``linalg.index``: a loop's coordinate, a vector for the innermost one."""
        ints, c, s = self.ints, self.c, self.s
        found = [arith.constant(ir.IndexType.get(), 0)] * len(c.sizes)
        if not walk(c.generic, "linalg.index"):
            return found
        inner = (c.terms if c.along else c.points)[-1]
        for run, place in where.items():
            sizes = [c.sizes[d] for d in run]
            if run != inner or s.vector == 1:
                for d, x in zip(run, ints.split(place, sizes)):
                    found[d] = ints.index(x)
                continue
            if is_multiple(sizes[-1], s.vector):  # the lanes are neighbours in one row
                *outer, first = ints.split(place, sizes)
                for d, x in zip(run, outer):
                    found[d] = ints.index(x)
                found[run[-1]] = join([ints.index(ints.add(first, i)) for i in range(s.vector)])
                self.patterns.known[found[run[-1]]] = Pattern(s.vector, tuple(range(s.vector)))
                continue
            each = [ints.split(ints.add(place, i), sizes) for i in range(s.vector)]
            for j, d in enumerate(run):
                found[d] = join([ints.index(e[j]) for e in each])
        return found

    def coordinates(self, unit: Integer) -> dict[tuple[int, ...], Integer]:
        ints, c = self.ints, self.c
        term = ints.mul(unit, self.s.vector) if c.along else unit
        return {**self.at, **dict(zip(c.terms, ints.split(term, [c.size(run) for run in c.terms])))}

    def load(self, at: Access, where: dict[tuple[int, ...], Integer]) -> ir.Value:
        ints, c, s = self.ints, self.c, self.s
        strides = {run: at.strides[run[-1]] for run in where}
        inner = (c.terms if c.along else c.points)[-1]
        offset = ints.dot(list(where.values()), list(strides.values()), at.offset)
        buffer, step = self.buffers[at.argument], strides[inner]
        if s.vector == 1 or step == 0:
            return load(ints, buffer, offset, at.element)
        if step != 1:
            return join([load(ints, buffer, ints.add(offset, i * step), at.element) for i in range(s.vector)])
        return load_vector(ints, buffer, offset, at.element, s.vector, self.aligned(at, strides, inner))

    def aligned(self, at: Access, strides: dict[tuple[int, ...], int], inner: tuple[int, ...]) -> int:
        """How many neighbours begin at a multiple of as many, wherever the vectors of an access are."""
        return alignment((at.offset, *(x for run, x in strides.items() if run != inner)), self.s.vector)

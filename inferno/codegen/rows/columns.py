"""Kernels that go over rows whose neighbours in memory are other rows, each row read once and written once.

A vector's lanes are neighbouring rows, and so are those of a few threads side by side; the other threads of a block, and the blocks of a cluster, have
other points of these rows.  What a phase reads is kept in shared memory for the next ones.  Partial results meet by shuffles, in shared memory, and
in distributed shared memory.  Rows that share their reductions are of one block, whose parts meet there before those of the cluster's blocks do.
Short rows that lie one behind the other are a thread's alone, which may scan them, too (``column_scans.py``, ``staged_rows.py``).
"""

import math
from dataclasses import dataclass

from inferno.codegen.builders import widened_pairs
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, convert, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gathered_values import GatheredValues
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of, stored_type
from inferno.codegen.builders.inline import inline_body, size_values
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.nvvm.cluster import await_cluster
from inferno.codegen.nvvm.cluster_exchange import ClusterExchange, slot_type
from inferno.codegen.rows.column_moments import ColumnMoments
from inferno.codegen.rows.column_scans import ColumnScans
from inferno.codegen.rows.column_totals import ColumnTotals
from inferno.codegen.rows.kept_vectors import KeptVectors
from inferno.codegen.rows.packed_vectors import PackedVectors
from inferno.codegen.rows.row_divisions import multiply_by_reciprocals
from inferno.codegen.rows.row_exponentials import approximate_exponentials
from inferno.codegen.rows.row_values import unused
from inferno.codegen.rows.rows import Emitter
from inferno.codegen.rows.sized_columns import SizedColumns
from inferno.codegen.rows.staged_rows import StagedRows
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows import sized_columns
from inferno.schedule.rows.column_schedule import Columns, kept_accesses
from inferno.schedule.rows.columns import parse
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.moments import Moments, met, moments
from inferno.schedule.rows.packed_rows import is_packed, packs, row_runs
from inferno.schedule.rows.row_steps import RowStep
from inferno.symbolic import alignment, ceildiv, is_multiple, reach
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Columns, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that goes over such rows, and make ``kernel`` its launcher."""
    c, s, name = parse(kernel, target) or sized_columns.read(kernel, target), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} does not go over rows side by side")
    if not (sized_columns.fits(s, c) if c.varies else s.fits(c) and c.run_sizes[-1] % s.run == 0):
        raise CompileError(f"@{name}: {s} does not fit {c.count} rows of {c.width}")
    write_kernel(kernel, c, s, _SizedEmitter if c.varies else ColumnsEmitter)


def write_kernel(kernel: func.FuncOp, c: RowKernel, s: Columns, make: "type[ColumnsEmitter]") -> None:
    """The same by the emitter that ``make`` is, of a schedule that fits."""
    name = kernel.name.value
    for step in c.steps:
        if step.scans is not None:
            continue
        if s.reciprocals:
            multiply_by_reciprocals(step, c)
        if s.approximate:
            approximate_exponentials(step, c)
        recognise_maximum(step.generic)
        expand_math(step.generic)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    points = reach(c.count * c.width) if c.varies else 2 * c.count * c.width
    width = index_width(buffers, s.blocks(c) * s.threads, points)
    reduced = [(v, k) for step in c.steps for v, k in zip(step.results, step.combiners) if k is not None]
    # What warps or threads have, which reductions of different phases leave in the same place; for each result what the block has, and the whole; and of rows
    # that share a reduction what each has.
    found = moments(c) if s.once else None
    lists, parts = _places(c, found)
    side = s.across * (1 if s.shares_lanes(c) else s.vector)
    shared = []
    if not s.alone(c):
        shared = [((s.threads // 32 if s.by_shuffles else s.along) * side, type_) for type_ in lists]
        shared += [(side, stored_type(type_)) for types in _result_types(c, [k for _, k in reduced]) for type_ in types]
    shared += [(side, ir.F32Type.get())] if s.once else []  # means
    if s.sends:
        shared += [(s.cluster * s.numbers(c), slot_type(k.total)) for _, k in reduced] + [(c.phases, ir.IntegerType.get_signless(64))]
    kept, dynamic = s.kept_bytes(c), s.dynamic_bytes(c)
    with gpu_function(kernel, buffers, s.threads, shared, cluster=s.cluster, dynamic=dynamic > 0) as function:
        vectors = KeptVectors(kept_accesses(c), s, function.dynamic) if kept else None
        places = {v: i for i, (v, _) in enumerate(reduced)}
        emitter = make(c, s, integers_for(kernel, width, function.buffers), function.buffers, function.shared, places, vectors)
        emitter.parts, emitter.lists, emitter.moments, emitter.dynamic = parts, len(lists), found, function.dynamic
        emitter.emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (s.blocks(c), 1, 1), (s.threads, 1, 1), (s.cluster, 1, 1), dynamic)


def _result_types(c: RowKernel, combiners: list[Combiner]) -> list[list[ir.Type]]:
    totals, narrow = [k.total for k in combiners], [k.narrow for k in combiners]
    return [totals, narrow, totals] if c.together > 1 else [totals, narrow]


def _places(c: RowKernel, found: Moments | None) -> tuple[list[ir.Type], dict[int, int]]:
    """The types of arrays for the reductions of a phase, and which one each reduction has."""
    lists: list[ir.Type] = []
    places: dict[int, int] = {}
    for phase in range(c.phases):
        free = list(range(len(lists)))
        for v, k in met(c, phase, found):
            places[v] = next((i for i in free if lists[i] == stored_type(k.total)), len(lists))
            if places[v] == len(lists):
                lists.append(stored_type(k.total))
            free = [i for i in free if i != places[v]]
    return lists, places


@dataclass
class ColumnsEmitter(ColumnMoments, ColumnTotals, ColumnScans, StagedRows, PackedVectors, Emitter):
    """``_rows`` are vectors here, a lane a row."""

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        self.thread = thread = ints.thread(s.threads)
        block = ints.block()
        self.rank, self.column = ints.rem(block, s.cluster), ints.rem(thread, s.across)
        self.first = ints.add(ints.mul(self.rank, s.along), ints.div(thread, s.across))  # of the rows' points
        self.stride = s.along * s.cluster
        group, self.exchange = ints.div(block, s.cluster), None
        if s.sends:
            own = len(self.shared) - 1 - len(self.places)
            count = s.numbers(c)
            self.exchange = ClusterExchange(
                ints, s.cluster, thread, self.rank, self.shared[own:-1], self.shared[-1], count=count, each=max(1, s.cluster * count // s.threads),
            )
            self.exchange.begin([s.cluster * count * sum(slot_type(k.total).width // 8 for _, k in self.reductions(p)[1]) for p in range(c.phases)])
        vector, vectors = ints.add(ints.mul(group, s.across), self.column), ceildiv(c.count, s.vector)
        self.mine = None
        if not is_multiple(vectors, s.across):  # threads of no row help with the last ones, for all must reach the barriers, and write nothing
            self.mine = ints.less(vector, vectors)
            vector = ints.min(vector, vectors - 1)
        runs, self.number, self.short = row_runs(c), vector, packs(c)
        self.full = ints.less(vector, vectors - 1) if not is_multiple(c.count, s.vector) else None  # whether a thread has as many rows as others
        places = ints.split(ints.mul(vector, s.vector), [math.prod(c.sizes[d] for d in run) for run in runs])
        self.row = {run[-1]: place for run, place in zip(runs, places)}
        if s.whole:
            self.begin_staging(block, self.dynamic)
        for at in dict.fromkeys(a for step in c.steps for a in step.extras if not c.wide(a)):
            self._rows[at] = self.lanes(at, self.row_offset(at))
        if s.whole:
            self.end_staging()
        self.go(group)
        if s.cluster > 1 and not s.sends:
            await_cluster()  # nobody ends while others read what it has

    def go(self, group: Integer) -> None:
        """All that is computed of the block's rows, which is the ``group``-th block or cluster."""
        for phase in range(self.c.phases):
            self.phase(phase)

    def per_row(self, step: RowStep) -> None:
        arguments = [self.argument(step, i, None) for i in range(len(step.sources))] + [unused() for _ in step.results]
        gathered = GatheredValues(self.ints, self.buffers, self.s.vector)
        indices, sizes = self.row_indices(step, gathered), size_values(step, self.ints)
        results = inline_body(step.block, arguments, indices, self.s.vector, {"tensor.extract": gathered.extract}, sizes)
        self._rows.update({n: as_vector(r, self.s.vector) for n, r in zip(step.results, results) if n is not None})

    def row_indices(self, step: RowStep, gathered: GatheredValues) -> list[ir.Value]:
        """For ``linalg.index``: the numbers of the rows' loops, a lane a row."""
        ints, rows, vector = self.ints, self.c.rows, self.s.vector
        if all(d is None for d in step.indices):
            return [arith.constant(ir.IndexType.get(), 0) for _ in step.indices]
        sizes, begin = [self.c.sizes[d] for d in rows], ints.mul(self.number, vector)
        if not is_multiple(sizes[-1], vector):
            places = [ints.split(ints.add(begin, i), sizes) for i in range(vector)]
        else:
            *outer, last = ints.split(begin, sizes)
            places = [(*outer, ints.add(last, i)) for i in range(vector)]
        lanes = {d: join([ints.index(place[i]) for place in places]) for i, d in enumerate(rows) if d in step.indices}
        if rows[-1] in lanes and isinstance(sizes[-1], int) and sizes[-1] % vector == 0:
            gathered.know(lanes[rows[-1]], sizes[-1])
        return [arith.constant(ir.IndexType.get(), 0) if d is None else lanes[d] for d in step.indices]

    # A thread's part.

    def body(self, step: RowStep, chunk: object) -> list[ir.Value]:
        """Of vectors, of one lane as well."""
        arguments = [self.argument(step, i, chunk) for i in range(len(step.sources))] + [unused() for _ in step.results]
        return inline_body(step.block, arguments, self.indices(step, chunk), self.s.vector, widened_pairs.CUSTOM, size_values(step, self.ints))

    def all_turns(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        if not self.s.held:
            return self.again(reducing, running, stored)
        self.place_turn(0, 0, 1)
        for u in range(self.s.unroll):
            for source in self.reads:
                self.read(source, u)
        return [self.total(k, value) for (_, k), value in zip(running, self.parts_of_turn(reducing, running, stored))]

    def parts_of_turn(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        if not self.s.whole:
            return super().parts_of_turn(reducing, running, stored)
        terms = []
        for u in range(self.s.unroll):
            terms.append(self.terms(reducing, running, u, None))
            self.write(stored, u)
        return [self.joined(k, list(each)) for (_, k), each in zip(running, zip(*terms))]

    def place_turn(self, turn: Integer, begin: int, end: int) -> None:
        ints, s = self.ints, self.s
        if s.run == 1:
            super().place_turn(turn, begin, end)
            return
        first = ints.mul(ints.add(ints.mul(turn, self.stride * (s.unroll // s.run)), self.first), s.run)
        for u in range(s.unroll):
            at = ints.add(first, u // s.run * self.stride * s.run + u % s.run)
            self.place(u, at, None if end * self.stride * s.unroll > self.c.width else -1)

    def place(self, chunk: object, point: Integer, number: int | None) -> None:
        inside = None
        if number is None:
            inside = self.ints.less(point, self.c.width)
            point = self.ints.min(point, self.c.width - 1)
        self._chunk[chunk] = (point, inside)

    def terms(self, reducing: list[RowStep], running: list, chunk: object, before: list | None) -> list:
        """For each running value a vector of terms, joined with those before."""
        found, inside = [], self._chunk[chunk][1]
        for step in reducing:
            if step.extremum is not None:
                continue
            for result, k in zip(self.body(step, chunk), step.combiners):
                if k is None:
                    continue
                term = convert(as_vector(result, self.s.vector), k.type)
                found.append(term if inside is None else arith.select(inside, term, as_vector(k.identity(), self.s.vector)))
        if before is None:
            return found
        return [k.combine(a, b) for (_, k), a, b in zip(running, before, found)]

    def indices(self, step: RowStep, chunk: object) -> list[ir.Value]:
        zero, ints, c = arith.constant(ir.IndexType.get(), 0), self.ints, self.c
        if not any(d is not None for d in step.indices):
            return [zero for _ in step.indices]
        at = dict(zip(c.columns, ints.split(self._chunk[chunk][0], [c.sizes[d] for d in c.columns])))
        return [zero if d is None else ints.index(at[d]) for d in step.indices]

    # Memory.

    def lanes(self, at: Access, offset: Integer) -> ir.Value:
        """The elements of a vector's rows; one where they have it in common."""
        ints, buffer, vector, step = self.ints, self.buffers[at.argument], self.s.vector, at.strides[self.c.rows[-1]]
        if step == 0:
            return load(ints, buffer, offset, at.element)
        if self.full is not None:
            last = at.offset + (self.c.count - 1) * step
            return self.neighbours(at, vector, self.alignment(at)) if step == 1 else join(
                [load(ints, buffer, ints.min(ints.add(offset, i * step), last), at.element) for i in range(vector)])
        if step != 1:
            return join([load(ints, buffer, ints.add(offset, i * step), at.element) for i in range(vector)])
        return load_vector(ints, buffer, offset, at.element, vector, self.alignment(at))

    def alignment(self, at: Access) -> int:
        inner = self.c.rows[-1]
        strides = [x for d, x in ((d, at.strides[d]) for d in self.row) if d != inner] + [at.strides[run[-1]] for run in self.c.runs]
        return alignment((at.offset, *strides), self.s.vector)

    def offset(self, at: Access, point: Integer) -> Integer:
        places = self.ints.split(point, self.c.run_sizes)
        return self.ints.add(self.row_offset(at), self.ints.dot(places, [at.strides[run[-1]] for run in self.c.runs]))

    def read(self, at: Access, chunk: object) -> ir.Value:
        if at in self._rows:
            return self._rows[at]
        key = at, chunk
        if key not in self._points:
            if self.short and is_packed(self.c, at):
                self._points.update(self.take_apart(at))
            elif self.kept is not None and self.kept.has(at):
                self._points[key] = self.kept.load(at, chunk)
            else:
                self._points[key] = self.lanes(at, self.offset(at, self._chunk[chunk][0]))
                if self.kept is not None:
                    self.kept.store(at, chunk, self._points[key])
        return self._points[key]

    def write(self, stored: list, chunk: int) -> None:
        if not stored or (chunk + 1) % self.s.run:
            return
        chunks = range(chunk + 1 - self.s.run, chunk + 1)
        inside = self._chunk[chunk][1]  # so are the points beside it
        values = [[as_vector(self.value(d.source, i), self.s.vector) for i in chunks] for d in stored]
        if self.s.whole:
            self.write_staged([(d.access, _by_rows(each)) for d, each in zip(stored, values)])
            return

        with only_if(inside, self.mine):
            for d, run in zip(stored, values):
                self.put(d.access, [self.offset(d.access, self._chunk[i][0]) for i in chunks], run)

    def put(self, at: Access, offsets: list[Integer], values: list[ir.Value]) -> None:
        """Write a vector's rows, of neighbouring points; where rows lie apart one by one, a warp's points of each being whole sectors."""
        buffer, step, point = self.buffers[at.argument], at.strides[self.c.rows[-1]], at.strides[self.c.runs[-1][-1]]
        if step == 1:
            for offset, value in zip(offsets, values):
                store_vector(self.ints, value, buffer, offset, self.alignment(at))
            return
        lanes, wide = [lanes_of(v) for v in values], len(values) > 1 and point == 1
        if self.short:
            self.store_neighbours(at, join(_by_rows(values)), offsets[0], self.aligned_rows(at))
            return
        for i in range(self.s.vector):
            if wide:
                store_vector(self.ints, join([x[i] for x in lanes]), buffer, self.ints.add(offsets[0], i * step), self.aligned_points(at))
                continue
            for offset, x in zip(offsets, lanes):
                store(self.ints, x[i], buffer, self.ints.add(offset, i * step))

    def aligned_points(self, at: Access) -> int:
        """Neighbouring points of a row that are aligned together where a thread's run begins."""
        strides = [at.strides[d] for d in (*self.row, self.c.rows[-1], *(run[-1] for run in self.c.runs[:-1]))]
        return alignment((at.offset, *strides), self.s.run)

    def put_row(self, at: Access, value: ir.Value) -> None:
        vector = as_vector(value, self.s.vector)
        self.store_neighbours(at, vector, self.row_offset(at), self.alignment(at))


class _SizedEmitter(SizedColumns, ColumnsEmitter):
    """Of rows whose number or length varies."""


def _by_rows(points: list[ir.Value]) -> list[ir.Value]:
    """The lanes of points, row by row."""
    lanes = [lanes_of(x) for x in points]
    return [x[i] for i in range(len(lanes[0])) for x in lanes]

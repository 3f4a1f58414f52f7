"""Kernels that go over rows: softmax, norms, and whatever else is maps and reductions of the same rows, each row read once and written once.

Some threads of a warp, a block or a cluster of blocks have a row, each every so many vectors of it.  Operations go in phases, which end with
reductions: each thread reduces its own part in registers, shuffles bring a warp's parts together, shared memory those of warps, and distributed
shared memory those of blocks; all reductions of a phase share a barrier.  Rows that do not fit the registers are read again in each phase.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from inferno.codegen.cluster_exchange import ClusterExchange, slot_type
from inferno.codegen.cluster import await_cluster
from inferno.codegen.elements import as_vector, join, lanes_of, load, load_vector, opaque_vector, splat, store, store_vector
from inferno.codegen.expand_math import expand_math
from inferno.codegen.float8 import round_by_instruction
from inferno.codegen.gpu_function import gpu_function, integers_for, parameters_of, stored_type
from inferno.codegen.inline import inline_body
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.launcher import launch, launcher, parameter
from inferno.codegen.minmax import recognise_maximum
from inferno.codegen.joining import tree
from inferno.codegen.kept_vectors import KeptVectors
from inferno.codegen.online_sums import bound, scaled
from inferno.codegen.persistent_rows import PersistentRows
from inferno.codegen.ragged_rows import RaggedRows
from inferno.codegen.row_divisions import multiply_by_reciprocals
from inferno.codegen.row_exponentials import approximate_exponentials
from inferno.codegen.row_totals import RowTotals
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, scf
from inferno.schedule.accesses import Access, Joined, row_major
from inferno.schedule.combiners import Combiner
from inferno.schedule.row_kernel import RowKernel
from inferno.schedule.row_maxima import OnlineSum, online_sums
from inferno.schedule.row_steps import RowStep
from inferno.schedule.rows import Rows, can_be_ragged, can_persist, read, turning_phases
from inferno.symbolic import is_multiple, reach
from inferno.target import Target

# Points of a row of float32 that are all added in float64.  Means of 36 numbers whose lanes were added in float32 had 1.5 units' error, eager's
# have 0.7.  Numbers that were read in 16 bits have bits to spare, and small kernels took 0.3 us longer on an H200.
SHORT = 64


def generate(kernel: func.FuncOp, schedule: Rows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that goes over rows, and make ``kernel`` its launcher."""
    c, s, name = read(kernel, target), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} does not go over rows")
    whole = c.width % s.vector == 0 or (s.ragged and can_be_ragged(c, s.vector))
    if s.threads % s.across or s.threads % 32 or s.across & (s.across - 1) or not whole or (s.cluster > 1 and s.across != s.threads):
        raise CompileError(f"@{name}: {s} does not fit {c.count} rows of {c.width}")
    if c.varies and (s.persistent or s.ragged):
        raise CompileError(f"@{name}: {s} is for a known number of rows")
    if (s.persistent or s.common) and not (s.persistent and can_persist(s, c)):
        raise CompileError(f"@{name}: {s} does not keep what is read of {c.count} rows of {c.width}")
    online = online_sums(c) if s.online and not s.held else {}
    # Exponentials that are summed with the largest point are apart from those that are written, or that sums are scaled by.
    copies = {x.exponential: copy_of(x.made) for sums in online.values() for x in sums if x.made is not None}
    for step in (*c.steps, *copies.values()):
        if s.reciprocals:
            multiply_by_reciprocals(step, c)
        if s.approximate:
            approximate_exponentials(step, c, any(step is x for x in copies.values()))
        recognise_maximum(step.generic)
        expand_math(step.generic)
        round_by_instruction(step.generic, target)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    points = reach(c.count * c.width) if c.varies else 2 * c.count * c.width
    width = 32 if max(reach(s.blocks(c) * s.threads), points, *(b.count for b in buffers if b is not None)) < 2**31 else 64
    reduced = [(v, combiner) for step in c.steps for v, combiner in zip(step.results, step.combiners) if combiner is not None]
    places = {v: i for i, (v, _) in enumerate(reduced)}
    count = s.threads // 32 if s.across > 32 else 0
    shared = [(max(1, count), stored_type(combiner.total)) for _, combiner in reduced] if count else []
    if s.cluster > 1:
        sets = 2 if s.persistent else 1
        shared += [(sets * s.cluster, slot_type(k.total)) if s.sends else (1, stored_type(k.total)) for _, k in reduced]
        shared += [(sets * c.phases, ir.IntegerType.get_signless(64))] if s.sends else []
    kept = s.kept_bytes(c) if not s.held else 0
    with gpu_function(kernel, buffers, s.threads, shared, s.resident, s.cluster, dynamic=kept > 0) as function:
        vectors = KeptVectors(s.keeps(c), s, function.dynamic, known=set(s.keeps(c)) if s.persistent else set()) if kept else None
        Emitter(c, s, integers_for(kernel, width, function.buffers), function.buffers, function.shared, places, vectors, online, copies).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (s.blocks(c), 1, 1), (s.threads, 1, 1), (s.cluster, 1, 1), kept)


@dataclass
class Emitter(RaggedRows, PersistentRows, RowTotals):
    """``_points`` are what is known of a chunk by (value or access, chunk), ``_rows`` what is known of rows."""

    c: RowKernel
    s: Rows
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]
    places: dict[int, int]
    kept: KeptVectors | None = None
    online: dict[int, list[OnlineSum]] = field(default_factory=dict)
    copies: dict[int, RowStep] = field(default_factory=dict)  # by what they make
    _makers: dict[int, RowStep] = field(default_factory=dict)  # instead of the kernel's own
    _taken: dict[int, tuple[ir.Value, ir.Value]] = field(default_factory=dict)  # a thread's part of such a sum, and the maximum it is relative to
    _points: dict[tuple[int | Access, object], ir.Value] = field(default_factory=dict)
    _rows: dict[int | Access, ir.Value] = field(default_factory=dict)
    _chunk: dict[object, tuple[Integer, ir.Value | None]] = field(default_factory=dict)

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        index = ir.IndexType.get()
        thread = ints.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=s.threads, results=[index]).result)
        block = ints.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[index]).result)
        self.thread, self.rank = thread, ints.rem(block, s.cluster)
        per_block = s.threads // s.across
        self.lane = ints.rem(thread, s.across)
        group = ints.div(block, s.cluster)
        row = ints.add(ints.mul(group, per_block), ints.div(thread, s.across) if per_block > 1 else 0)
        self.mine = None
        if not is_multiple(c.count, per_block):  # threads of no row help with the last one, for all must reach the barriers, and write nothing
            self.mine = ints.less(row, c.count)
            row = ints.min(row, c.count - 1)
        self.first = ints.add(ints.mul(self.rank, s.threads), self.lane)  # of the row's vectors
        self.stride = s.across * s.cluster
        self.exchange, self.turning = None, turning_phases(s, c)
        if s.cluster > 1 and s.sends:
            own = len(self.shared) - 1 - len(self.places)
            self.exchange = ClusterExchange(ints, s.cluster, thread, self.rank, self.shared[own:-1], self.shared[-1])
            self.exchange.begin([
                s.cluster * sum(slot_type(k.total).width // 8 for step in c.steps if step.phase == p for k in step.combiners if k is not None)
                for p in range(c.phases)
            ], 2 if s.persistent else 1)
        if s.persistent:
            self.all_rows(group)
            return
        self.begin_row(row)
        self.one_row()
        if s.cluster > 1 and not s.sends:
            await_cluster()  # nobody ends while others read what it has

    def begin_row(self, number: Integer) -> None:
        """Take a row's coordinates."""
        self.row = dict(zip(self.c.rows, self.ints.split(number, [self.c.sizes[d] for d in self.c.rows])))
        if self.s.ragged:
            self.begin_ragged()

    def one_row(self) -> None:
        """All that is computed of it."""
        c, ints = self.c, self.ints
        for at in dict.fromkeys(a for step in c.steps for a in step.extras if not c.wide(a)):
            self._rows[at] = load(ints, self.buffers[at.argument], self.row_offset(at), at.element)
        for phase in range(c.phases):
            self.phase(phase)

    def phase(self, phase: int) -> None:
        c = self.c
        self.begin_phase(phase)
        for step in c.steps:
            if step.per_row and step.phase == phase:
                self.per_row(step)
        self.write_rows(phase)
        reducing, running = self.reductions(phase)
        stored = [d for d in c.destinations if not c.values[d.source].per_row and c.computed(d.source) == phase]
        if not running and not stored:
            return
        taken = self.online.get(phase - 1)
        values = [scaled(x, *self._taken[x.result], self._rows[x.base]) for x in taken] if taken else self.all_turns(reducing, running, stored)
        if running:
            self.finish(reducing, running, dict(zip((n for n, _ in running), values)))

    def begin_phase(self, phase: int) -> None:
        every = dict.fromkeys(a for step in self.c.steps for a in step.extras)
        self.now, self.reads = phase, [a for a in every if a in self.c.needed(phase)[0]]

    def reductions(self, phase: int) -> tuple[list[RowStep], list[tuple[int, Combiner]]]:
        """What a phase reduces, and with what."""
        reducing = [step for step in self.c.steps if step.reduces and step.phase == phase]
        return reducing, [(n, k) for step in reducing for n, k in zip(step.results, step.combiners) if k is not None]

    def per_row(self, step: RowStep) -> None:
        arguments = [self.argument(step, i, None) for i in range(len(step.sources))] + [unused() for _ in step.results]
        indices = [_zero() if d is None else self.ints.index(self.row[d]) for d in step.indices]
        results = inline_body(step.block, arguments, indices, custom={"tensor.extract": self.extract})
        self._rows.update({n: r for n, r in zip(step.results, results) if n is not None})

    def all_turns(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread with what it writes."""
        return self.held(reducing, running, stored) if self.s.held else self.again(reducing, running, stored)

    def held(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread, all of whose chunks are kept."""
        values: list[list[ir.Value]] | None = None
        chunks = range(self.s.chunks(self.c))
        if self.s.packed:
            self._points = {key: opaque_vector(v) for key, v in self._points.items() if isinstance(key[0], Access)}
        for chunk in chunks:
            self.place(chunk, self.ints.add(self.first, chunk * self.stride), chunk)
        for chunk in chunks:  # all that is of this row alone is read first; what rows have in common, and caches have, would take registers
            for source in self.reads:
                if any(source.strides[d] != 0 for d in self.c.rows) or not self.s.packed:
                    self.read(source, chunk)
        for chunk in chunks:
            values = self.terms(reducing, running, chunk, values)
            self.write(stored, chunk)
        return [self.total(k, lanes) for (_, k), lanes in zip(running, values or [])]

    def again(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread, by a loop that keeps nothing else."""
        online = self.online.get(self.now, [])
        totals = self.segments(self.identities(running), reducing, running, stored)
        places = [n for n, _ in running]
        self._taken = {x.result: (total, bound(x, totals[places.index(x.largest)])) for x, total in zip(online, totals[len(places):])}
        return totals[:len(places)]

    def segments(self, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals with all rounds."""
        s, rounds, kept = self.s, self.s.rounds(self.c), self.kept_rounds
        # Turns in which rows may begin or end are apart, so that the others have no conditions.
        cuts = {0, kept, rounds} | ({1, rounds - 1} if s.ragged else {s.vectors(self.c) // (self.stride * s.unroll)})
        turns = list(pairwise(sorted(cuts)))
        if s.persistent:  # what is not kept is read first, while copies come, and where caches still have it
            turns.sort(key=lambda t: t[0] < kept)
        for begin, end in turns:
            if self.kept is not None and begin == 0 and kept:
                self.kept.begin(self.thread)
            totals = self.turns(begin, end, totals, reducing, running, stored)
            if kept and end == kept:
                self.kept.end(self.reads)
        return totals

    def identities(self, running: list[tuple[int, Combiner]]) -> list[ir.Value]:
        """What this phase's totals begin with."""
        return [k.identity(k.total) for k in (*(k for _, k in running), *(x.combiner for x in self.online.get(self.now, [])))]

    def total(self, combiner: Combiner, lanes: list[ir.Value]) -> ir.Value:
        """Of a thread's lanes, in the type of totals, so that how many threads and turns there are adds no error to sums; lanes of rows that are not
        short are added before, for a conversion to float64 takes as long as eight additions."""
        return combiner.to_total(tree(combiner, lanes))

    def turns(
        self, begin: int, end: int, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list,
    ) -> list[ir.Value]:
        """The totals with some rounds more."""
        ints, s = self.ints, self.s
        op = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), totals)
        with ir.InsertionPoint(op.body):
            found = self.turn(op.induction_variable, begin, end, list(op.inner_iter_args), reducing, running, stored)
            if s.persistent:
                self.after_turn(op.induction_variable, begin, end)
            scf.yield_(found)
        return list(op.results)

    def turn(
        self, number: ir.Value, begin: int, end: int, before: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list,
    ) -> list[ir.Value]:
        """The totals with one round more, of those from ``begin`` to ``end``."""
        self._points, kept = {}, self._points
        if self.kept is not None:
            self.kept.turn(number)
        values = None
        self.place_turn(number, begin, end)
        if self.s.persistent:
            self.before_turn()
        for u in range(self.s.unroll):  # all that is read first
            for source in self.reads:
                self.read(source, u)
        for u in range(self.s.unroll):
            values = self.terms(reducing, running, u, values)
            self.write(stored, u)
        parts = [self.total(k, value) for (_, k), value in zip(running, values or [])]
        after = [k.combine(a, b) for (_, k), a, b in zip(running, before, parts)]
        found = [*after, *self.take_online(running, before, after)]
        self._points = kept
        return found

    def place_turn(self, turn: ir.Value, begin: int, end: int) -> None:
        """Where the chunks of a turn are, one of those from ``begin`` to ``end``."""
        ints, s = self.ints, self.s
        vectors, step = s.vectors(self.c), self.stride * s.unroll
        base = ints.add(ints.mul(turn, step), self.first)
        for u in range(s.unroll):
            at = ints.add(base, u * self.stride)
            if s.ragged:
                self.place_ragged(u, at, begin == 0, end * step >= vectors - 1)
            else:
                self.place(u, at, None if end * step > vectors else -1)

    @property
    def exact(self) -> bool:
        """Whether this phase's sums are rounded once."""
        return self.c.width <= SHORT and any(self.c.wide(a) and isinstance(a.element, ir.F32Type) for a in self.reads)

    @property
    def kept_rounds(self) -> int:
        """Turns that keep what they read."""
        return min(self.s.kept, self.s.rounds(self.c)) if self.kept is not None else 0

    def take_online(self, running: list[tuple[int, Combiner]], before: list[ir.Value], after: list[ir.Value]) -> list[ir.Value]:
        """The sums that are taken with this phase's maxima, behind a turn: the totals ``before`` and ``after`` it are the maxima's."""
        found, places = [], [n for n, _ in running]
        for x, total in zip(self.online.get(self.now, []), before[len(places):]):
            old, new = (bound(x, values[places.index(x.largest)]) for values in (before, after))
            self._rows[x.base], lanes = new, None
            self._makers = self.copies
            for u in range(self.s.unroll):
                lanes = self.terms([x.step], [(x.result, x.combiner)], u, lanes)
                self._points.pop((x.exponential, u), None)  # of another base
            del self._rows[x.base]
            self._makers = {}
            found.append(x.combiner.combine(scaled(x, total, old, new), self.total(x.combiner, lanes[0])))
        return found

    def place(self, chunk: object, vector: Integer, number: int | None) -> None:
        """Where a chunk is: (its first point, whether it is the row's; None where it is)."""
        if self.s.ragged:
            self.place_ragged(chunk, vector, number in (None, 0), number is None or (number + 1) * self.stride >= self.s.vectors(self.c) - 1)
            return
        vectors = self.c.width // self.s.vector
        inside = None
        if number is None or (number >= 0 and (number + 1) * self.stride > vectors):
            inside = self.ints.less(vector, vectors)
            vector = self.ints.min(vector, vectors - 1)
        self._chunk[chunk] = (self.ints.mul(vector, self.s.vector), inside)

    # What a thread reduces by itself.

    def terms(
        self, reducing: list[RowStep], running: list[tuple[int, Combiner]], chunk: object, before: list[list[ir.Value]] | None,
    ) -> list[list[ir.Value]]:
        """Running values, a lane each, with a chunk's terms."""
        found = []
        inside = self._chunk[chunk][1]
        for step in reducing:
            results = self.body(step, chunk)
            for result, combiner in zip(results, step.combiners):
                if combiner is None:
                    continue
                terms = [combiner.widen(x) for x in lanes_of(as_vector(result, self.s.vector) if self.s.vector > 1 else result)]
                if self.exact:
                    terms = [combiner.to_total(x) for x in terms]
                if inside is not None:
                    each = inside if isinstance(inside, list) else [inside] * len(terms)
                    terms = [arith.select(i, t, combiner.identity(t.type)) for i, t in zip(each, terms)]
                found.append(terms)
        if before is None:
            return found
        return [[k.combine(a, b) for a, b in zip(old, new)] for (_, k), old, new in zip(running, before, found)]

    def body(self, step: RowStep, chunk: object) -> list[ir.Value]:
        arguments = [self.argument(step, i, chunk) for i in range(len(step.sources))] + [unused() for _ in step.results]
        lanes = self.s.vector if self.s.vector > 1 else 0
        return inline_body(step.block, arguments, self.indices(step, chunk), lanes, custom={"tensor.extract": self.extract})

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """``tensor.extract`` from an argument of the kernel, for each lane by itself; within it, for a vector's lanes may be beyond the row's ends, and what is
        computed of their numbers is anywhere."""
        ints, table = self.ints, ir.RankedTensorType(op.operands[0].type)
        buffer, strides = self.buffers[ir.BlockArgument(op.operands[0]).arg_number], row_major(table.shape)
        lanes = max((v.type.shape[0] for v in operands[1:] if isinstance(v.type, ir.VectorType)), default=0)
        each = [[lanes_of(v)[i] if isinstance(v.type, ir.VectorType) else v for v in operands[1:]] for i in range(max(1, lanes))]
        inside = [[ints.min(ints.narrow(v), size - 1) for v, size in zip(at, table.shape)] for at in each]
        found = [load(ints, buffer, ints.dot(at, strides), table.element_type) for at in inside]
        return join(found) if lanes else found[0]

    def argument(self, step: RowStep, number: int, chunk: object) -> ir.Value:
        source = step.sources[number]
        if source is None:
            return unused()
        if isinstance(source, Access):
            return self.read(source, chunk)
        return self._rows[source] if self.c.values[source].per_row else self.value(source, chunk)

    def value(self, number: int, chunk: object) -> ir.Value:
        """A value of points, computed where it is not known."""
        key = number, chunk
        if key not in self._points:
            step = self._makers.get(number) or self.c.maker(number)
            results = self.body(step, chunk)
            self._points.update({(n, chunk): r for n, r in zip(step.results, results) if n is not None})
        return self._points[key]

    def indices(self, step: RowStep, chunk: object) -> list[ir.Value]:
        """For ``linalg.index``: the coordinates of a step's own loops, vectors where lanes differ."""
        if not any(d is not None for d in step.indices):
            return [_zero() for _ in step.indices]
        ints, c = self.ints, self.c
        first = self._chunk[chunk][0]
        sizes = [c.sizes[d] for d in c.columns]
        lanes = [dict(zip(c.columns, ints.split(ints.add(first, i), sizes))) for i in range(self.s.vector)]
        found = []
        for d in step.indices:
            if d is None:
                found.append(_zero())
            elif d in self.row:
                found.append(ints.index(self.row[d]))
            else:
                each = [ints.index(lane[d]) for lane in lanes]
                found.append(each[0] if len(each) == 1 else join(each))
        return found

    # Memory.

    def row_offset(self, at: Access) -> Integer:
        return self.ints.dot(list(self.row.values()), [at.strides[d] for d in self.row], at.offset)

    def flat(self, at: Access) -> bool:
        """Whether a row's points are neighbours."""
        steps, sizes = [at.strides[run[-1]] for run in self.c.runs], self.c.run_sizes
        wanted = 1
        for step, size in zip(reversed(steps), reversed(sizes)):
            if step != wanted:
                return False
            wanted *= size
        return True

    def together(self) -> bool:
        """Whether the lanes of a vector differ in the innermost coordinate only."""
        return len(self.c.runs) == 1 or self.c.run_sizes[-1] % self.s.vector == 0

    def offset(self, at: Access, point: Integer) -> Integer:
        base = self.row_offset(at)
        if self.s.ragged:
            return self.ints.add(base, point)
        if self.flat(at):
            return self.ints.add(base, point)
        return self.ints.add(base, self.ints.dot(self.ints.split(point, self.c.run_sizes), [at.strides[run[-1]] for run in self.c.runs]))

    def alignment(self, at: Access) -> int:
        """Neighbouring elements that are aligned together."""
        aligned, strides = 1, [at.strides[d] for d in self.row]
        if not self.flat(at):
            strides += [at.strides[run[-1]] for run in self.c.runs[:-1]]
        while aligned < self.s.vector and all(is_multiple(x, 2 * aligned) for x in (at.offset, *strides)):
            aligned *= 2
        return aligned

    def read(self, at: Access, chunk: object) -> ir.Value:
        buffer = self.buffers[at.argument]
        if at in self._rows:
            return self._rows[at]
        key = at, chunk
        if key not in self._points and self.kept is not None and self.kept.has(at):
            self._points[key] = self.kept.load(at, chunk)
        if key not in self._points:
            point, vector = self._chunk[chunk][0], self.s.vector
            inner = at.strides[self.c.runs[-1][-1]]
            if isinstance(at, Joined):
                value = self.read_joined(at.pieces, point)
            elif self.s.ragged:
                value = self.read_ragged(at, point, self._chunk[chunk][1])
            elif vector == 1 or (self.together() and inner == 0 and not self.flat(at)):
                value = load(self.ints, buffer, self.offset(at, point), at.element)
            elif self.flat(at) or (self.together() and inner == 1):
                value = load_vector(self.ints, buffer, self.offset(at, point), at.element, vector, self.alignment(at))
            else:
                value = join([load(self.ints, buffer, self.offset(at, self.ints.add(point, i)), at.element) for i in range(vector)])
            if self.kept is not None:
                self.kept.store(at, chunk, value)
            self._points[key] = value
        return self._points[key]

    def read_joined(self, pieces: Sequence[tuple[int, Access]], point: Integer) -> ir.Value:
        """A vector of one of several pieces, none of which begins inside of one."""
        (_, at), vector = pieces[0], self.s.vector
        if len(pieces) == 1:
            offset = self.offset(at, point)
            one = vector == 1
            return load(self.ints, self.buffers[at.argument], offset, at.element) if one else load_vector(
                self.ints, self.buffers[at.argument], offset, at.element, vector, self.alignment(at))
        half = len(pieces) // 2
        type_ = at.element if vector == 1 else ir.VectorType.get([vector], at.element)
        choice = scf.IfOp(self.ints.less(point, pieces[half][0]), [type_], has_else=True)
        for block, some in ((choice.then_block, pieces[:half]), (choice.else_block, pieces[half:])):
            with ir.InsertionPoint(block):
                scf.yield_([self.read_joined(some, point)])
        return choice.results[0]

    def write(self, stored: list, chunk: object) -> None:
        if not stored:
            return
        if self.s.ragged:
            self.write_ragged(stored, chunk)
            return
        point, inside = self._chunk[chunk]
        conditions = [x for x in (inside, self.mine) if x is not None]
        values = [self.value(d.source, chunk) for d in stored]

        def put() -> None:
            for destination, value in zip(stored, values):
                at, vector = destination.access, self.s.vector
                buffer = self.buffers[at.argument]
                if vector == 1:
                    store(self.ints, value, buffer, self.offset(at, point))
                else:
                    store_vector(self.ints, as_vector(value, vector), buffer, self.offset(at, point), self.alignment(at))

        self.where(conditions, put)

    def write_rows(self, phase: int) -> None:
        """The values of rows that are known since the last phase, by one of a row's threads."""
        found = [d for d in self.c.destinations if self.c.values[d.source].per_row and self.c.computed(d.source) == phase]
        if not found:
            return

        def put() -> None:
            for d in found:
                store(self.ints, self._rows[d.source], self.buffers[d.access.argument], self.row_offset(d.access))

        self.where([self.ints.equal(self.first, 0), *([self.mine] if self.mine is not None else [])], put)

    def where(self, conditions: list[ir.Value], put: Callable[[], None]) -> None:
        if not conditions:
            put()
            return
        both = conditions[0]
        for condition in conditions[1:]:
            both = arith.andi(both, condition)
        op = scf.IfOp(both)
        with ir.InsertionPoint(op.then_block):
            put()
            scf.yield_([])


def copy_of(step: RowStep) -> RowStep:
    """The same, by a body of its own."""
    with ir.InsertionPoint(step.generic):
        return replace(step, generic=step.generic.clone())


def unused() -> ir.Value:
    """Stands for an argument that the body does not read."""
    return splat(ir.IntegerType.get_signless(1), 0)


def _zero() -> ir.Value:
    return arith.constant(ir.IndexType.get(), 0)

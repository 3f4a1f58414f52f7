"""Elementwise kernels on the gpu, vector, memref and arith dialects: a flat grid over the points of the destination."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import gcd

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_lanes, load_vector, splat, store, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.lane_patterns import Pattern, Patterns, uniform
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.maps.begin_copies import copy_begins
from inferno.codegen.maps.branches import Branches
from inferno.codegen.maps.clamped_places import ClampedPlaces
from inferno.codegen.maps.lane_places import lane_places
from inferno.codegen.maps.narrow_index import Offsets
from inferno.codegen.maps.narrow_lanes import NarrowLanes
from inferno.codegen.maps.side_by_side import side_by_side
from inferno.codegen.maps.table_reads import TableReads
from inferno.codegen.maps.transposing import Transposing, shared_arrays
from inferno.codegen.maps.transposing_gathers import GatherTransposing
from inferno.codegen.maps.transposing_vectors import VectorTransposing, shared_words
from inferno.codegen.maps.turning_results import ResultTurning, result_arrays
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, scf, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.elementwise import Elementwise, transposes_by_vectors
from inferno.schedule.maps.pointwise import Pointwise, parse_pointwise
from inferno.schedule.maps.shared_reads import reused
from inferno.schedule.maps.transposed import transposed
from inferno.schedule.maps.transposed_gathers import brought_together, transposed_gathers
from inferno.schedule.maps.turned_results import turned
from inferno.symbolic import Int, bounds, ceildiv, divisor, is_multiple, product
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Elementwise, target: Target) -> None:
    """Add the ``gpu.module`` of an elementwise kernel and make ``kernel`` its launcher."""
    point = parse_pointwise(kernel, views=True, parts=True)
    if point is None:
        raise CompileError(f"@{kernel.name.value} is not an elementwise kernel")
    run = reused(point, schedule.across, schedule.vector) if schedule.across > 1 else None  # of what the schedule was chosen by, before it is expanded
    expand_math(point.generic)
    buffers = parameters_of(kernel, {d.argument for d in point.destinations})
    if schedule.tile:
        _generate_transposing(kernel, schedule, point, buffers)
        return
    if schedule.across > 1 and (run is None or schedule.unroll > 1):
        raise CompileError(f"@{kernel.name.value} has no loop of which a thread can do {schedule.across} iterations; its schedule must have across = 1")
    block_points = schedule.threads * schedule.vector * schedule.unroll * schedule.across
    blocks = ceildiv(point.points, block_points)
    width = index_width(buffers, blocks * block_points)
    with gpu_function(kernel, buffers, schedule.threads) as function:
        Emitter(point, schedule, integers_for(kernel, width, function.buffers), function.buffers, run=run).emit()
    _launch(kernel, point, blocks, schedule.threads)


def _launch(kernel: func.FuncOp, point: Pointwise, blocks: Int, threads: int) -> None:
    """Make ``kernel`` the launcher of its kernel, behind copies of what results begin as."""
    name, copies = kernel.name.value, copy_begins(kernel, point.begins)
    with launcher(kernel) as arguments:
        for copy in copies:
            copy.launch(arguments)
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (threads, 1, 1))


def _generate_transposing(kernel: func.FuncOp, schedule: Elementwise, point: Pointwise, buffers: list[Buffer | None]) -> None:
    found, gathers, tiled = transposed(point), (), transposed_gathers(point)
    if found is None and tiled is not None:
        found, gathers = (tiled.across, tiled.numbers), tiled.gathers
    if found is None and (along := turned(point)) is not None:
        arrays = result_arrays(point, along, schedule.tile)
        _emit(kernel, schedule, point, buffers, arrays, partial(ResultTurning, point, schedule, along, ()))
        return
    if found is None:
        raise CompileError(f"@{kernel.name.value} has no transposed input; its schedule must have tile = 0")
    across, numbers = found
    make, arrays = Transposing, shared_arrays([point.sources[n].element for n in numbers] + [p.access.element for p in gathers], schedule.tile)
    if gathers:
        make = partial(GatherTransposing, gathers=gathers)
    if schedule.vector > 1 and not (gathers and schedule.vector <= brought_together(point, tiled)):
        if gathers or not transposes_by_vectors(point, schedule, across, numbers):
            raise CompileError(f"@{kernel.name.value} does not transpose by vectors so; its schedule must have vector = 1")
        make, arrays = VectorTransposing, shared_words(point, numbers, schedule)
    _emit(kernel, schedule, point, buffers, arrays, partial(make, point, schedule, across, numbers))


def _emit(
    kernel: func.FuncOp, schedule: Elementwise, point: Pointwise, buffers: list[Buffer | None], arrays: list[tuple[int, ir.Type]],
    make: Callable[..., Transposing],
) -> None:
    """A kernel by tiles, with arrays in shared memory, which ``make`` gives an emitter of for integers, buffers and these."""
    width = 32 if max(b.count for b in buffers if b is not None) < 2**30 else 64
    with gpu_function(kernel, buffers, schedule.threads, arrays) as function:
        emitter = make(integers_for(kernel, width, function.buffers), function.buffers, function.shared)
        emitter.emit()
    _launch(kernel, point, emitter.blocks(), schedule.threads)


@dataclass
class Emitter(TableReads):
    """Vectors of neighbouring points: where each thread's are, what they are made of, and where they go."""

    point: Pointwise
    schedule: Elementwise
    ints: Integers
    buffers: list[ir.Value]
    loops: dict[ir.Value, int] = field(default_factory=dict)  # whose coordinates the indices of a body are
    loaded: dict = field(default_factory=dict)  # parts of tables, see ``load_lanes``
    first: list[Integer] = field(default_factory=list)  # the coordinates of a vector's first point
    places: ClampedPlaces = field(default_factory=lambda: ClampedPlaces(()))
    begins: dict[tuple, ir.Value] = field(default_factory=dict)  # see ``begin``
    run: int | None = None  # of which a thread does several iterations, far apart

    def __post_init__(self) -> None:
        self.offsets, self.branches = Offsets(self.ints), Branches(self.point, self.schedule.vector)
        # The box of first points: of that run it has as many less.
        sizes = self.point.run_sizes
        self.sizes = tuple(s // self.schedule.across if r == self.run else s for r, s in enumerate(sizes))

    def emit(self) -> None:
        """``unroll`` vectors a thread, then the points that are left over when vectors do not divide them, one a thread."""
        ints, s = self.ints, self.schedule
        thread = ints.thread(s.threads)
        block = ints.block()
        firsts = self.point.points // s.across
        vectors, left = firsts // s.vector, firsts % s.vector
        if s.backwards:
            block = ints.sub(ceildiv(self.point.points, s.threads * s.vector * s.unroll * s.across) - 1, block)
        first = ints.add(ints.mul(block, s.threads * s.unroll), thread)
        if vectors % (s.threads * s.unroll) == 0 and left == 0:  # (what is left over may take a block of its own)
            self.vectors(first, range(s.unroll))
        elif s.unroll == 1:
            self.guarded(first, vectors)
        else:
            # Blocks that are full issue all their loads before the first use; only the last one takes guards.
            last = ints.add(ints.mul(block, s.threads * s.unroll), s.threads * s.unroll - 1)
            whole = scf.IfOp(
                ints.less(last, vectors) if bounds(vectors)[1] >= s.threads * s.unroll else splat(ir.IntegerType.get_signless(1), 0), has_else=True)
            with ir.InsertionPoint(whole.then_block):
                self.vectors(first, range(s.unroll))
                scf.yield_([])
            with ir.InsertionPoint(whole.else_block):
                for u in range(s.unroll):
                    self.guarded(ints.add(first, u * s.threads), vectors)
                scf.yield_([])
        if left != 0:
            begin = self.point.points - left
            with only_if(ints.less(ints.add(ints.mul(block, s.threads), thread), left)):
                self.points(ints.add(ints.add(ints.mul(block, s.threads), thread), begin), 0)

    def guarded(self, vector: Integer, vectors: int) -> None:
        with only_if(self.ints.less(vector, vectors)):
            self.vectors(vector, range(1))

    def vectors(self, vector: Integer, steps: range) -> None:
        """The vectors with numbers ``vector + u * threads``: all loads, then all bodies, then all stores."""
        s = self.schedule
        lanes = s.vector * s.across if s.vector * s.across > 1 else 0
        starts = [self.ints.mul(self.ints.add(vector, u * s.threads), s.vector) for u in steps]
        loaded = [self.load(start, lanes) for start in starts]
        results = [self.body(start, lanes, values) for start, values in zip(starts, loaded)]
        for start, values in zip(starts, results):
            self.store(start, lanes, values)

    def points(self, start: Integer, lanes: int) -> None:
        self.store(start, lanes, self.compute(start, lanes))

    def compute(self, start: Integer, lanes: int) -> list[ir.Value]:
        """The results of the points from ``start`` on, which no vector of them leaves."""
        return self.body(start, lanes, self.load(start, lanes))

    # Where a point lies.

    def flat(self, at: Access) -> bool:
        """Whether the first points are in memory in the order in which they are counted."""
        return all(s == product(self.sizes[i + 1:]) for i, s in enumerate(self.point.run_strides(at)))

    def offset(self, at: Access, start: Integer) -> Integer:
        if self.flat(at):
            return self.ints.add(start, at.offset)
        return self.ints.dot(self.ints.split(start, self.sizes), self.point.run_strides(at), at.offset)

    def lane_offsets(self, at: Access, start: Integer, lanes: int) -> list[Integer]:
        """The same of each point from ``start`` on, and of those in the other iterations that a thread does."""
        strides, vector = self.point.run_strides(at), self.schedule.vector
        width, apart = (lanes, 0) if self.run is None else (vector, self.sizes[self.run] * strides[self.run])
        if self.flat(at):
            found = [self.offset(at, self.ints.add(start, i)) for i in range(width)]
        else:
            places = lane_places(self.ints, start, width, vector, self.sizes, lambda point: self.ints.split(point, self.sizes))
            found = [self.ints.dot(place, strides, at.offset) for place in places]
        return [self.ints.add(found[i % width], i // width * apart) for i in range(lanes)]

    def run_patterns(self, lanes: int) -> list[Pattern] | None:
        """The coordinates of a vector's lanes in each run; None where lanes begin anew at places that differ from vector to vector."""
        width = lanes // self.schedule.across
        found, inner, left = [], 1, width
        for number, size in reversed(list(enumerate(self.sizes))):
            residues = tuple(i % width // inner for i in range(lanes))
            if left == 1:
                found.append(uniform(lanes, size - 1 if isinstance(size, int) else None))
            elif number == 0 or is_multiple(size, left):
                found.append(Pattern(left, residues, True, size // left - 1 if isinstance(size, int) and size % left == 0 else None))
                left = 1
            elif isinstance(size, int) and left % size == 0:
                found.append(Pattern(0, tuple(r % size for r in residues)))
                inner, left = inner * size, left // size
            else:
                return None
        return [self.apart(p, self.sizes[r], lanes) if r == self.run else p for r, p in enumerate(found[::-1])]

    def apart(self, pattern: Pattern, size: Int, lanes: int) -> Pattern:
        """The same with the iterations that a thread does: ``size`` from one to the next."""
        width = lanes // self.schedule.across
        return replace(pattern, residues=tuple(r + i // width * size for i, r in enumerate(pattern.residues)))

    def pattern(self, at: Access, lanes: int) -> Pattern | None:
        """What is known of where the lanes of a vector are in memory."""
        if self.run is None and self.flat(at):
            found = Pattern(lanes, tuple(range(lanes)))
        else:
            runs, found = self.run_patterns(lanes), Pattern(0, (0,) * lanes)
            for run, stride in zip(runs or [], self.point.run_strides(at)):
                if not isinstance(stride, int) and not run.same:
                    return None
                found = found.plus(run.times(stride) if isinstance(stride, int) else uniform(lanes).times(divisor(stride)))
            if runs is None:
                return None
        offset = at.offset
        return found.plus(Pattern(0, (offset,) * lanes) if isinstance(offset, int) else uniform(lanes).times(divisor(offset)))

    # What is done there.

    def load(self, start: Integer, lanes: int) -> list[ir.Value | None]:
        if self.point.parts and not lanes:
            return self.load_beside(start)
        return [None if at is None else self.read(at, start, lanes) for at in self.point.sources]

    def read(self, at: Access, start: Integer, lanes: int) -> ir.Value:
        buffer = self.buffers[at.argument]
        if not lanes:
            return load(self.ints, buffer, self.offset(at, start), at.element)
        if (pattern := self.pattern(at, lanes)) is not None:
            return load_lanes(self.ints, buffer, self.offset(at, start), pattern, at.element, product(at.shape))
        return join([load(self.ints, buffer, offset, at.element) for offset in self.lane_offsets(at, start, lanes)])

    def load_beside(self, start: Integer) -> list[ir.Value | None]:
        """The same of one point, of which operands may be neighbours."""
        found: list[ir.Value | None] = [None] * len(self.point.sources)
        for group in side_by_side(self.point.sources):
            at, width = self.point.sources[group[0]], len(group)
            if width == 1:
                found[group[0]] = self.read(at, start, 0)
                continue
            together = load_vector(self.ints, self.buffers[at.argument], self.offset(at, start), at.element, width, width)
            for number, value in zip(group, lanes_of(together)):
                found[number] = value
        return found

    def store_beside(self, start: Integer, values: list[ir.Value]) -> None:
        for group in side_by_side(self.point.destinations):
            at, width = self.point.destinations[group[0]], len(group)
            buffer, first = self.buffers[at.argument], self.offset(at, start)
            if width == 1:
                store(self.ints, values[group[0]], buffer, first)
            else:
                store_vector(self.ints, join([values[n] for n in group]), buffer, first, width)

    def store(self, start: Integer, lanes: int, values: list[ir.Value]) -> None:
        if self.point.parts and not lanes:
            self.store_beside(start, values)
            return
        for at, value in zip(self.point.destinations, values):
            buffer = self.buffers[at.argument]
            if not lanes:
                store(self.ints, value, buffer, self.offset(at, start))
                continue
            value, pattern, width = as_vector(value, lanes), self.pattern(at, lanes), self.schedule.vector
            first = self.offset(at, start)
            if pattern is not None and all(r == pattern.residues[i - i % width] + i % width for i, r in enumerate(pattern.residues)):
                begin = pattern.residues[0]
                for i in range(0, lanes, width):
                    part = value if width == lanes else join(lanes_of(value)[i:i + width])
                    aligned = gcd(pattern.modulus, pattern.residues[i], width)
                    store_vector(self.ints, part, buffer, first, aligned, pattern.residues[i] - begin)
                continue
            beside = [self.ints.add(first, r - pattern.residues[0]) for r in pattern.residues] if pattern else self.lane_offsets(at, start, lanes)
            for x, where in zip(lanes_of(value), beside):
                store(self.ints, x, buffer, where)

    def body(self, start: Integer, lanes: int, values: list[ir.Value | None]) -> list[ir.Value]:
        return inline_body(
            self.point.block, [v if v is not None else _unused() for v in values], self.indices(start, lanes), lanes,
            {"tensor.extract": self.extract}, self.point.outside(self.buffers), lambda *a: self.branches.emit(lanes, *a),
            NarrowLanes(Patterns(self.branches.patterns.known, strict=True), lanes) if lanes else None,
        )

    def indices(self, start: Integer, lanes: int) -> list[ir.Value]:
        """For ``linalg.index``: each loop's coordinate, a vector where the lanes differ in it."""
        if not walk(self.point.generic, "linalg.index"):
            return []
        patterns = self.dim_patterns(lanes) if lanes else []
        lane = self.coordinates(start, lanes if None in patterns else 1)
        first = lane[0]
        if not lanes:
            return [self.ints.index(c) for c in first]
        found = []
        for d, (x, pattern) in enumerate(zip(first, patterns)):
            if pattern is None:
                found.append(join([self.ints.index(c[d]) for c in lane]))
            elif pattern.same:
                found.append(self.ints.index(x))
            else:
                found.append(join([self.ints.index(self.ints.add(x, r - pattern.residues[0])) for r in pattern.residues]))
        self.branches.patterns = Patterns({v: p for v, p in zip(found, patterns) if p is not None})
        self.loops = {v: d for d, v in enumerate(found)}
        self.first, self.places, self.begins = first, ClampedPlaces(patterns), {}
        return found

    def dim_patterns(self, lanes: int) -> list[Pattern | None]:
        """The coordinates of a vector's lanes in each loop; None where they are not known."""
        found: list[Pattern | None] = [Pattern(0, (0,) * lanes)] * len(self.point.sizes)
        runs = self.run_patterns(lanes) or [None] * len(self.point.runs)
        for r, (dims, pattern) in enumerate(zip(self.point.runs, runs)):
            if r == self.run:  # whole inner loops apart
                pattern = uniform(lanes)
            for d in reversed(dims[1:]):
                size = self.point.sizes[d]
                if pattern is not None and pattern.same and not isinstance(size, int):
                    found[d], pattern = uniform(lanes), uniform(lanes)
                else:
                    known = pattern is not None and isinstance(size, int)
                    found[d], pattern = (pattern.modulo(size), pattern.over(size)) if known else (None, None)
            found[dims[0]] = pattern if r != self.run else self.apart(pattern, self.point.sizes[dims[0]] // self.schedule.across, lanes)
        return found

    def coordinates(self, start: Integer, lanes: int) -> list[list[Integer]]:
        """Of each point from ``start`` on."""
        ints, runs = self.ints, self.point.runs
        order = [d for run in runs for d in run]
        sizes = [[self.point.sizes[d] for d in run] for run in runs]
        box = [s // self.schedule.across if r == self.run and i == 0 else s for r, each in enumerate(sizes) for i, s in enumerate(each)]

        def split(point: Integer) -> list[Integer]:
            return [x for each, c in zip(sizes, ints.split(point, self.sizes)) for x in ints.split(c, each)]

        def by_loops(place: Sequence[Integer]) -> list[Integer]:
            at = dict(zip(order, place))
            return [at.get(d, 0) for d in range(len(self.point.sizes))]

        return [by_loops(place) for place in lane_places(ints, start, lanes, self.schedule.vector, box, split)]


def _unused() -> ir.Value:
    """Stands for an argument that the body does not read."""
    return arith.constant(ir.IntegerType.get_signless(1), 0)

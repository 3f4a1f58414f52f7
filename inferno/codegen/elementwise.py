"""Elementwise kernels on the gpu, vector, memref and arith dialects: a flat grid over the points of the destination."""

from dataclasses import dataclass, field

from inferno.codegen.elements import as_vector, join, lanes_of, load, load_vector, splat, splat_number, store, store_vector
from inferno.codegen.expand_math import expand_math
from inferno.codegen.gpu_function import Buffer, gpu_function, integers_for, parameters_of
from inferno.codegen.inline import inline_body
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.launcher import launch, launcher, parameter
from inferno.codegen.transposing import Transposing, shared_arrays
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, owner, scf, walk
from inferno.passes.shapes import shape
from inferno.schedule.accesses import Access, row_major
from inferno.schedule.elementwise import Elementwise, transposed
from inferno.schedule.pointwise import Pointwise, parse_pointwise
from inferno.symbolic import ceildiv, reach
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Elementwise, target: Target) -> None:
    """Add the ``gpu.module`` of an elementwise kernel and make ``kernel`` its launcher."""
    point = parse_pointwise(kernel)
    if point is None:
        raise CompileError(f"@{kernel.name.value} is not an elementwise kernel")
    expand_math(point.generic)
    buffers = parameters_of(kernel, {d.argument for d in point.destinations})
    if schedule.tile:
        _generate_transposing(kernel, schedule, point, buffers)
        return
    block_points = schedule.threads * schedule.vector * schedule.unroll
    blocks = ceildiv(point.points, block_points)
    width = 32 if max(reach(blocks * block_points), *(b.count for b in buffers if b is not None)) < 2**31 else 64
    name = kernel.name.value
    with gpu_function(kernel, buffers, schedule.threads) as function:
        _Emitter(point, schedule, integers_for(kernel, width, function.buffers), function.buffers).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


def _generate_transposing(kernel: func.FuncOp, schedule: Elementwise, point: Pointwise, buffers: list[Buffer | None]) -> None:
    found = transposed(point)
    if found is None:
        raise CompileError(f"@{kernel.name.value} has no transposed input; its schedule must have tile = 0")
    across, numbers = found
    width, name = 32 if max(b.count for b in buffers if b is not None) < 2**30 else 64, kernel.name.value
    with gpu_function(kernel, buffers, schedule.threads, shared_arrays(point, numbers, schedule.tile)) as function:
        ints = integers_for(kernel, width, function.buffers)
        emitter = Transposing(point, schedule, across, numbers, ints, function.buffers, function.shared)
        emitter.emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (emitter.blocks(), 1, 1), (schedule.threads, 1, 1))


@dataclass
class _Emitter:
    point: Pointwise
    schedule: Elementwise
    ints: Integers
    buffers: list[ir.Value]
    consecutive: list[ir.Value] = field(default_factory=list)  # vectors of indices that count up by one

    def emit(self) -> None:
        """``unroll`` vectors a thread, then the points that are left over when vectors do not divide them, one a thread."""
        ints, s = self.ints, self.schedule
        index = ir.IndexType.get()
        thread = ints.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=s.threads, results=[index]).result)
        block = ints.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[index]).result)
        vectors, left = self.point.points // s.vector, self.point.points % s.vector
        first = ints.add(ints.mul(block, s.threads * s.unroll), thread)
        if vectors % (s.threads * s.unroll) == 0 and left == 0:  # (what is left over may take a block of its own)
            self.vectors(first, range(s.unroll))
        elif s.unroll == 1:
            self.guarded(first, vectors)
        else:
            # Blocks that are full issue all their loads before the first use; only the last one takes guards.
            whole = scf.IfOp(ints.less(ints.mul(block, s.threads * s.unroll), vectors - s.threads * s.unroll + 1)
                             if vectors >= s.threads * s.unroll else splat(ir.IntegerType.get_signless(1), 0), has_else=True)
            with ir.InsertionPoint(whole.then_block):
                self.vectors(first, range(s.unroll))
                scf.yield_([])
            with ir.InsertionPoint(whole.else_block):
                for u in range(s.unroll):
                    self.guarded(ints.add(first, u * s.threads), vectors)
                scf.yield_([])
        if left != 0:
            begin = self.point.points - left
            some = scf.IfOp(ints.less(ints.add(ints.mul(block, s.threads), thread), left))
            with ir.InsertionPoint(some.then_block):
                self.points(ints.add(ints.add(ints.mul(block, s.threads), thread), begin), 0)
                scf.yield_([])

    def guarded(self, vector: Integer, vectors: int) -> None:
        inside = scf.IfOp(self.ints.less(vector, vectors))
        with ir.InsertionPoint(inside.then_block):
            self.vectors(vector, range(1))
            scf.yield_([])

    def vectors(self, vector: Integer, steps: range) -> None:
        """The vectors with numbers ``vector + u * threads``: all loads, then all bodies, then all stores."""
        s = self.schedule
        lanes = s.vector if s.vector > 1 else 0
        starts = [self.ints.mul(self.ints.add(vector, u * s.threads), s.vector) for u in steps]
        loaded = [self.load(start, lanes) for start in starts]
        results = [self.body(start, lanes, values) for start, values in zip(starts, loaded)]
        for start, values in zip(starts, results):
            self.store(start, lanes, values)

    def points(self, start: Integer, lanes: int) -> None:
        self.store(start, lanes, self.body(start, lanes, self.load(start, lanes)))

    # Where a point lies.

    def together(self, lanes: int) -> bool:
        """Whether the lanes of a vector lie in one row, so that they differ in the innermost coordinate only."""
        sizes = self.point.run_sizes
        return lanes <= 1 or len(sizes) <= 1 or sizes[-1] % lanes == 0

    def offset(self, at: Access, start: Integer) -> Integer:
        if self.point.flat(at):
            return self.ints.add(start, at.offset)
        return self.ints.dot(self.ints.split(start, self.point.run_sizes), self.point.run_strides(at), at.offset)

    def alignment(self, at: Access, lanes: int) -> int:
        """Neighbouring elements that are aligned together: the largest power of 2 that divides where vectors begin."""
        aligned = 1
        strides = () if self.point.flat(at) else self.point.run_strides(at)[:-1]
        while aligned < lanes and all(x % (2 * aligned) == 0 for x in (at.offset, *strides)):
            aligned *= 2
        return aligned

    def contiguous(self, at: Access, lanes: int) -> bool:
        """Whether the lanes of a vector are neighbours in memory."""
        if self.point.flat(at):
            return True
        return self.together(lanes) and bool(self.point.runs) and self.point.run_strides(at)[-1] == 1

    def lane_offsets(self, at: Access, start: Integer, lanes: int) -> list[Integer]:
        if self.together(lanes):
            first, step = self.offset(at, start), self.point.run_strides(at)[-1] if self.point.runs else 0
            return [self.ints.add(first, i * step) for i in range(lanes)]
        return [self.offset(at, self.ints.add(start, i)) for i in range(lanes)]

    # What is done there.

    def load(self, start: Integer, lanes: int) -> list[ir.Value | None]:
        return [None if at is None else self.read(at, start, lanes) for at in self.point.sources]

    def read(self, at: Access, start: Integer, lanes: int) -> ir.Value:
        buffer = self.buffers[at.argument]
        if not lanes:
            return load(self.ints, buffer, self.offset(at, start), at.element)
        if self.contiguous(at, lanes):
            return load_vector(self.ints, buffer, self.offset(at, start), at.element, lanes, self.alignment(at, lanes))
        if self.together(lanes) and (not self.point.runs or self.point.run_strides(at)[-1] == 0):
            return load(self.ints, buffer, self.offset(at, start), at.element)
        return join([load(self.ints, buffer, x, at.element) for x in self.lane_offsets(at, start, lanes)])

    def store(self, start: Integer, lanes: int, values: list[ir.Value]) -> None:
        for at, value in zip(self.point.destinations, values):
            buffer = self.buffers[at.argument]
            if not lanes:
                store(self.ints, value, buffer, self.offset(at, start))
                continue
            value = as_vector(value, lanes)
            if self.contiguous(at, lanes):
                store_vector(self.ints, value, buffer, self.offset(at, start), self.alignment(at, lanes))
            else:
                for x, where in zip(lanes_of(value), self.lane_offsets(at, start, lanes)):
                    store(self.ints, x, buffer, where)

    def body(self, start: Integer, lanes: int, values: list[ir.Value | None]) -> list[ir.Value]:
        return inline_body(
            self.point.block, [v if v is not None else _unused() for v in values], self.indices(start, lanes), lanes,
            {"tensor.extract": self.extract}, self.point.outside(self.buffers), self.one_condition if self.point.pieces else None,
        )

    def one_condition(self, condition: ir.Value) -> ir.Value | None:
        """The condition of one lane where it is that of all: whether a coordinate is below where a piece ends."""
        if not isinstance(condition.type, ir.VectorType):
            return condition
        compare = owner(condition)
        counts = compare is not None and compare.name == "arith.cmpi" and self.counts(compare.operands[0]) and splat_number(compare.operands[1])
        return lanes_of(condition)[0] if counts and counts % condition.type.shape[0] == 0 else None

    def counts(self, value: ir.Value) -> bool:
        """Whether a vector counts up by one, from a multiple of its length."""
        op = owner(value)
        while value not in self.consecutive and op is not None and op.name in ("arith.addi", "arith.subi"):
            step = splat_number(op.operands[1])
            if step is None or step % value.type.shape[0]:
                return False
            value, op = op.operands[0], owner(op.operands[0])
        return value in self.consecutive

    def indices(self, start: Integer, lanes: int) -> list[ir.Value]:
        """For ``linalg.index``: each loop's coordinate, a vector where the lanes differ in it."""
        if not walk(self.point.generic, "linalg.index"):
            return []
        if not lanes:
            return [self.ints.index(c) for c in self.coordinates(start)]
        lane = [self.coordinates(self.ints.add(start, i)) for i in range(lanes)]
        same = [c for c in range(len(self.point.sizes)) if self.uniform(c, lanes)]
        found = [self.ints.index(lane[0][d]) if d in same else join([self.ints.index(c[d]) for c in lane])
                 for d in range(len(self.point.sizes))]
        self.consecutive = [found[d] for d in range(len(found)) if d not in same and self.innermost(d, lanes)]
        return found

    def innermost(self, dim: int, lanes: int) -> bool:
        """Whether the lanes of a vector differ in this loop alone."""
        return bool(self.point.runs) and dim == self.point.runs[-1][-1] and self.point.sizes[dim] % lanes == 0

    def uniform(self, dim: int, lanes: int) -> bool:
        """Whether all lanes of a vector have the same coordinate in this loop."""
        last = self.point.runs[-1][-1] if self.point.runs else None
        return self.point.sizes[dim] == 1 or (dim != last and self.innermost(last, lanes))

    def coordinates(self, point: Integer) -> list[Integer]:
        found: list[Integer] = [0] * len(self.point.sizes)
        for run, c in zip(self.point.runs, self.ints.split(point, self.point.run_sizes)):
            for d, x in zip(run, self.ints.split(c, [self.point.sizes[d] for d in run])):
                found[d] = x
        return found

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """``tensor.extract`` from a table, which is a kernel argument; a whole vector of a row where the lanes are neighbours."""
        argument = dict((v, a) for v, a in self.point.tables)[op.operands[0]]
        table, buffer, where = ir.RankedTensorType(op.operands[0].type), self.buffers[argument], operands[1:]
        sizes = shape(op.operands[0])
        strides, element = row_major(sizes), table.element_type
        vectors = [v for v in where if isinstance(v.type, ir.VectorType)]
        if not vectors:
            return load(self.ints, buffer, self.ints.dot([self.ints.narrow(v) for v in where], strides), element)
        lanes = ir.VectorType(vectors[0].type).shape[0]
        if vectors == where[-1:] and self.counts(vectors[0]) and sizes[-1] % lanes == 0:
            first = [self.ints.narrow(lanes_of(v)[0]) for v in where]
            return load_vector(self.ints, buffer, self.ints.dot(first, strides), element, lanes, lanes)
        each = [[lanes_of(v)[i] if v in vectors else v for v in where] for i in range(lanes)]
        return join([
            load(self.ints, buffer, self.ints.dot([self.ints.narrow(v) for v in at], strides), element) for at in each
        ])


def _unused() -> ir.Value:
    """Stands for an argument that the body does not read."""
    return arith.constant(ir.IntegerType.get_signless(1), 0)

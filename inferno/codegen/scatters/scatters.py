"""Scatters of single elements into rows that fit into shared memory.

A block brings what its rows begin as to shared memory, puts every element that goes to them in place there, or adds it, and writes them to memory: each
line once, where updates of memory would go to the L2 cache one by one.  Sums of 16-bit floats are rounded at the end.
"""

from dataclasses import dataclass
from math import gcd

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, load_vector, splat, store_vector
from inferno.codegen.builders.gpu_function import gpu_function, index_width, parameters_of
from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.nvvm.shuffles import exchange, from_lane
from inferno.codegen.scatters.flat_elements import Reader
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, memref, nvvm, scf
from inferno.scatter_limits import SHARED
from inferno.schedule.scatters.kernel import ScatterKernel, parse_scatter
from inferno.schedule.scatters.scatters import Scatters, held, takes
from inferno.target import Target

# MLIR's numbers of atomic operations.
_ATOMIC = {"arith.addf": 0, "arith.addi": 1, "arith.maxsi": 6, "arith.minsi": 10}
_MANY = 3  # elements of a warp for one place that are added by shuffles


def generate(kernel: func.FuncOp, schedule: Scatters, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that scatters, and make ``kernel`` its launcher."""
    c, name = parse_scatter(kernel), kernel.name.value
    if c is None or not takes(c):
        raise CompileError(f"@{name} is no scatter into rows")
    rows, type_ = c.rows, held(c)
    if schedule.columns > rows.inner or schedule.columns * rows.places * type_.width // 8 > SHARED:
        raise CompileError(f"@{name}: the rows of {schedule} do not fit")
    if schedule.vector > 1 and (rows.inner > 1 or rows.updates % schedule.vector):
        raise CompileError(f"@{name}: {schedule} has updates of two rows together")
    buffers = parameters_of(kernel, {c.target})
    ints = Integers(index_width(buffers))
    with gpu_function(kernel, buffers, schedule.threads, [(schedule.columns * rows.places, type_)]) as function:
        _Emitter(c, schedule, ints, function.buffers, function.shared[0]).emit()
    with launcher(kernel) as arguments:
        grid = rows.outer * -(-rows.inner // schedule.columns)
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (grid, 1, 1), (schedule.threads, 1, 1))


@dataclass
class _Emitter:
    c: ScatterKernel
    schedule: Scatters
    ints: Integers
    buffers: list[ir.Value]
    shared: ir.Value

    def emit(self) -> None:
        ints, s, rows = self.ints, self.schedule, self.c.rows
        self.thread = ints.thread(s.threads)
        block = ints.block()
        self.row, tile = ints.split(block, [rows.outer, -(-rows.inner // s.columns)])
        self.column = ints.mul(tile, s.columns)  # the first one
        self.first = ints.add(ints.mul(self.row, rows.places * rows.inner), self.column)  # the number of the first result
        self.held = held(self.c)
        self.lines(self.begin)
        gpu.barrier()
        self.updates()
        gpu.barrier()
        self.lines(self.end)

    # The rows, as they begin and as they end.

    def lines(self, move) -> None:
        """``move(place in shared memory, place in memory, elements)`` of all elements of the rows, each by one thread."""
        ints, s, rows = self.ints, self.schedule, self.c.rows
        width, height = (s.columns, rows.places) if rows.inner > 1 else (rows.places, 1)
        lanes = gcd(16 // max(1, self.c.element.width // 8), width, rows.inner if rows.inner > 1 else width)
        count = width * height // lanes

        def body(number: Integer) -> None:
            line, along = ints.split(number, [height, width // lanes])
            at = ints.add(self.first, ints.add(ints.mul(line, rows.inner), ints.mul(along, lanes)))

            with only_if(self.is_row(ints.mul(along, lanes))):
                move(ints.mul(number, lanes), at, lanes)

        self.each(count, body)

    def is_row(self, column: Integer) -> ir.Value | None:
        """Whether the block's ``column``-th row is one, where it may be none."""
        ints, rows = self.ints, self.c.rows
        return ints.less(ints.add(self.column, column), rows.inner) if rows.inner % self.schedule.columns else None

    def begin(self, place: Integer, at: Integer, lanes: int) -> None:
        if isinstance(self.c.start, int):
            value = self.widen(load_vector(self.ints, self.buffers[self.c.start], at, self.c.element, lanes, lanes))
        else:
            number = self.c.start.value if isinstance(self.held, ir.FloatType) else int(self.c.start.value)
            value = as_vector(splat(self.held, number), lanes)
        self.keep(value, place, lanes)

    def keep(self, value: ir.Value, place: Integer, lanes: int) -> None:
        store_vector(self.ints, value, self.shared, place, lanes)

    def end(self, place: Integer, at: Integer, lanes: int) -> None:
        value = self.narrow(load_vector(self.ints, self.shared, place, self.held, lanes, lanes))
        store_vector(self.ints, value, self.buffers[self.c.target], at, lanes)

    # What goes to them.

    def updates(self) -> None:
        ints, s, rows = self.ints, self.schedule, self.c.rows
        width = s.columns if rows.inner > 1 else 1
        count, step = rows.updates * width, s.vector * s.unroll

        def body(number: Integer, guess: ir.Value | None) -> ir.Value | None:
            found = []
            for i in range(s.unroll):
                # A block's threads take neighbours, ``unroll`` times one after the other.
                first = ints.mul(ints.add(ints.mul(number, s.unroll), ints.add(ints.mul(i, s.threads), self.thread)), s.vector)
                last = count % (s.threads * step)
                there = ints.less(first, count) if last else None
                first = ints.min(first, count - s.vector) if last else first
                found += [(*each, there) for each in self.take(first, width)]
            for value, slot, inside, there in found:
                inside = inside if there is None else arith.andi(there, inside)
                if self.adds_floats:
                    value = self.widen(value)
                    inside, guess = self.but_for_many(value, slot, inside, guess)
                with only_if(inside):
                    self.put(value, slot)
            return guess

        with only_if(ints.less(self.row, rows.filled) if rows.filled < rows.outer else None):
            begin = [arith.constant(ir.IntegerType.get_signless(32), 0)] if self.adds_floats else []
            loop = scf.ForOp(ints.value(0), ints.value(-(-count // step)), ints.value(s.threads), begin)
            with ir.InsertionPoint(loop.body):
                guess = body(loop.induction_variable, *(loop.inner_iter_args or [None]))
                scf.YieldOp([guess] if begin else [])

    def take(self, number: Integer, width: int) -> list[tuple[ir.Value, Integer, ir.Value]]:
        """The elements from the ``number``-th on that go to the block's rows: what each is, where that is in shared memory, and whether it is there."""
        ints, rows = self.ints, self.c.rows
        line, column = ints.split(number, [rows.updates, width])
        at = ints.add(ints.mul(ints.add(ints.mul(self.row, rows.updates), line), rows.inner), ints.add(self.column, column))
        is_row = self.is_row(column)
        at = at if is_row is None else ints.min(at, rows.filled * rows.updates * rows.inner - 1)
        first, found, reader = ints.value(ints.add(self.first, column)), [], Reader(ints, self.buffers, self.schedule.vector)
        for target, value in zip(reader.read(self.c.targets, at), reader.read(self.c.updates, at)):
            # In the place's own width: one far outside could be one inside in another.
            target = arith.subi(target, resize(first, target.type.width))
            inside = arith.cmpi(arith.CmpIPredicate.ult, target, arith.constant(target.type, rows.places * rows.inner))
            slot = ints.add(ints.mul(ints.div(resize(target, ints.width), rows.inner), width), column)
            found.append((value, slot, inside if is_row is None else arith.andi(is_row, inside)))
        return found

    @property
    def adds_floats(self) -> bool:
        return self.c.combiner is not None and isinstance(self.held, (ir.F32Type, ir.F64Type))

    def but_for_many(self, value: ir.Value, slot: Integer, inside: ir.Value, guess: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Add together what a warp has for the place ``guess``, if that is much; whether a thread's own is yet to be added, and the next guess.

        Shared memory adds floats by trying again until no other thread was faster: all of 33.5M for one place of a row took 3 ms, for any 127 us."""
        i32 = ir.IntegerType.get_signless(32)
        slot = self.ints.value(slot)
        mine = arith.select(inside, slot if slot.type == i32 else arith.trunci(i32, slot), arith.constant(i32, -1))
        same = arith.andi(inside, arith.cmpi(arith.CmpIPredicate.eq, mine, guess))
        count = nvvm.ReduxOp(arith.extui(i32, same), nvvm.ReductionKind.ADD, arith.constant(i32, -1), results=[i32]).operation.results[0]
        many = arith.cmpi(arith.CmpIPredicate.uge, count, arith.constant(i32, _MANY))
        with only_if(many):
            total = arith.select(same, value, splat(value.type, 0))
            for distance in (16, 8, 4, 2, 1):
                total = arith.addf(total, exchange(total, distance))
            first = self.ints.equal(self.ints.rem(self.thread, 32), 0)
            place = guess if self.ints.type == i32 else arith.extui(self.ints.type, guess)
            with only_if(first):
                self.put(total, place)
        left = arith.andi(inside, arith.xori(arith.andi(many, same), splat(ir.IntegerType.get_signless(1), 1)))
        return left, arith.select(many, guess, from_lane(mine, 0))

    def put(self, value: ir.Value, slot: Integer) -> None:
        at = [self.ints.index(slot)]
        value = self.widen(value)
        if self.c.combiner is None:
            memref.store(value, self.shared, at)
            return
        kind = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ATOMIC[self.c.combiner.name])
        memref.AtomicRMWOp(kind, value, self.shared, at)

    # Loops and conversions.

    def each(self, count: int, body) -> None:
        """``body(number)`` of all numbers below ``count``, by the threads of the block."""
        ints, threads = self.ints, self.schedule.threads
        loop = scf.ForOp(self.thread, ints.value(count), ints.value(threads), [])
        with ir.InsertionPoint(loop.body):
            body(loop.induction_variable)
            scf.YieldOp([])

    def widen(self, value: ir.Value) -> ir.Value:
        """As it is in shared memory."""
        type_ = _like(value, self.held)
        if value.type == type_:
            return value
        if isinstance(self.held, ir.IntegerType):
            return (arith.extui if self.c.element.width == 1 else arith.extsi)(type_, value)
        return arith.extf(type_, value)

    def narrow(self, value: ir.Value) -> ir.Value:
        """As it is in memory."""
        type_ = _like(value, self.c.element)
        if value.type == type_:
            return value
        return arith.trunci(type_, value) if isinstance(self.held, ir.IntegerType) else arith.truncf(type_, value)


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    return ir.VectorType.get([value.type.shape[0]], element) if isinstance(value.type, ir.VectorType) else element

"""The loops of a nest: what is computed for each item, row, column or tile of it, vectorized by LLVM."""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.inline import inline_body
from inferno.codegen.cpu.loop_operands import Operand, Result, operand_of_dense
from inferno.codegen.cpu.loop_order import Run
from inferno.codegen.cpu.loop_ranges import emit_strips, has_ranged
from inferno.codegen.cpu.running_values import combine, identity, narrow, widen
from inferno.mlir import affine, arith, ir, is_read, memref, scf, walk
from inferno.passes.generics import maps
from inferno.passes.shapes import shape
from inferno.schedule.reductions.extrema import Extremum
from inferno.symbolic import Int

# LLVM counts lanes by the running value's 8 bytes and would compute the terms, which are float32, in half registers.  Of fewer terms it says that it cannot.
_LANES = 16
_WIDE = f"#llvm.loop_annotation<vectorize = <disable = false, width = {_LANES} : i32>>"
_STRIP = 64  # elements of a row of a tile: with a line's worth of rows, both sides stay in the L1 cache


class Emitter:
    """Builds the loops of one ``Nest`` at the insertion point."""

    def __init__(self, nest, flat, scalar, partials, local: dict[ir.Value, set[int]] | None = None) -> None:
        self.nest, self.order = nest, nest.order
        self.flat, self.scalar, self.partials, self.local = flat, scalar, partials, local or {}
        self.index = ir.IndexType.get()
        self.ivs: dict[tuple[int, ...], ir.Value] = {}  # by the run's dims

    def constant(self, value: Int) -> ir.Value:
        return arith.constant(self.index, value) if isinstance(value, int) else self.nest.numbers(value)

    def run(self, begin: ir.Value, end: ir.Value) -> None:
        if 0 in self.nest.sizes and not self.nest.reduces:
            return
        self.outer_loop(begin, end, self.item)

    def outer_loop(self, begin: ir.Value, end: ir.Value, body: Callable[[ir.Value], None]) -> None:
        loop = scf.ForOp(begin, end, self.constant(1))
        with ir.InsertionPoint(loop.body):
            body(loop.induction_variable)
            scf.YieldOp([])

    def item(self, number: ir.Value) -> None:
        order, places = self.order, []
        for i, size in enumerate(reversed(order.items)):
            last = i == len(order.items) - 1
            places.insert(0, number if last else arith.remui(number, self.constant(size)))
            number = number if last else arith.divui(number, self.constant(size))
        part = places.pop() if order.parts > 1 else None
        for run, place in zip(order.runs, places):
            self.ivs[run.dims] = place
        low = high = None
        if order.blocked is not None:
            low = arith.muli(places[-1], self.constant(order.block))
            high = arith.minui(arith.addi(low, self.constant(order.block)), self.constant(order.blocked.size))
        self.nested(order.outer, lambda: self.inside(low, high, part))

    def nested(self, runs: Sequence[Run], body: Callable[[], None]) -> None:
        if not runs:
            body()
            return

        def step(iv: ir.Value) -> None:
            self.ivs[runs[0].dims] = iv
            self.nested(runs[1:], body)

        self.outer_loop(self.constant(0), self.constant(runs[0].size), step)

    def inside(self, low, high, part) -> None:
        order = self.order
        if self.nest.reduces:
            (self.columns if order.columns else self.rows)(low, high, part)
        elif order.tile is not None:
            self.tile(low, high)
        elif order.blocked is not None:
            self.points(order.blocked, low, high)
        elif order.inner is not None:
            self.points(order.inner, self.constant(0), self.constant(order.inner.size))
        else:
            self.point()

    def points(self, run: Run, low: ir.Value, high: ir.Value) -> None:
        if not has_ranged(self.nest.block):
            self.along(run, low, high, self.point)
            return

        def step(emit: Callable[[dict], object]) -> Callable[[ir.Value, dict], None]:
            def at(iv: ir.Value, custom: dict) -> None:
                self.ivs[run.dims] = iv
                emit(custom)

            return at

        emit_strips(low, high, step(self.point), step(self.values))

    def along(self, run: Run, low: ir.Value, high: ir.Value, body: Callable[[], None]) -> None:
        def step(iv: ir.Value) -> None:
            self.ivs[run.dims] = iv
            body()

        self.outer_loop(low, high, step)

    def tile(self, low: ir.Value, high: ir.Value) -> None:
        run = self.order.tile
        strips = scf.ForOp(self.constant(0), self.constant(run.size), self.constant(_STRIP))
        with ir.InsertionPoint(strips.body):
            first = strips.induction_variable
            last = arith.minui(arith.addi(first, self.constant(_STRIP)), self.constant(run.size))
            self.along(self.order.blocked, low, high, lambda: self.along(run, first, last, self.point))
            scf.YieldOp([])

    def point(self, custom: dict | None = None) -> None:
        """One element of every result of an elementwise operation."""
        values = self.values(custom)
        for result in self.nest.results:
            if result.stored:
                memref.store(values[result.number], self.flat(result.operand.root), [self.place(result.operand)])

    def values(self, custom: dict | None = None) -> list[ir.Value | None]:
        arguments = [self.load(o) for o in self.nest.inputs]
        block = self.nest.block
        running: dict[int, ir.Value | None] = {}
        for result in self.nest.results:
            read = is_read(block.arguments[len(arguments) + result.number])
            running[result.number] = (self.start(result) if result.start is not None else self.load(result.operand)) if read else None
        return self.body(arguments, running, custom)

    def body(self, arguments: list[ir.Value], running: dict[int, ir.Value | None], custom: dict | None = None) -> list[ir.Value | None]:
        block = self.nest.block
        indices = [self.dim(d) for d in range(len(self.nest.sizes))] if walk(self.nest.op, "linalg.index") else ()
        outs = [running.get(i) for i in range(len(block.arguments) - len(arguments))]
        return [None if v is None else self.scalar(v) for v in inline_body(block, [*arguments, *outs], indices, custom=custom)]

    def rows(self, low, high, part) -> None:
        """A running value for each result, around the reduction's loops."""
        order, results = self.order, self.nest.results
        if self.nest.extremum is not None:
            self.extremum(self.nest.extremum)
            return
        start = [self.identity(r) if order.parts > 1 else self.initial(r) for r in results]
        values = self.reduce(list(order.reduction), start, part)
        for i, (result, value) in enumerate(zip(results, values)):
            self.finish(i, result, value, part)

    def extremum(self, found: Extremum) -> None:
        """The value in one loop and the first place of it, or of NaN, in a second one: LLVM vectorizes both."""
        run, i32 = self.order.reduction[0], ir.IntegerType.get_signless(32)
        type_ = found.type
        is_float = isinstance(type_, ir.FloatType)

        def along(start: ir.Value, step: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
            loop = scf.ForOp(self.constant(0), self.constant(run.size), self.constant(1), [start])
            with ir.InsertionPoint(loop.body):
                self.ivs[run.dims] = loop.induction_variable
                value = self.body([self.load(o) for o in self.nest.inputs], {})[0]
                scf.YieldOp([step(value, loop.inner_iter_args[0])])
            return loop.results_[0]

        best = along(identity(found.value, type_), lambda value, running: combine(found.value, running, value))

        def first(value: ir.Value, running: ir.Value) -> ir.Value:
            if is_float:
                same = arith.ori(arith.cmpf(arith.CmpFPredicate.OEQ, value, best), arith.cmpf(arith.CmpFPredicate.UNO, value, value))
            else:
                same = arith.cmpi(arith.CmpIPredicate.eq, value, best)
            return arith.minsi(running, arith.select(same, arith.index_cast(i32, self.ivs[run.dims]), arith.constant(i32, (1 << 31) - 1)))

        place = along(arith.constant(i32, (1 << 31) - 1), first)
        place = arith.extsi(found.place, place) if found.place.width > 32 else place
        self.finish(0, self.nest.results[0], best, None)
        self.finish(1, self.nest.results[1], place, None)

    def reduce(self, runs: list[Run], values: list[ir.Value], part: ir.Value | None) -> list[ir.Value]:
        if not runs:
            return self.combined(values)
        low, high = self.part_bounds(runs[0], part)
        loop = scf.ForOp(low, high, self.constant(1), values)
        few = isinstance(runs[0].size, int) and runs[0].size < _LANES
        if len(runs) == 1 and not few and any(isinstance(r.running, ir.F64Type) and r.running != r.element for r in self.nest.results):
            loop.operation.attributes["llvm.loop_annotation"] = ir.Attribute.parse(_WIDE)
        with ir.InsertionPoint(loop.body):
            self.ivs[runs[0].dims] = loop.induction_variable
            scf.YieldOp(self.reduce(runs[1:], list(loop.inner_iter_args), None))
        return list(loop.results_)

    def part_bounds(self, run: Run, part: ir.Value | None) -> tuple[ir.Value, ir.Value]:
        if part is None:
            return self.constant(0), self.constant(run.size)
        size, parts = self.constant(run.size), self.constant(self.order.parts)
        bound = lambda p: arith.divui(arith.muli(p, size), parts)  # noqa: E731
        return bound(part), bound(arith.addi(part, self.constant(1)))

    def combined(self, values: list[ir.Value]) -> list[ir.Value]:
        """The running values after one more point."""
        if 0 in self.nest.sizes:
            return values
        results = self.nest.results
        if self.nest.extremum is not None:
            return self.nest.extremum.combine(values, self.body([self.load(o) for o in self.nest.inputs], {}))
        running = {r.number: None if r.combiner else v for r, v in zip(results, values)}
        new = self.body([self.load(o) for o in self.nest.inputs], running)
        return [combine(r.combiner, v, widen(new[r.number], r.running)) if r.combiner else new[r.number] for r, v in zip(results, values)]

    def columns(self, low, high, part) -> None:
        """A row of running values for each result, which the reduction's loops go over again and again."""
        order, results, column = self.order, self.nest.results, self.order.inner
        count = arith.subi(high, low)
        with ir.InsertionPoint.at_block_begin(self.entry()):
            rows = [memref.AllocaOp(ir.MemRefType.get([order.block], r.running), [], []).memref for r in results]

        def each(body: Callable[[ir.Value], None]) -> None:
            def step(place: ir.Value) -> None:
                self.ivs[column.dims] = arith.addi(low, place)
                body(place)

            self.outer_loop(self.constant(0), count, step)

        def begin(place: ir.Value) -> None:
            for result, row in zip(results, rows):
                memref.store(self.identity(result) if order.parts > 1 else self.initial(result), row, [place])

        def add(place: ir.Value) -> None:
            values = [memref.load(row, [place]) for row in rows]
            for value, row in zip(self.combined(values), rows):
                memref.store(value, row, [place])

        def end(place: ir.Value) -> None:
            for i, (result, row) in enumerate(zip(results, rows)):
                self.finish(i, result, memref.load(row, [place]), part)

        each(begin)
        first, *rest = order.reduction

        def steps(iv: ir.Value) -> None:
            self.ivs[first.dims] = iv
            self.nested(rest, lambda: each(add))

        self.outer_loop(*self.part_bounds(first, part), steps)
        each(end)

    def entry(self) -> ir.Block:
        op = ir.InsertionPoint.current.block.owner
        while op.operation.name != "func.func":
            op = op.operation.parent
        return op.operation.regions[0].blocks[0]

    def finish(self, number: int, result: Result, value: ir.Value, part: ir.Value | None) -> None:
        if self.order.parts > 1:
            size = self.nest.partial_sizes[number][0]
            place = arith.addi(arith.muli(part, self.constant(size)), self.dense_place(result.operand))
            memref.store(value, self.flat(self.partials[number]), [place])
        elif result.stored:
            memref.store(narrow(value, result.element), self.flat(result.operand.root), [self.place(result.operand)])

    def initial(self, result: Result) -> ir.Value:
        return widen(self.start(result), result.running)

    def start(self, result: Result) -> ir.Value:
        return self.scalar(result.start) if result.start is not None else self.load(result.operand)

    def identity(self, result: Result) -> ir.Value:
        return identity(result.combiner, result.running)

    def load(self, operand: Operand) -> ir.Value:
        if operand.root is None:
            return self.scalar(operand.value)
        return memref.load(self.flat(operand.root), [self.place(operand)])

    def place(self, operand: Operand) -> ir.Value:
        """The flat offset of an operand at the loops' current values."""
        if operand.strides is None:
            map_ = ir.AffineMap.get(len(self.nest.sizes), 0, [operand.expr])
            return affine.apply(map_, [self.dim(d) for d in range(len(self.nest.sizes))])
        rows = self.local.get(operand.root, ())
        return self._sum([(operand.strides[dims[-1]], iv) for dims, iv in self.ivs.items() if dims[-1] not in rows], operand.offset)

    def dense_place(self, operand: Operand) -> ir.Value:
        """The same in a contiguous buffer of the operand's shape."""
        dense = operand_of_dense(shape(operand.value), maps(self.nest.op)[list(self.nest.op.operands).index(operand.value)])
        return self._sum([(dense[dims[-1]], iv) for dims, iv in self.ivs.items()], 0)

    def _sum(self, terms: list[tuple[Int, ir.Value]], constant: Int) -> ir.Value:
        total = None
        for stride, iv in terms:
            if stride != 0:
                term = iv if stride == 1 else arith.muli(iv, self.constant(stride))
                total = term if total is None else arith.addi(total, term)
        if total is None:
            return self.constant(constant)
        return arith.addi(total, self.constant(constant)) if constant != 0 else total

    def dim(self, d: int) -> ir.Value:
        iv = self.ivs.get((d,))
        return self.constant(0) if iv is None else iv

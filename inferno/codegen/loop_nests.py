"""A structured operation on buffers as a nest of loops over a range of items, for the CPU.

Every buffer is read and written through a flat view, by an offset and a stride for each loop; LLVM vectorizes the innermost
loop.  Float sums run in float64, which may be added in any order: as exact as a tree of float32, and a vector of partial
sums for LLVM.  (A float32 is converted and added at 8 a cycle, faster than caches deliver them.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inferno.codegen.extrema import Extremum, read_extremum, to_candidate
from inferno.codegen.inline import inline_body
from inferno.codegen.loop_order import Order, Run, merge_runs, order_map, order_reduction
from inferno.codegen.loop_ranges import emit_strips, has_ranged
from inferno.mlir import affine, arith, ir, memref, owner, scf, walk
from inferno.schedule.accesses import iterators, linear, maps
from inferno.schedule.cost import bit_width

_VIEWS = {"memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.expand_shape", "memref.collapse_shape"}
_COMBINERS = {
    "arith.addf", "arith.mulf", "arith.addi", "arith.muli", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf",
    "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.andi", "arith.ori", "arith.xori",
}
# LLVM counts lanes by the running value's 8 bytes and would compute the terms, which are float32, in half registers.
_WIDE = "#llvm.loop_annotation<vectorize = <disable = false, width = 16 : i32>>"
_STRIP = 64  # elements of a row of a tile: with a line's worth of rows, both sides stay in the L1 cache


def root_of(value: ir.Value) -> ir.Value:
    """The buffer that a view is of."""
    while (op := owner(value)) is not None and op.name in _VIEWS:
        value = op.operands[0]
    return value


@dataclass(frozen=True)
class Operand:
    """Where an operand lies in its buffer ``root``: the flat offset as an affine expression of the loops, and, where it is
    linear, as strides and a constant.  A scalar has no root."""

    value: ir.Value
    root: ir.Value | None
    expr: ir.AffineExpr | None
    strides: tuple[int, ...] | None
    offset: int = 0


@dataclass(frozen=True)
class Result:
    """A result: ``combiner`` is the operation that adds a value to the running one, None for any other body; ``running`` is the
    running value's type, wider than ``element`` for float sums.  ``start`` is what it starts from where that is a known
    scalar; ``stored`` is False where nothing reads it."""

    operand: Operand
    number: int
    combiner: str | None
    element: ir.Type
    stored: bool
    running: ir.Type
    start: ir.Value | None = None


def operand_of(value: ir.Value, map_: ir.AffineMap) -> Operand | None:
    """None where the buffer has no static strides."""
    if not isinstance(value.type, ir.MemRefType):
        return Operand(value, None, None, ())
    strides, offset = value.type.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    if unknown in (*strides, offset) or not value.type.has_static_shape:
        return None
    expr = ir.AffineConstantExpr.get(offset)
    for stride, part in zip(strides, map_.results):
        expr = expr + part * stride
    expr = ir.AffineMap.get(map_.n_dims, 0, [expr]).results[0]  # the class of an expression that was simplified
    found = linear(expr, map_.n_dims)
    return Operand(value, root_of(value), expr, *((None, 0) if found is None else found))


class Nest:
    """One structured operation, understood.  ``order`` says which loops threads share."""

    def __init__(self, op: ir.Operation, sizes: Sequence[int], inputs: list[Operand], results: list[Result]) -> None:
        self.op, self.sizes, self.inputs = op, sizes, inputs
        self.results = [r for r in results if r is not None]
        self.block = op.regions[0].blocks[0]
        kinds = iterators(op)
        self.reduces = any(k == "reduction" and s != 1 for k, s in zip(kinds, sizes)) or any(r.combiner for r in self.results)
        operands = [*(o for o in inputs if o.root is not None), *(r.operand for r in self.results)]
        outputs = range(len(operands) - len(self.results), len(operands))
        self._operands = operands
        self._strides = strides = [o.strides for o in operands]
        self._keep = keep = {ir.IntegerAttr(o.attributes["dim"]).value for o in walk(op, "linalg.index")}
        of_kind = lambda kind: [d for d, k in enumerate(kinds) if k == kind]  # noqa: E731
        self._parallel = of_kind("parallel")
        into = self.results[0].operand.strides
        parallel = merge_runs(sorted(of_kind("parallel"), key=lambda d: -into[d]), sizes, strides, keep)
        if not self.reduces:
            widths = [bit_width(o.value.type.element_type) // 8 for o in operands]
            self.order = order_map(parallel, outputs[0], widths)
        else:
            reads = next((o.strides for o in operands if o.strides is not None and any(o.strides[d] for d in of_kind("reduction"))), into)
            self._reduction = reduction = merge_runs(sorted(of_kind("reduction"), key=lambda d: -reads[d]), sizes, strides, keep)
            elements = [math.prod(o.value.type.shape) for o in operands]
            self.order = order_reduction(parallel, reduction, outputs, elements, all(r.combiner for r in self.results))
        self.points = math.prod(sizes)
        self.extremum = self._take_extremum()

    def _take_extremum(self) -> Extremum | None:
        """For the largest or smallest value and its place: the body then yields the candidates."""
        runs = self.order.reduction
        if not self.reduces or len(runs) != 1 or len(runs[0].dims) != 1 or runs[0].size >= 1 << 31 or len(self.results) != 2:
            return None
        if not all(r.number == i and r.start is not None for i, r in enumerate(self.results)) or 0 in self.sizes:
            return None
        count = len(self.inputs)
        self._widen_running(count)
        found = read_extremum(self.block, count, runs[0].dims[0])
        value, place = (owner(r.start) for r in self.results)
        if found is None or any(o is None or o.name != "arith.constant" for o in (value, place)):
            return None
        if value.attributes["value"] != neutral(found.value, value.results[0].type) or ir.IntegerAttr(place.attributes["value"]).value != 0:
            return None
        to_candidate(self.block, count)
        return found

    def _widen_running(self, count: int) -> None:
        """Let the first running value, of 16 bits in memory, be a float32 where the body extends it and rounds its result."""
        running, end = self.block.arguments[count], self.block.operations[len(self.block.operations) - 1].operation
        uses, rounded = [u.owner.operation for u in running.uses], owner(end.operands[0])
        if len(uses) != 1 or uses[0].name != "arith.extf" or rounded is None or rounded.name != "arith.truncf":
            return
        if len(list(rounded.results[0].uses)) != 1 or rounded.operands[0].type != uses[0].results[0].type:
            return
        running.set_type(rounded.operands[0].type)
        uses[0].results[0].replace_all_uses_with(running)
        end.operands[0] = rounded.operands[0]
        for op in (uses[0], rounded):
            op.erase()
        self.results[0] = replace(self.results[0], running=running.type)

    @property
    def extent(self) -> int:
        return self.order.extent

    @property
    def roots(self) -> list[ir.Value]:
        return list(dict.fromkeys(o.root for o in self._operands))

    @property
    def partial_sizes(self) -> list[tuple[int, ir.Type]]:
        """For a reduction that is cut into parts: for each result how many values a part has, and their type."""
        if self.order.parts == 1:
            return []
        return [(math.prod(r.operand.value.type.shape), r.running) for r in self.results]

    def by_rows(self, rows: int) -> tuple[Order, set[int]] | None:
        """The order in which item r does row r of the results, which lie in ``rows`` equal rows, and the loops that count rows.

        None where the results are not cut like that, or where a row's reduction is not one along memory.
        """
        if any(s is None for s in self._strides) or 0 in self.sizes:
            return None
        into = self.results[0].operand.strides
        outer, rest, count = [], [], 1
        for d in sorted((d for d in self._parallel if self.sizes[d] != 1), key=lambda d: -into[d]):
            if count < rows:
                outer.append(d)
                count *= self.sizes[d]
            else:
                rest.append(d)
        if count != rows:
            return None
        runs = merge_runs(outer, self.sizes, self._strides, self._keep)
        inside = merge_runs(rest, self.sizes, self._strides, self._keep)
        items = tuple(r.size for r in runs)
        if not self.reduces:
            return Order(items, tuple(runs), tuple(inside[:-1]), inside[-1] if inside else None), set(outer)
        along = [r for r in self._reduction if all(s in (0, 1) for s in r.strides)]
        if not along:
            return None
        last = max(along, key=lambda r: r.size)
        return Order(items, tuple(runs), tuple(inside), None, (*(r for r in self._reduction if r != last), last)), set(outer)

    def in_rows(self, operand: Operand, rows: int, outer: set[int]) -> bool:
        """Whether row r of ``rows``, which the loops ``outer`` count, touches only the r-th part of the operand's buffer."""
        total = math.prod(operand.root.type.shape)
        if operand.strides is None or operand.offset or total % rows:
            return False
        size = stride = total // rows
        for d in sorted(outer, key=lambda d: self.results[0].operand.strides[d]):
            if operand.strides[d] != stride:
                return False
            stride *= self.sizes[d]
        inner = [(s - 1) * operand.strides[d] for d, s in enumerate(self.sizes) if d not in outer]
        return min(operand.strides, default=0) >= 0 and sum(inner) < size

    def emit_row(self, row: ir.Value, flat: Callable[[ir.Value], ir.Value], scalar: Callable[[ir.Value], ir.Value], local: dict[ir.Value, set[int]]) -> None:
        """Item ``row``, at the insertion point.  ``local``: buffers that hold one row, with the loops that count rows."""
        _Emitter(self, flat, scalar, (), local).item(row)

    @property
    def operands(self) -> list[Operand]:
        """All that have a buffer, the results last."""
        return self._operands

    def emit(self, begin: ir.Value, end: ir.Value, flat: Callable[[ir.Value], ir.Value], scalar: Callable[[ir.Value], ir.Value],
             partials: Sequence[ir.Value] = ()) -> None:
        """The loops, at the insertion point.  ``flat`` gives the one-dimensional view of a root, ``scalar`` what stands for a value of
        outside; ``partials`` are the buffers for ``partial_sizes``."""
        _Emitter(self, flat, scalar, partials).run(begin, end)


def read_nest(op: ir.Operation, starts: dict[ir.Value, ir.Value], dead: Callable[[ir.Value, ir.Operation], bool]) -> Nest | None:
    """Understand a ``linalg.generic`` on buffers; None where its loops cannot be reordered or shared safely.

    ``starts``: buffers that hold a known scalar everywhere; ``dead(buffer, op)``: nothing but ``op`` touches it.
    """
    indexing = maps(op)
    sizes: list[int | None] = [None] * len(iterators(op))
    operands = [operand_of(v, m) for v, m in zip(op.operands, indexing)]
    if any(o is None for o in operands):
        return None
    for value, map_ in zip(op.operands, indexing):
        for size, expr in zip(value.type.shape if isinstance(value.type, ir.MemRefType) else (), map_.results):
            if isinstance(expr, ir.AffineDimExpr):
                sizes[ir.AffineDimExpr(expr).position] = size
    if any(s is None for s in sizes):
        return None
    block = op.regions[0].blocks[0]
    count = len(op.opview.inputs)
    parallel = [d for d, k in enumerate(iterators(op)) if k == "parallel"]
    outputs = operands[count:]
    for out, map_ in zip(outputs, indexing[count:]):
        places = [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else -1 for e in map_.results]
        covered = {p for p in places if p >= 0 and sizes[p] != 1}
        if out.root is None or len([p for p in places if p >= 0]) != len({p for p in places if p >= 0}) or covered != {d for d in parallel if sizes[d] != 1}:
            return None
    written = [o.root for o in outputs]
    if len(set(written)) != len(written):
        return None
    for o in operands[:count]:
        if o.root is None or o.root not in written:
            continue
        if o.strides is None or not any(o.root == w.root and (o.strides, o.offset) == (w.strides, w.offset) for w in outputs):
            return None
    reads = {root_of(v) for inner in walk(op) if inner != op for v in inner.operands if isinstance(v.type, ir.MemRefType)}
    if reads & set(written):
        return None
    results = _results(op, block, outputs, count, starts, dead)
    return Nest(op, sizes, operands[:count], results) if results else None


def _results(op, block, outputs, count, starts, dead) -> list[Result | None]:
    end = block.operations[len(block.operations) - 1]
    stored = [not dead(o.root, op) for o in outputs]
    if not any(stored):
        return []
    needed = {i for i, s in enumerate(stored) if s}
    pending = list(needed)
    while pending:
        for argument in _arguments(end.operands[pending.pop()], block):
            if argument >= count and argument - count not in needed:
                needed.add(argument - count)
                pending.append(argument - count)
    for i in set(range(len(outputs))) - needed:
        end.operands[i] = block.arguments[count + i]
    erase_dead(block)
    results: list[Result | None] = []
    reduces = "reduction" in iterators(op)
    for i, o in enumerate(outputs):
        if i not in needed:
            results.append(None)
            continue
        combiner = take_combiner(block, end, i, count + i) if reduces else None
        start = starts.get(o.root) if o.value == o.root else None
        element = o.value.type.element_type
        running = end.operands[i].type if combiner is None else running_type(combiner, end.operands[i].type, element)
        results.append(Result(o, i, combiner, element, stored[i], running, start))
    erase_dead(block)
    return results


def erase_dead(block: ir.Block) -> None:
    for op in reversed([o.operation for o in block.operations]):
        if not op.name.endswith(".yield") and not any(True for r in op.results for _ in r.uses):
            op.erase()


def running_type(combiner: str, value: ir.Type, element: ir.Type) -> ir.Type:
    """The type of a running value that is stored as ``element``: for float sums one whose rounding errors do not show."""
    if combiner not in ("arith.addf", "arith.mulf") or not isinstance(value, (ir.F32Type, ir.F16Type, ir.BF16Type)):
        return value
    return ir.F64Type.get() if isinstance(element, ir.F32Type) else ir.F32Type.get()


def take_combiner(block: ir.Block, end, number: int, argument: int) -> str | None:
    """For a body that yields ``running (+) value``, let it yield ``value`` and return the name of (+).

    The running value may be extended for it and the sum rounded back: what is rounded at every step is then rounded once.
    """
    op, running = owner(end.operands[number]), block.arguments[argument]
    taken = []
    if op is not None and op.name == "arith.truncf" and op.block == block:
        taken.append(op)
        op = owner(op.operands[0])
        extended = [owner(v) for v in op.operands if owner(v) is not None] if op is not None else []
        extended = [o for o in extended if o.name == "arith.extf" and o.operands[0] == running]
        if len(extended) != 1 or len(list(running.uses)) != 1:
            return None
        running = extended[0].results[0]
    if op is None or op.name not in _COMBINERS or op.block != block:
        return None
    values = [v for v in op.operands if v != running]
    if len(values) != 1 or any(len(list(v.uses)) != 1 for v in (running, op.results[0], *(t.results[0] for t in taken))):
        return None
    name = op.name
    end.operands[number] = values[0]
    for done in (*taken, op):
        done.erase()
    return name


def _arguments(value: ir.Value, block: ir.Block) -> set[int]:
    """The block's arguments that ``value`` is computed from."""
    found, seen, pending = set(), set(), [value]
    while pending:
        v = pending.pop()
        if isinstance(v, ir.BlockArgument):
            if v.owner == block:
                found.add(v.arg_number)
            continue
        if v in seen:
            continue
        seen.add(v)
        op = v.owner.operation
        pending += [operand for inner in walk(op) for operand in inner.operands]
    return found


class _Emitter:
    def __init__(self, nest: Nest, flat, scalar, partials, local: dict[ir.Value, set[int]] | None = None) -> None:
        self.nest, self.order = nest, nest.order
        self.flat, self.scalar, self.partials, self.local = flat, scalar, partials, local or {}
        self.index = ir.IndexType.get()
        self.ivs: dict[tuple[int, ...], ir.Value] = {}  # by the run's dims

    def constant(self, value: int) -> ir.Value:
        return arith.constant(self.index, value)

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
            read = any(True for _ in block.arguments[len(arguments) + result.number].uses)
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
        if len(runs) == 1 and any(isinstance(r.running, ir.F64Type) and r.running != r.element for r in self.nest.results):
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
        type_ = operand.value.type
        dense = operand_of_dense(type_.shape, maps(self.nest.op)[list(self.nest.op.operands).index(operand.value)])
        return self._sum([(dense[dims[-1]], iv) for dims, iv in self.ivs.items()], 0)

    def _sum(self, terms: list[tuple[int, ir.Value]], constant: int) -> ir.Value:
        total = None
        for stride, iv in terms:
            if stride:
                term = iv if stride == 1 else arith.muli(iv, self.constant(stride))
                total = term if total is None else arith.addi(total, term)
        if total is None:
            return self.constant(constant)
        return arith.addi(total, self.constant(constant)) if constant else total

    def dim(self, d: int) -> ir.Value:
        iv = self.ivs.get((d,))
        return self.constant(0) if iv is None else iv


def operand_of_dense(shape: Sequence[int], map_: ir.AffineMap) -> tuple[int, ...]:
    """Strides by loop in a contiguous buffer."""
    strides = [0] * map_.n_dims
    for i, expr in enumerate(map_.results):
        if isinstance(expr, ir.AffineDimExpr):
            strides[ir.AffineDimExpr(expr).position] = math.prod(shape[i + 1:])
    return tuple(strides)


def combine(name: str, running: ir.Value, value: ir.Value) -> ir.Value:
    """One step of a reduction.  Float sums and products may be taken in any order."""
    attributes = {"fastmath": ir.Attribute.parse("#arith.fastmath<reassoc>")} if name in ("arith.addf", "arith.mulf") else {}
    return ir.Operation.create(name, results=[running.type], operands=[running, value], attributes=attributes).results[0]


def identity(name: str, type_: ir.Type) -> ir.Value:
    """The value that changes nothing."""
    return arith.constant(type_, neutral(name, type_))


def neutral(name: str, type_: ir.Type) -> ir.Attribute:
    """The same as an attribute."""
    if isinstance(type_, ir.IntegerType):
        top = 1 << (type_.width - 1)
        number = {"maxsi": -top, "minsi": top - 1, "minui": -1, "andi": -1, "muli": 1}.get(name.split(".")[1], 0)
        return ir.IntegerAttr.get(type_, number if type_.width > 1 else number & 1)
    infinity = float("inf")
    number = {"mulf": 1.0, "maximumf": -infinity, "maxnumf": -infinity, "minimumf": infinity, "minnumf": infinity}
    return ir.FloatAttr.get(type_, number.get(name.split(".")[1], 0.0))


def widen(value: ir.Value, type_: ir.Type) -> ir.Value:
    return value if value.type == type_ else arith.extf(type_, value)


def narrow(value: ir.Value, type_: ir.Type) -> ir.Value:
    return value if value.type == type_ else arith.truncf(type_, value)

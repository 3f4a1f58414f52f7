"""A structured operation on buffers as a nest of loops over a range of items, for the CPU.

Every buffer is read and written through a flat view, by an offset and a stride for each loop; LLVM vectorizes the innermost
loop.  Float sums run in float64, which may be added in any order: as exact as a tree of float32, and a vector of partial
sums for LLVM.  (A float32 is converted and added at 8 a cycle, faster than caches deliver them.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from inferno.codegen.cpu.loop_emitter import Emitter
from inferno.codegen.cpu.loop_operands import Operand, Result, operand_of, root_of
from inferno.codegen.cpu.loop_order import Order, merge_runs, order_map, order_reduction
from inferno.codegen.cpu.running_values import neutral, running_type
from inferno.element_sizes import element_bytes
from inferno.mlir import backward_slice, dim_of, ir, is_unread, owner, terminator, walk
from inferno.passes.generics import PARALLEL, REDUCTION, is_reduction, kinds, maps, use_count
from inferno.passes.shapes import UnknownSize, shape
from inferno.schedule.reductions.extrema import Extremum, read_extremum, to_candidate
from inferno.symbolic import Int, bounds, hint, product

_COMBINERS = {
    "arith.addf", "arith.mulf", "arith.addi", "arith.muli", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf",
    "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.andi", "arith.ori", "arith.xori",
}


class Nest:
    """One structured operation, understood.  ``order`` says which loops threads share."""

    def __init__(self, op: ir.Operation, sizes: Sequence[int], inputs: list[Operand], results: list[Result]) -> None:
        self.op, self.sizes, self.inputs = op, sizes, inputs
        self.numbers: Callable[[Int], ir.Value] | None = None  # a size as a value, in the function that is being emitted
        self.results = [r for r in results if r is not None]
        self.block = op.regions[0].blocks[0]
        kind = kinds(op)
        self.reduces = any(k == REDUCTION and s != 1 for k, s in zip(kind, sizes)) or any(r.combiner for r in self.results)
        operands = [*(o for o in inputs if o.root is not None), *(r.operand for r in self.results)]
        outputs = range(len(operands) - len(self.results), len(operands))
        self._operands = operands
        self._strides = strides = [o.strides for o in operands]
        self._keep = keep = {dim_of(o) for o in walk(op, "linalg.index")}
        of_kind = lambda wanted: [d for d, k in enumerate(kind) if k == wanted]  # noqa: E731
        self._parallel = of_kind(PARALLEL)
        into = self.results[0].operand.strides
        parallel = merge_runs(sorted(of_kind(PARALLEL), key=lambda d: -hint(into[d])), sizes, strides, keep)
        if not self.reduces:
            widths = [element_bytes(o.value.type.element_type) for o in operands]
            self.order = order_map(parallel, outputs[0], widths)
        else:
            reads = next((o.strides for o in operands if o.strides is not None and any(o.strides[d] != 0 for d in of_kind(REDUCTION))), into)
            self._reduction = reduction = merge_runs(sorted(of_kind(REDUCTION), key=lambda d: -hint(reads[d])), sizes, strides, keep)
            elements = [product(shape(o.value)) for o in operands]
            self.order = order_reduction(parallel, reduction, outputs, elements, all(r.combiner for r in self.results))
        self.points = math.prod(sizes)
        self.extremum = self._take_extremum()

    def _take_extremum(self) -> Extremum | None:
        """For the largest or smallest value and its place: the body then yields the candidates."""
        runs = self.order.reduction
        if not self.reduces or len(runs) != 1 or len(runs[0].dims) != 1 or bounds(runs[0].size)[1] >= 1 << 31 or len(self.results) != 2:
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
        running, end = self.block.arguments[count], terminator(self.block)
        uses, rounded = [u.owner.operation for u in running.uses], owner(end.operands[0])
        if len(uses) != 1 or uses[0].name != "arith.extf" or rounded is None or rounded.name != "arith.truncf":
            return
        if use_count(rounded.results[0]) != 1 or rounded.operands[0].type != uses[0].results[0].type:
            return
        running.set_type(rounded.operands[0].type)
        uses[0].results[0].replace_all_uses_with(running)
        end.operands[0] = rounded.operands[0]
        for op in (uses[0], rounded):
            op.erase()
        self.results[0] = replace(self.results[0], running=running.type)

    @property
    def extent(self) -> Int:
        return self.order.extent

    @property
    def roots(self) -> list[ir.Value]:
        return list(dict.fromkeys(o.root for o in self._operands))

    @property
    def partial_sizes(self) -> list[tuple[int, ir.Type]]:
        """For a reduction that is cut into parts: for each result how many values a part has, and their type."""
        if self.order.parts == 1:
            return []
        return [(product(shape(r.operand.value)), r.running) for r in self.results]

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
        Emitter(self, flat, scalar, (), local).item(row)

    @property
    def operands(self) -> list[Operand]:
        """All that have a buffer, the results last."""
        return self._operands

    def emit(self, begin: ir.Value, end: ir.Value, flat: Callable[[ir.Value], ir.Value], scalar: Callable[[ir.Value], ir.Value],
             partials: Sequence[ir.Value] = ()) -> None:
        """The loops, at the insertion point.  ``flat`` gives the one-dimensional view of a root, ``scalar`` what stands for a value of
        outside; ``partials`` are the buffers for ``partial_sizes``."""
        Emitter(self, flat, scalar, partials).run(begin, end)


def read_nest(op: ir.Operation, starts: dict[ir.Value, ir.Value], dead: Callable[[ir.Value, ir.Operation], bool]) -> Nest | None:
    """Understand a ``linalg.generic`` on buffers; None where its loops cannot be reordered or shared safely.

    ``starts``: buffers that hold a known scalar everywhere; ``dead(buffer, op)``: nothing but ``op`` touches it.
    """
    try:
        return _read_nest(op, starts, dead)
    except UnknownSize:
        return None


def _read_nest(op: ir.Operation, starts: dict[ir.Value, ir.Value], dead: Callable[[ir.Value, ir.Operation], bool]) -> Nest | None:
    indexing = maps(op)
    sizes: list[Int | None] = [None] * len(kinds(op))
    operands = [operand_of(v, m) for v, m in zip(op.operands, indexing)]
    if any(o is None for o in operands):
        return None
    for value, map_ in zip(op.operands, indexing):
        for size, expr in zip(shape(value) if isinstance(value.type, ir.MemRefType) else (), map_.results):
            if isinstance(expr, ir.AffineDimExpr) and not isinstance(sizes[ir.AffineDimExpr(expr).position], int):
                sizes[ir.AffineDimExpr(expr).position] = size
    if any(s is None for s in sizes):
        return None
    block = op.regions[0].blocks[0]
    count = len(op.opview.inputs)
    parallel = [d for d, k in enumerate(kinds(op)) if k == PARALLEL]
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
    end = terminator(block)
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
    reduces = is_reduction(op)
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
    """Erase what nothing reads, from the last to the first."""
    for op in reversed([o.operation for o in block.operations]):
        if not op.name.endswith(".yield") and is_unread(op):
            op.erase()


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
        if len(extended) != 1 or use_count(running) != 1:
            return None
        running = extended[0].results[0]
    if op is None or op.name not in _COMBINERS or op.block != block:
        return None
    values = [v for v in op.operands if v != running]
    if len(values) != 1 or any(use_count(v) != 1 for v in (running, op.results[0], *(t.results[0] for t in taken))):
        return None
    name = op.name
    end.operands[number] = values[0]
    for done in (*taken, op):
        done.erase()
    return name


def _arguments(value: ir.Value, block: ir.Block) -> set[int]:
    """The block's arguments that ``value`` is computed from."""
    return {v.arg_number for v in backward_slice([value]) if isinstance(v, ir.BlockArgument) and v.owner == block}

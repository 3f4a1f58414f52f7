"""Walk over a function on buffers and make a kernel of each operation that touches memory, in order.

A fill whose buffer the next operation starts from is no kernel: that operation starts from the constant.  What has no parallel form
(loops and branches around tensors, single stores) becomes kernels of one thread.
"""

import math
from dataclasses import dataclass, field, replace

from inferno.codegen.block_reductions import choose_shape, reduce_by_block
from inferno.codegen.device_function import DeviceFunction, buffers_of, device_function, is_root, roots_of
from inferno.codegen.flat_copy import THREADS as COPY_THREADS
from inferno.codegen.flat_copy import copy_blocks, copy_lanes, emit_copy, emit_fill, fill_lanes
from inferno.codegen.flatten_accesses import flatten_accesses
from inferno.codegen.points import Emitter, point_blocks
from inferno.codegen.scan import emit_scan, read_scan
from inferno.codegen.scatter import Scatter, adds_narrow, emit_scatters, read_scatter
from inferno.codegen.serial import is_scalar, make_serial
from inferno.codegen.sort import emit_sort, read_sort
from inferno.codegen.structured import Structured, read_structured, with_scalars
from inferno.errors import CompileError
from inferno.mlir import arith, ir, linalg, memref, outside_values, owner, walk
from inferno.passes.shapes import materialise, static, symbol_arguments
from inferno.schedule.accesses import iterators, maps
from inferno.schedule.universal import Universal
from inferno.symbolic import Int, Symbol, bounds
from inferno.target import Target

_FREE = {
    "memref.alloc", "memref.dealloc", "memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.expand_shape",
    "memref.collapse_shape", "memref.dim", "memref.get_global", "func.return",
}


_MOST_SCATTERS = 16  # of a kernel: its blocks find out which is theirs
_TOTALS = 1 << 28  # bytes of float32 that sums of 16-bit floats are made in, at most


@dataclass(frozen=True)
class Launch:
    """A kernel and how to start it; ``buffers`` are values of the host function, one for each parameter.  ``copies``: it does nothing but make the
    second what the first is."""

    kernel: str
    buffers: list[ir.Value]
    blocks: Int
    threads: int
    copies: bool = False


@dataclass(frozen=True)
class Fill:
    """A buffer that holds one value everywhere, once ``operation``, the function's ``number``-th, has run."""

    operation: ir.Operation
    target: ir.Value
    value: ir.Value
    number: int


@dataclass
class Launches:
    """Builds the kernels of ``function`` into ``module``, a ``gpu.module``; ``done`` lists them in order."""

    function: ir.Operation
    module: ir.Operation
    name: str
    schedule: Universal
    target: Target
    done: list[Launch] = field(default_factory=list)
    _fills: list[Fill] = field(default_factory=list)
    _scatters: list[Scatter] = field(default_factory=list)  # that are made with others', or before what has to do with them
    _copied: dict[ir.Value, ir.Value] = field(default_factory=dict)
    _places: dict[ir.Value, ir.Operation] = field(default_factory=dict)  # maps that only a scatter reads, which computes them
    _symbols: dict[Symbol, ir.Value] = field(default_factory=dict)

    def build(self) -> list[Launch]:
        block = self.function.regions[0].blocks[0]
        self._symbols = symbol_arguments(self.function)
        with self.function.location:
            self._keep_scalars(block)
        self._operations = operations = [o.operation for o in block.operations]
        self._last = self._last_uses(operations)
        serial: list[ir.Operation] = []
        for number, op in enumerate(operations):
            if op.name in _FREE or is_scalar(op):
                continue
            parallel = op.name == "linalg.generic" or op.name in ("tm_tensor.scan", "tm_tensor.sort", "tm_tensor.scatter")
            if parallel and serial:
                self._serial(serial)
                serial = []
            with op.location:
                self._make_scatters(op)
                if op.name == "linalg.generic":
                    self._generic(op, number)
                elif parallel:
                    if op.name == "tm_tensor.scan":
                        self._drop_fills_of_scan(op, number)
                    self._write_fills(op)
                    {"tm_tensor.scan": self._scan, "tm_tensor.sort": self._sort, "tm_tensor.scatter": self._scatter}[op.name](op, number)
                else:
                    self._write_fills(op)
                    serial.append(op)
        if serial:
            self._serial(serial)
        self._make_scatters()
        for fill in list(self._fills):
            if any(owner(r) is None for r in roots_of(fill.target)):
                self._write(fill)
        return self.done

    # What is read later.

    def _last_uses(self, operations: list[ir.Operation]) -> dict[ir.Value, int]:
        """The number of the last operation that touches each buffer; arguments are read after the end."""
        last: dict[ir.Value, int] = {a: len(operations) for a in self.function.regions[0].blocks[0].arguments}
        for number, op in enumerate(operations):
            if op.name in _FREE:
                continue
            for root in buffers_of([op]):
                last[root] = max(last.get(root, 0), number)
        return last

    def _is_dead(self, value: ir.Value, number: int) -> bool:
        """Whether nobody reads what operation ``number`` writes to ``value``."""
        return all(self._last[r] <= number for r in roots_of(value))

    def _keep_scalars(self, block: ir.Block) -> None:
        """Scalars are read again in each kernel that uses them: those from buffers that are written to are kept in ones that are not."""
        operations = [o.operation for o in block.operations]
        for i, op in enumerate(operations):
            if op.name != "memref.load" or not any(r in _written(later) for later in operations[i + 1:] for r in roots_of(op.operands[0])):
                continue
            with ir.InsertionPoint(operations[i + 1]):
                kept = memref.AllocOp(ir.MemRefType.get([], op.results[0].type), [], []).memref
                store = memref.StoreOp(op.results[0], kept, []).operation
                again = memref.load(kept, [])
            for use in list(op.results[0].uses):
                if use.owner.operation != store:
                    use.owner.operation.operands[use.operand_number] = again

    # Fills.

    def _write_fills(self, op: ir.Operation) -> None:
        """Write the pending fills whose buffers ``op`` touches."""
        touched = buffers_of([op])
        for fill in list(self._fills):
            if any(r in touched for r in roots_of(fill.target)):
                self._write(fill)

    def _write(self, fill: Fill) -> None:
        self._fills.remove(fill)
        if self._is_dead(fill.target, fill.number):
            return
        type_ = fill.target.type
        if is_root(fill.target) and type_.has_static_shape and 0 not in type_.shape and str(type_.element_type) != "i1":
            self._fill(fill)
        else:
            self._point_kernel(read_structured(fill.operation), [None], [False])

    def _fill(self, fill: Fill) -> None:
        target, lanes = fill.target, fill_lanes(fill.target)
        count = math.prod(ir.MemRefType(target.type).shape)
        blocks = -(-count // (COPY_THREADS * lanes))
        function = self._open([], [target], COPY_THREADS, blocks * COPY_THREADS * lanes, written=[target])
        with ir.InsertionPoint.at_block_terminator(function.block):
            emit_fill(function, function.value(fill.value), function.block.arguments[function.buffers.index(target)], lanes, count)
        self._close(function, None, blocks, COPY_THREADS)

    def _drop_fills_of_scan(self, op: ir.Operation, number: int) -> None:
        """An inclusive scan overwrites its output, and does not read what the running value was before."""
        void = [op.operands[1]]
        if read_scan(op).inclusive and self._is_dead(op.operands[2], number):
            void.append(op.operands[2])
        self._fills = [f for f in self._fills if f.target not in void]

    # Structured operations.

    def _generic(self, op: ir.Operation, number: int) -> None:
        fill = _read_fill(op, number)
        if fill is not None:
            self._write_fills_under(op)
            self._fills.append(fill)
            return
        if self._is_read_by_sort(op, number):
            source, target = op.operands
            self._copied[target] = source
            self._fills = [f for f in self._fills if f.target != target]
            return
        if _is_copy(op) and all(is_root(v) and v.type.has_static_shape for v in op.operands) and 0 not in op.operands[1].type.shape:
            self._write_fills_under(op)
            if not self._is_dead(op.operands[1], number):
                self._copy(*op.operands)
            return
        if self._are_places(op, number):
            self._places[op.operands[len(op.operands) - 1]] = op
            return
        structured = read_structured(op)
        starts = self._absorb(structured)
        structured = with_scalars(structured)
        dead = [self._is_dead(v, number) for v in structured.outputs]
        if all(dead) and dead:
            return
        self._structured(structured, starts, dead)

    def _write_fills_under(self, op: ir.Operation) -> None:
        """A fill of a whole buffer makes an earlier one of it void; of a part, not."""
        target = _outs(op)[0]
        self._fills = [f for f in self._fills if f.target != target]
        self._write_fills(op)

    def _absorb(self, s: Structured) -> list[ir.Value | None]:
        """The constants that results start from, in place of pending fills; inputs that are fills become constants."""
        op = s.operation
        starts: list[ir.Value | None] = [None] * len(s.outputs)
        captured = [r for o in walk(op) if o != op for v in o.operands if isinstance(v.type, ir.MemRefType) for r in roots_of(v)]
        for fill in list(self._fills):
            root = roots_of(fill.target)[0]
            uses = [i for i, v in enumerate(op.operands) if isinstance(v.type, ir.MemRefType) and root in roots_of(v)]
            if not uses and root not in captured:
                continue
            exact = root not in captured and all(list(op.operands)[i] == fill.target for i in uses)
            ins, outs = [i for i in uses if i < s.inputs], [i for i in uses if i >= s.inputs]
            if exact and not outs and not any(isinstance(v.type, ir.MemRefType) for v in [fill.value]):
                self._use_constant(op, ins, fill.value)
            elif exact and not ins and len(outs) == 1 and s.in_registers and self._covers(s, outs[0]):
                starts[outs[0] - s.inputs] = fill.value
                self._fills.remove(fill)
            else:
                self._write(fill)
        return starts

    def _use_constant(self, op: ir.Operation, inputs: list[int], value: ir.Value) -> None:
        all_maps = maps(op)
        for i in inputs:
            op.operands[i] = value
            all_maps[i] = ir.AffineMap.get(all_maps[i].n_dims, 0, [])
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in all_maps])

    def _covers(self, s: Structured, operand: int) -> bool:
        """Whether the operation writes every element of an output exactly once."""
        results = maps(s.operation)[operand].results
        dims = [ir.AffineDimExpr(e).position for e in results if isinstance(e, ir.AffineDimExpr)]
        return len(dims) == len(results) == len(set(dims)) and all(d in s.parallel for d in dims)

    def _structured(self, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> None:
        if s.points == 0:
            return
        shape = choose_shape(s, self.schedule, self.target)
        if shape is None:
            self._point_kernel(s, starts, dead)
            return
        partial = self._partial_buffers(s, shape.chunks) if shape.chunks > 1 else None
        extra = [v for v in starts if v is not None] if partial is None else []
        function = self._open(
            [s.operation], partial or [], shape.threads, shape.blocks(s) * shape.threads + s.length, shape.shared(s),
            written=partial if partial is not None else s.outputs,
        )
        with ir.InsertionPoint.at_block_terminator(function.block):
            clone = function.clone(s.operation)
            emitter = Emitter(read_structured(clone, s), function.ints, [function.value(v) if v in extra else None for v in starts], dead)
            reduce_by_block(emitter, shape, function.shared, [function.value(v) for v in partial] if partial is not None else None)
        self._close(function, clone, shape.blocks(s), shape.threads)
        if partial is not None:
            total = _sum_of_chunks(s, partial)
            self._structured(read_structured(total), starts, dead)

    def _partial_buffers(self, s: Structured, chunks: int) -> list[ir.Value]:
        with ir.InsertionPoint(s.operation):
            return [
                memref.AllocOp(ir.MemRefType.get([chunks, *(s.sizes[d] for d in s.parallel)], c.total), [], []).memref for c in s.combiners
            ]

    def _copy(self, source: ir.Value, target: ir.Value) -> None:
        """A whole buffer to another, whose type may be another float."""
        blocks, lanes, count = copy_blocks(source, target), copy_lanes(source, target), math.prod(ir.MemRefType(target.type).shape)
        function = self._open([], [source, target], COPY_THREADS, blocks * COPY_THREADS * lanes, written=[target])
        with ir.InsertionPoint.at_block_terminator(function.block):
            parameters = [function.block.arguments[function.buffers.index(v)] for v in (source, target)]
            emit_copy(function, *parameters, lanes, count)
        self._close(function, None, blocks, COPY_THREADS, source.type.element_type == target.type.element_type)

    def _point_kernel(self, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> None:
        if s.points == 0:
            return
        blocks, threads = point_blocks(s, self.schedule.threads)
        function = self._open([s.operation], [], threads, blocks * threads, written=s.outputs)
        with ir.InsertionPoint.at_block_terminator(function.block):
            clone = function.clone(s.operation)
            emitter = Emitter(read_structured(clone, s), function.ints, [None if v is None else function.value(v) for v in starts], dead)
            emitter.thread_per_point(threads)
        self._close(function, clone, blocks, threads)

    # tm_tensor.

    def _scan(self, op: ir.Operation, number: int) -> None:
        scan = read_scan(op)
        if 0 in scan.shape:
            return
        if bounds(scan.length)[0] < 1:
            raise CompileError("a scan along a size that may be 0")  # a row begins with its first element
        blocks, threads = scan.launch
        function = self._open([op], [], threads, blocks * threads + scan.length, scan.shared(), written=list(op.operands)[1:])
        with ir.InsertionPoint.at_block_terminator(function.block):
            clone = function.clone(op)
            emit_scan(replace(read_scan(clone), shape=scan.shape), function, self._is_dead(op.operands[2], number))
        self._close(function, clone, blocks, threads)

    def _scatter(self, op: ir.Operation, number: int) -> None:
        places = next((self._places[r] for r in roots_of(op.operands[1]) if r in self._places), None)
        scatter = replace(read_scatter(op), adds_vectors=self.target.capability >= 90, places=places)
        if scatter.points == 0 or scatter.count == 0:
            return
        if (wide := self._widened(scatter)) is not None:
            narrow, total = op.operands[2], wide.operands[2]
            self._copy(narrow, total)
            self._scatter(wide, number)
            self._copy(total, narrow)
            return
        joins = scatter.unique and isinstance(scatter.launch[0], int) and places is None
        if not joins:
            self._make_scatters()
        self._scatters.append(scatter)
        if not joins or len(self._scatters) == _MOST_SCATTERS:
            self._make_scatters()

    def _make_scatters(self, before: ir.Operation | None = None) -> None:
        """One kernel of the scatters that wait: all of them, or those that what comes next has to do with."""
        waiting = self._scatters
        if not waiting or (before is not None and not any(_meet(s.operation, before) for s in waiting)):
            return
        self._scatters = []
        operations = [s.operation for s in waiting]
        blocks, threads = sum(s.launch[0] for s in waiting), waiting[0].launch[1]
        work = blocks * threads + sum(s.count for s in waiting)
        read = [*operations, *(s.places for s in waiting if s.places is not None)]
        function = self._open(read, [], threads, work, written=[op.operands[2] for op in operations])
        with ir.InsertionPoint.at_block_terminator(function.block), operations[0].location:
            clones = [function.clone(op) for op in operations]
            same = [read_scatter(clone) for clone in clones]
            emit_scatters([replace(s, operation=c.operation, combiner=c.combiner) for s, c in zip(waiting, same)], function)
        for clone in clones[1:]:
            clone.erase()
        self._close(function, clones[0], blocks, threads)

    def _widened(self, scatter: Scatter) -> ir.Operation | None:
        """Many sums of 16-bit floats are made in float32, which the memory adds to: the scatter of the updates to another buffer."""
        op, target = scatter.operation, scatter.operation.operands[2]
        if not adds_narrow(scatter) or not is_root(target) or not target.type.has_static_shape or 4 * math.prod(target.type.shape) > _TOTALS:
            return None
        single = ir.F32Type.get()
        with ir.InsertionPoint(op):
            wide = op.clone()
            wide.operands[2] = memref.AllocOp(ir.MemRefType.get(target.type.shape, single), [], []).memref
            body = wide.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_begin(body):
                terms = arith.extf(single, body.arguments[0])
                total = arith.addf(body.add_argument(single, op.location), terms)
            end = body.operations[len(body.operations) - 1].operation
            end.operands[0] = total
            for inner in reversed([o.operation for o in body.operations][2:-1]):
                inner.erase()
            body.erase_argument(1)
        return wide

    def _are_places(self, op: ir.Operation, number: int) -> bool:
        """Whether a map makes a row of numbers for the places of a scatter, which comes next to touch it, and of nothing else; it is computed there."""
        target, sources = op.operands[len(op.operands) - 1], list(op.operands)[:-1]
        if not is_root(target) or owner(target) is None or target.type.rank != 1 or any(m != ir.AffineMap.get_identity(1) for m in maps(op)):
            return False
        if iterators(op) != ["parallel"] or not all(isinstance(v.type, ir.MemRefType) for v in sources) or len(_outs(op)) != 1:
            return False
        if any(True for _ in op.regions[0].blocks[0].arguments[len(sources)].uses):
            return False
        later = self._operations[number + 1:]
        readers = [o for o in later if o.name not in _FREE and target in buffers_of([o])]
        if len(readers) != 1 or readers[0].name != "tm_tensor.scatter" or any(target in roots_of(readers[0].operands[n]) for n in (0, 2)):
            return False
        until = later[: later.index(readers[0]) + 1]
        return not any(_written(o) & {r for v in sources for r in roots_of(v)} for o in until)

    def _is_read_by_sort(self, op: ir.Operation, number: int) -> bool:
        """Whether a copy only brings elements to where a sort, which comes next to touch either place, could read them anyway."""
        if not _is_copy(op):
            return False
        places = [r for v in op.operands for r in roots_of(v)]
        for later in self._operations[number + 1:]:
            if later.name in _FREE or is_scalar(later) or not any(r in places for r in buffers_of([later])):
                continue
            if later.name == "tm_tensor.sort":
                return op.operands[1] in list(later.operands)
            if not _is_copy(later) or any(r in places for r in roots_of(later.operands[1])):
                return False
        return False

    def _sort(self, op: ir.Operation, number: int) -> None:
        sort, targets, sources = read_sort(op), list(op.operands), []
        if sort.points == 0:
            return
        for target in targets:
            if target not in self._copied:
                with ir.InsertionPoint(op):
                    varying = [materialise(s, self._symbols) for s in sort.shape if not isinstance(s, int)]
                    source = memref.AllocOp(ir.MemRefType.get(static(sort.shape), target.type.element_type), varying, []).memref
                    copy = copy_between(target, source)
                self._point_kernel(read_structured(copy), [None], [False])
                self._copied[target] = source
            sources.append(self._copied.pop(target))
        blocks, threads = sort.launch
        function = self._open([op], sources, threads, blocks * threads, written=targets)
        with ir.InsertionPoint.at_block_terminator(function.block):
            clone = function.clone(op)
            emit_sort(replace(read_sort(clone), shape=sort.shape), function, [function.value(v) for v in sources], [function.value(v) for v in targets])
        self._close(function, clone, blocks, threads)

    # The rest.

    def _serial(self, operations: list[ir.Operation]) -> None:
        make_serial(operations)
        function = self._open(operations, [], 1, 1, written=[r for op in operations for r in _written(op)])
        with ir.InsertionPoint.at_block_terminator(function.block):
            for op in operations:
                function.define(op, function.clone(op))
        self._close(function, None, 1, 1)

    def _open(
        self, operations: list[ir.Operation], extra: list[ir.Value], threads: int, work: Int, shared: list[tuple[int, ir.Type]] = (),
        *, written: list[ir.Value],
    ) -> DeviceFunction:
        buffers = list(dict.fromkeys([*buffers_of(operations), *extra]))
        name = f"{self.name}_{len(self.done)}" if self.done else self.name
        changed = {r for v in written for r in roots_of(v)}
        return device_function(self.module, name, buffers, changed, threads, work, shared, self._symbols)

    def _close(self, function: DeviceFunction, clone: ir.Operation | None, blocks: int, threads: int, copies: bool = False) -> None:
        if clone is not None:
            clone.erase()
        flatten_accesses(function.operation, function.ints, function.layouts)
        function.drop_unused()
        name = ir.StringAttr(function.operation.attributes["sym_name"]).value
        self.done.append(Launch(name, function.buffers, blocks, threads, copies))


def _outs(op: ir.Operation) -> list[ir.Value]:
    body = op.regions[0].blocks[0]
    count = len(body.operations[len(body.operations) - 1].operands)
    return list(op.operands)[len(op.operands) - count:]


def _written(op: ir.Operation) -> set[ir.Value]:
    """The buffers that an operation may write to; what a loop carries may be written in it."""
    if op.name in _FREE or is_scalar(op):
        return set()
    if op.name == "linalg.generic":
        targets = _outs(op)
    elif op.name == "tm_tensor.scatter":
        targets = [op.operands[2]]
    elif len(op.regions) and not op.name.startswith("tm_tensor."):
        inside = [v for o in walk(op) if o != op for v in _stored_to(o)]
        targets = [v for v in [*op.operands, *inside] if isinstance(v.type, ir.MemRefType)]
    else:
        targets = [v for v in op.operands if isinstance(v.type, ir.MemRefType)]
    outside = set(outside_values(op))
    return {r for v in targets if v in outside for r in roots_of(v)}


def _meet(first: ir.Operation, second: ir.Operation) -> bool:
    """Whether one of two operations writes to what the other touches."""
    one, two = set(buffers_of([first])), set(buffers_of([second]))
    return bool(_written(first) & two or _written(second) & one)


def _stored_to(op: ir.Operation) -> list[ir.Value]:
    return [v for v in op.operands if isinstance(v.type, ir.MemRefType)] if op.name not in ("memref.load", "memref.dim") else []


def _read_fill(op: ir.Operation, number: int) -> Fill | None:
    """The operation as a fill of a whole buffer with a value that is not in memory."""
    body = op.regions[0].blocks[0]
    end = body.operations[len(body.operations) - 1]
    targets = _outs(op)
    if len(targets) != 1 or len(list(body.operations)) != 1 or "reduction" in iterators(op):
        return None
    value = end.operands[0]
    if isinstance(value, ir.BlockArgument):
        if value.owner != body or value.arg_number >= len(op.operands) - 1:
            return None
        value = list(op.operands)[value.arg_number]
    if isinstance(value.type, ir.MemRefType) or owner(value) is None or owner(value).name != "arith.constant":
        return None
    return Fill(op, targets[0], value, number) if maps(op)[-1].is_permutation or not ir.MemRefType(targets[0].type).rank else None


def _is_copy(op: ir.Operation) -> bool:
    """Whether an operation copies one buffer to another element by element."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or op.operands[0].type != op.operands[1].type:
        return False
    body = op.regions[0].blocks[0]
    plain = len(list(body.operations)) == 1 and body.operations[0].operands[0] == body.arguments[0]
    return plain and all(m == ir.AffineMap.get_identity(m.n_dims) for m in maps(op))


def copy_between(source: ir.Value, target: ir.Value) -> ir.Operation:
    """A structured operation that makes one buffer what another one of its type and shape is."""
    rank = ir.MemRefType(source.type).rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp([], [source], [target], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * rank))
    element = source.type.element_type
    body = generic.regions[0].blocks.append(element, element, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(body):
        linalg.YieldOp([body.arguments[0]])
    return generic.operation


def _sum_of_chunks(s: Structured, partial: list[ir.Value]) -> ir.Operation:
    """The operation behind ``s`` that combines the sums of its chunks, at [chunk, point...], with what its results start from."""
    points = len(s.parallel)
    loops = points + 1
    chunk_map = ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(d) for d in (points, *range(points))])
    renamed = ir.AffineMap.get(loops, 0, [
        ir.AffineDimExpr.get(s.parallel.index(d)) if d in s.parallel else ir.AffineConstantExpr.get(0) for d in range(len(s.sizes))
    ])
    out_maps = [ir.AffineMap.get(loops, 0, [e.compose(renamed) for e in m.results]) for m in maps(s.operation)[s.inputs:]]
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{k}>") for k in ["parallel"] * points + ["reduction"]]
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

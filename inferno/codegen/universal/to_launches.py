"""Walk over a function on buffers and make a kernel of each operation that touches memory, in order.

A fill whose buffer the next operation starts from is no kernel: that operation starts from the constant.  What has no parallel form
(loops and branches around tensors, single stores) becomes kernels of one thread.
"""

from dataclasses import dataclass, field, replace

from inferno.codegen.builders.device_function import DeviceFunction, buffers_of, device_function, is_root, roots_of
from inferno.codegen.builders.flatten_accesses import flatten_accesses
from inferno.codegen.maps.flat_copy import THREADS as COPY_THREADS
from inferno.codegen.maps.flat_copy import copy_blocks, copy_lanes, emit_copy
from inferno.codegen.universal.block_reductions import choose_shape, partial_buffers, reduce_by_block, sum_of_chunks
from inferno.codegen.universal.buffer_operations import FREE, Fill, is_copy, read_fill, written_by
from inferno.codegen.universal.fill_launches import FillLaunches
from inferno.codegen.universal.points import Emitter, point_blocks
from inferno.codegen.universal.scan import emit_scan, read_scan
from inferno.codegen.universal.scatter import Scatter
from inferno.codegen.universal.scatter_launches import ScatterLaunches
from inferno.codegen.universal.serial import is_scalar, make_serial
from inferno.codegen.universal.sort_launches import SortLaunches
from inferno.codegen.universal.structured import Structured, read_structured, with_scalars
from inferno.errors import CompileError
from inferno.mlir import ir, memref, owner
from inferno.passes.shapes import shape, symbol_arguments
from inferno.schedule.universal.universal import Universal
from inferno.symbolic import Int, Symbol, bounds, product
from inferno.target import Target


@dataclass(frozen=True)
class Launch:
    """A kernel and how to start it; ``buffers`` are values of the host function, one for each parameter.  ``copies``: it does nothing but make the
    second what the first is."""

    kernel: str
    buffers: list[ir.Value]
    blocks: Int
    threads: int
    copies: bool = False


@dataclass
class Launches(FillLaunches, ScatterLaunches, SortLaunches):
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
            if op.name in FREE or is_scalar(op):
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
                    self._write_fills(op, self._filled_updates(op) if op.name == "tm_tensor.scatter" else None)
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
            if op.name in FREE:
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
            if op.name != "memref.load" or not any(r in written_by(later) for later in operations[i + 1:] for r in roots_of(op.operands[0])):
                continue
            with ir.InsertionPoint(operations[i + 1]):
                kept = memref.AllocOp(ir.MemRefType.get([], op.results[0].type), [], []).memref
                store = memref.StoreOp(op.results[0], kept, []).operation
                again = memref.load(kept, [])
            for use in list(op.results[0].uses):
                if use.owner.operation != store:
                    use.owner.operation.operands[use.operand_number] = again

    # Structured operations.

    def _generic(self, op: ir.Operation, number: int) -> None:
        fill = read_fill(op, number)
        if fill is not None:
            self._write_fills_under(op)
            self._fills.append(fill)
            return
        if self._is_read_by_sort(op, number):
            source, target = op.operands
            self._copied[target] = source
            self._fills = [f for f in self._fills if f.target != target]
            return
        if is_copy(op) and all(map(is_root, op.operands)) and 0 not in shape(op.operands[1]):
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

    def _structured(self, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> None:
        if s.points == 0:
            return
        shape = choose_shape(s, self.schedule, self.target)
        if shape is None:
            self._point_kernel(s, starts, dead)
            return
        partial = partial_buffers(s, shape.chunks) if shape.chunks > 1 else None
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
            total = sum_of_chunks(s, partial)
            self._structured(read_structured(total), starts, dead)

    def _copy(self, source: ir.Value, target: ir.Value) -> None:
        """A whole buffer to another, whose type may be another float."""
        blocks, lanes, count = copy_blocks(source, target), copy_lanes(source, target), product(shape(target))
        function = self._open([], [source, target], COPY_THREADS, blocks * COPY_THREADS * lanes, written=[target])
        with ir.InsertionPoint.at_block_terminator(function.block):
            emit_copy(function.ints, function.flat(source), function.flat(target), lanes, count)
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

    # The rest.

    def _serial(self, operations: list[ir.Operation]) -> None:
        make_serial(operations)
        function = self._open(operations, [], 1, 1, written=[r for op in operations for r in written_by(op)])
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

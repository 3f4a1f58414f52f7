"""The kernels of fills: a buffer that is filled is written before something reads it, unless what comes next starts from the value itself."""

from inferno.codegen.builders.device_function import buffers_of, is_root, roots_of
from inferno.codegen.maps.flat_copy import THREADS, emit_fill, fill_lanes
from inferno.codegen.universal.buffer_operations import Fill, results_of
from inferno.codegen.universal.scan import read_scan
from inferno.codegen.universal.structured import Structured, read_structured
from inferno.mlir import ir, walk
from inferno.passes.generics import maps
from inferno.passes.shapes import shape
from inferno.symbolic import ceildiv, product


class FillLaunches:
    """What ``Launches`` does with fills; ``_fills`` are those that nothing has needed yet."""

    def _write_fills(self, op: ir.Operation, known: Fill | None = None) -> None:
        """Write the pending fills whose buffers ``op`` touches, but for one that it need not read."""
        touched = buffers_of([op])
        for fill in list(self._fills):
            if fill is not known and any(r in touched for r in roots_of(fill.target)):
                self._write(fill)

    def _write_fills_under(self, op: ir.Operation) -> None:
        """A fill of a whole buffer makes an earlier one of it void; of a part, not."""
        target = results_of(op)[0]
        self._fills = [f for f in self._fills if f.target != target]
        self._write_fills(op)

    def _write(self, fill: Fill) -> None:
        self._fills.remove(fill)
        if self._is_dead(fill.target, fill.number):
            return
        if is_root(fill.target) and 0 not in shape(fill.target):
            self._fill(fill)
        else:
            self._point_kernel(read_structured(fill.operation), [None], [False])

    def _fill(self, fill: Fill) -> None:
        target, lanes = fill.target, fill_lanes(fill.target)
        count = product(shape(target))
        blocks = ceildiv(count, THREADS * lanes)
        function = self._open([], [target], THREADS, blocks * THREADS * lanes, written=[target])
        with ir.InsertionPoint.at_block_terminator(function.block):
            emit_fill(function.ints, function.value(fill.value), function.flat(target), lanes, count)
        self._close(function, None, blocks, THREADS)

    def _drop_fills_of_scan(self, op: ir.Operation, number: int) -> None:
        """An inclusive scan overwrites its output, and does not read what the running value was before."""
        void = [op.operands[1]]
        if read_scan(op).inclusive and self._is_dead(op.operands[2], number):
            void.append(op.operands[2])
        self._fills = [f for f in self._fills if f.target not in void]

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

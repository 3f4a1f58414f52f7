"""The kernels of scatters: several become one where no operation between them has to do with any of them."""

from dataclasses import replace

from inferno.codegen.builders.device_function import buffers_of, is_root, roots_of
from inferno.codegen.universal.buffer_operations import Fill, FREE, meet, results_of, written_by
from inferno.codegen.universal.scatter import adds_narrow, emit_scatters, flat_parameter, read_scatter, Scatter
from inferno.mlir import arith, ir, is_read, memref, owner, terminator
from inferno.passes.generics import PARALLEL, kinds, maps
from inferno.passes.shapes import shape
from inferno.passes.size_values import materialise
from inferno.symbolic import hint, product

_MOST_SCATTERS = 16  # of a kernel: its blocks find out which is theirs
_TOTALS = 1 << 28  # bytes of float32 that sums of 16-bit floats are made in, at most


class ScatterLaunches:
    """What ``Launches`` does with scatters.  ``_scatters`` wait for others, ``_places`` are maps that only a scatter reads, by their results."""

    def _scatter(self, op: ir.Operation, number: int) -> None:
        places = next((self._places[r] for r in roots_of(op.operands[1]) if r in self._places), None)
        fill = self._filled_updates(op)
        scatter = replace(read_scatter(op), adds_vectors=self.target.capability >= 90, places=places, value=fill and fill.value)
        if scatter.points == 0 or scatter.count == 0:
            return
        if (wide := self._widened(scatter)) is not None:
            narrow, total = op.operands[2], wide.operands[2]
            self._copy(narrow, total)
            self._scatter(wide, number)
            self._copy(total, narrow)
            return
        joins = scatter.unique and places is None
        if not joins:
            self._make_scatters()
        self._scatters.append(scatter)
        if not joins or len(self._scatters) == _MOST_SCATTERS:
            self._make_scatters()

    def _make_scatters(self, before: ir.Operation | None = None) -> None:
        """One kernel of the scatters that wait: all of them, or those that what comes next has to do with."""
        waiting = self._scatters
        if not waiting or (before is not None and not any(meet(s.operation, before) for s in waiting)):
            return
        self._scatters = []
        operations = [s.operation for s in waiting]
        blocks, threads = sum(s.launch[0] for s in waiting), waiting[0].launch[1]
        work = blocks * threads + sum(s.count for s in waiting)
        read = [*operations, *(s.places for s in waiting if s.places is not None)]
        function = self._open(read, [], threads, work, written=[op.operands[2] for op in operations])
        with ir.InsertionPoint.at_block_terminator(function.block), operations[0].location:
            for scatter in waiting:
                if scatter.value is not None:
                    function.value(scatter.value)
            clones = [function.clone(op) for op in operations]
            same = [read_scatter(clone) for clone in clones]
            emit_scatters([replace(s, operation=c.operation, combiner=c.combiner) for s, c in zip(waiting, same)], function)
        for clone in clones[1:]:
            clone.erase()
        self._close(function, clones[0], blocks, threads)

    def _filled_updates(self, op: ir.Operation) -> Fill | None:
        """The fill, which nothing has needed yet, of all that is put there: a mark for each place, or ones that count."""
        source = flat_parameter(op.operands[0])
        return next((f for f in self._fills if source is not None and flat_parameter(f.target) == source), None)

    def _widened(self, scatter: Scatter) -> ir.Operation | None:
        """Many sums of 16-bit floats are made in float32, which the memory adds to: the scatter of the updates to another buffer."""
        op, target = scatter.operation, scatter.operation.operands[2]
        if not adds_narrow(scatter) or not is_root(target) or 4 * hint(product(sizes := shape(target))) > _TOTALS:
            return None
        single = ir.F32Type.get()
        with ir.InsertionPoint(op):
            wide = op.clone()
            varying = [materialise(s, self._symbols) for d, s in enumerate(sizes) if target.type.is_dynamic_dim(d)]
            wide.operands[2] = memref.AllocOp(ir.MemRefType.get(target.type.shape, single), varying, []).memref
            body = wide.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_begin(body):
                terms = arith.extf(single, body.arguments[0])
                total = arith.addf(body.add_argument(single, op.location), terms)
            end = terminator(body)
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
        if kinds(op) != [PARALLEL] or not all(isinstance(v.type, ir.MemRefType) for v in sources) or len(results_of(op)) != 1:
            return False
        if is_read(op.regions[0].blocks[0].arguments[len(sources)]):
            return False
        later = self._operations[number + 1:]
        readers = [o for o in later if o.name not in FREE and target in buffers_of([o])]
        if len(readers) != 1 or readers[0].name != "tm_tensor.scatter" or any(target in roots_of(readers[0].operands[n]) for n in (0, 2)):
            return False
        until = later[: later.index(readers[0]) + 1]
        return not any(written_by(o) & ({*buffers_of([op])} - {target}) for o in until)

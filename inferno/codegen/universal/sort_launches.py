"""The kernels of sorts, which read from one buffer and write to another: a copy in front of a sort is no kernel where the sort can read what is copied."""

from dataclasses import replace

from inferno.codegen.builders.device_function import buffers_of, roots_of
from inferno.codegen.universal.buffer_operations import FREE, copy_between, is_copy
from inferno.codegen.universal.serial import is_scalar
from inferno.codegen.universal.sort import emit_sort, read_sort
from inferno.codegen.universal.structured import read_structured
from inferno.mlir import ir, memref
from inferno.passes.shapes import static
from inferno.passes.size_values import materialise


class SortLaunches:
    """What ``Launches`` does with sorts.  ``_copied`` has for a buffer that a copy would make the one that it is made from."""

    def _is_read_by_sort(self, op: ir.Operation, number: int) -> bool:
        """Whether a copy only brings elements to where a sort, which comes next to touch either place, could read them anyway."""
        if not is_copy(op):
            return False
        places = [r for v in op.operands for r in roots_of(v)]
        for later in self._operations[number + 1:]:
            if later.name in FREE or is_scalar(later) or not any(r in places for r in buffers_of([later])):
                continue
            if later.name == "tm_tensor.sort":
                return op.operands[1] in list(later.operands)
            if not is_copy(later) or any(r in places for r in roots_of(later.operands[1])):
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

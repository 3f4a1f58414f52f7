"""Loads, stores and atomic updates of the simulator, and views of buffers; accesses must be in bounds, and no two threads store different values to one
place at once."""

import numpy as np
from simulated_arithmetic import from_bf16, stored_dtype, to_bf16
from simulated_memory import Memory, View

from inferno.mlir import ir
from inferno.passes.shapes import kept_dimensions, reassociation

_DYNAMIC = ir.ShapedType.get_dynamic_size()

# By MLIR's number: what is done, and to which kind of integers.
_ATOMICS = {
    0: (np.add, "i"), 1: (np.add, "i"), 3: (lambda old, new: new, "i"),
    6: (np.maximum, "i"), 7: (np.maximum, "u"), 10: (np.minimum, "i"), 11: (np.minimum, "u"),
}


class Accesses:
    """Handlers of ``Simulation``."""

    def memref_reinterpret_cast(self, op, operands, mask):
        offset = ir.MemRefType(op.results[0].type).get_strides_and_offset()[1]
        strides = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        varying = iter(operands[len(operands) - strides.count(_DYNAMIC):])
        return [View(operands[0].memory, tuple(next(varying) if s == _DYNAMIC else s for s in strides), offset)]

    def memref_subview(self, op, operands, mask):
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])), list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        dynamic = iter(operands[1:])
        offsets = [next(dynamic) if o == ir.ShapedType.get_dynamic_size() else o for o in sizes[0]]
        source = operands[0]
        offset = source.offset + sum(o * s for o, s in zip(offsets, source.strides))
        kept = ir.MemRefType(op.results[0].type).get_strides_and_offset()[0]
        if _DYNAMIC in kept:
            dims = kept_dimensions(op)
            kept = [source.strides[d] * sizes[1][d] for d in dims]
        return [View(source.memory, tuple(kept), offset)]

    def memref_expand_shape(self, op, operands, mask):
        sizes, dynamic = list(ir.DenseI64ArrayAttr(op.attributes["static_output_shape"])), iter(operands[1:])
        sizes = [next(dynamic) if s == _DYNAMIC else s for s in sizes]
        strides = list(ir.MemRefType(op.results[0].type).get_strides_and_offset()[0])
        for group, step in zip(reassociation(op), operands[0].strides) if _DYNAMIC in strides else ():
            for d in reversed(group):
                strides[d], step = step, step * sizes[d]
        return [View(operands[0].memory, tuple(strides), operands[0].offset)]

    def memref_collapse_shape(self, op, operands, mask):
        strides = tuple(ir.MemRefType(op.results[0].type).get_strides_and_offset()[0])
        if _DYNAMIC in strides:
            strides = tuple(operands[0].strides[group[-1]] for group in reassociation(op))
        return [View(operands[0].memory, strides, operands[0].offset)]

    def memref_cast(self, op, operands, mask):
        return [operands[0]]

    def memref_get_global(self, op, operands, mask):
        name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
        found = next(
            o.operation for o in self.function.parent.regions[0].blocks[0].operations
            if o.operation.name == "memref.global" and ir.StringAttr(o.operation.attributes["sym_name"]).value == name
        )
        value = np.array(ir.DenseElementsAttr(found.attributes["initial_value"]))
        strides = ir.MemRefType(op.results[0].type).get_strides_and_offset()[0]
        return [View(Memory(value.reshape(-1), False, False), tuple(strides))]

    def memref_load(self, op, operands, mask):
        view, places = operands[0], self.places(operands[0], operands[1:], mask)
        found = view.memory.data[(self.block_of, places)] if view.memory.shared else view.memory.data[places]
        return [from_bf16(found) if view.memory.bf16 else found]

    def memref_store(self, op, operands, mask):
        value, view = operands[0], operands[1]
        places = self.places(view, operands[2:], mask)[mask]
        value = np.broadcast_to(to_bf16(value) if view.memory.bf16 else value, mask.shape)[mask]
        assert view.memory.writable, "a store to a read-only parameter"
        where = (self.block_of[mask], places) if view.memory.shared else (places,)
        flat = where[0] * view.memory.data.shape[-1] + where[1] if view.memory.shared else places
        last = np.empty(view.memory.data.size, np.int64)
        last[flat] = np.arange(len(flat))
        kept = value[last[flat]]
        assert ((kept == value) | ((kept != kept) & (value != value))).all(), "two threads store different values to one place"
        view.memory.data[where] = value
        return []

    def memref_atomic_rmw(self, op, operands, mask):
        """Updates of one place, each of which finds those of the threads before it."""
        value, view = np.broadcast_to(operands[0], mask.shape), operands[1]
        combine, type_ = _ATOMICS[ir.IntegerAttr(op.attributes["kind"]).value]
        data = view.memory.data.view(view.memory.data.dtype.str.replace("i", type_))
        assert view.memory.writable and not view.memory.bf16
        places, old = self.places(view, operands[2:], mask), np.zeros(self.count, data.dtype)
        for thread in np.flatnonzero(mask):
            at = (self.block_of[thread], places[thread]) if view.memory.shared else places[thread]
            old[thread] = data[at]
            data[at] = combine(old[thread], value[thread].astype(data.dtype))
        return [old.view(value.dtype)]

    def places(self, view: View, indices, mask: np.ndarray) -> np.ndarray:
        flat = view.offset
        for i, s in zip(indices, view.strides):
            flat = flat + np.asarray(i, np.int64) * s
        flat, size = np.where(mask, flat, 0), view.memory.data.shape[-1]
        assert ((flat >= 0) & (flat < size)).all() or not mask.any(), f"an access out of bounds: {flat[mask].min()}..{flat[mask].max()} of {size}"
        return flat

    # Vectors: one row of lanes a thread.

    def vector_load(self, op, operands, mask):
        lanes = ir.VectorType(op.results[0].type).shape[0]
        view, item, aligned = operands[0], operands[0].memory.data.dtype.itemsize, ir.IntegerAttr(op.attributes["alignment"]).value
        first = self.places(view, operands[1:], mask)
        assert (first * item % aligned == 0).all(), "a vector that is not aligned"
        if view.memory.shared:
            found = [self.memref_load(op, [view, *operands[1:-1], np.asarray(operands[-1]) + i], mask)[0] for i in range(lanes)]
            return [np.stack(found, -1)]
        # Of aligned bytes of which the first are the buffer's all can be read.
        size, each = view.memory.data.shape[-1], first[:, None] + np.arange(lanes)
        assert (each < (-(-size * item // aligned) * aligned) // item).all(), f"an access out of bounds: {each.max()} of {size}"
        found = view.memory.data[np.minimum(each, size - 1)]
        return [from_bf16(found) if view.memory.bf16 else found]

    def vector_store(self, op, operands, mask):
        value, view, *where = operands
        value = np.broadcast_to(value, (self.count, np.asarray(value).shape[-1]))
        first, aligned = self.places(view, where, mask), ir.IntegerAttr(op.attributes["alignment"]).value
        assert (first * view.memory.data.dtype.itemsize % aligned == 0).all(), "a vector that is not aligned"
        for i in range(value.shape[-1]):
            self.memref_store(op, [value[:, i], view, *where[:-1], np.asarray(where[-1]) + i], mask)
        return []

    # Dynamic shared memory: addresses are numbers of bytes behind where it begins.

    def llvm_mlir_addressof(self, op, operands, mask):
        if not hasattr(self, "dynamic"):
            self.dynamic = np.full((self.blocks, 232448), 0xFF, np.uint8)
        return [np.zeros(self.count, np.int32)]

    def llvm_ptrtoint(self, op, operands, mask):
        return [operands[0]]

    def dynamic_bytes(self, address, type_: ir.Type, mask) -> tuple:
        """Where each thread's bytes are: blocks, places, the element's type, lanes."""
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        lanes = type_.shape[0] if isinstance(type_, ir.VectorType) else 1
        size = np.dtype(stored_dtype(str(element))).itemsize * lanes
        address = np.where(mask, np.broadcast_to(address, mask.shape), 0)
        assert (address % size == 0).all() and (address >= 0).all() and (address + size <= self.shared_bytes).all(), "dynamic shared memory"
        return self.block_of[:, None], address[:, None] + np.arange(size), element, lanes

    def llvm_store(self, op, operands, mask):
        value, address = operands
        blocks, places, element, lanes = self.dynamic_bytes(address, op.operands[0].type, mask)
        value = np.broadcast_to(np.asarray(value) if lanes > 1 else np.asarray(value)[..., None], (self.count, lanes))
        data = to_bf16(value) if isinstance(element, ir.BF16Type) else value.astype(stored_dtype(str(element)))
        self.dynamic[np.broadcast_to(blocks, places.shape)[mask], places[mask]] = np.ascontiguousarray(data).view(np.uint8)[mask]
        return []

    def llvm_load(self, op, operands, mask):
        if not isinstance(operands[0], tuple):
            blocks, places, element, lanes = self.dynamic_bytes(operands[0], op.results[0].type, mask)
            found = np.ascontiguousarray(self.dynamic[blocks, places]).view(stored_dtype(str(element)))
            found = from_bf16(found) if isinstance(element, ir.BF16Type) else found
            return [found if lanes > 1 else found[:, 0]]
        view, blocks = operands[0]
        offset = np.where(mask, view.offset, 0)
        assert view.memory.shared and ((offset >= 0) & (offset < view.memory.data.shape[-1])).all()
        return [view.memory.data[blocks, offset]]

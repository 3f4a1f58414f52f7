"""Memory accesses of a GPU function by one 32-bit offset.

A kernel's buffers are contiguous parameters; views of them have constant strides almost always.  Then an access through any chain of
views is one to the parameter itself, at an offset that 32 bits hold where the buffer has fewer than 2^31 elements.
``index``, which upstream's address arithmetic is made of, is 64 bits wide on the GPU, and each step of it costs double.
"""

from collections.abc import Mapping

from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import ir, is_read, memref, owner, walk
from inferno.symbolic import Int

_VIEWS = {"memref.subview", "memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reinterpret_cast", "memref.transpose"}
_OFFSETS_OUT_OF_TYPE = ir.ShapedType.get_dynamic_stride_or_offset


def flatten_accesses(function: ir.Operation, ints: Integers, layouts: Mapping[ir.Value, tuple[ir.Value, tuple[Int, ...]]] | None = None) -> None:
    """Rewrite the loads, stores and atomic operations below ``function`` that reach one of its parameters with known strides.  ``layouts`` has the
    parameter and the strides of buffers whose sizes vary."""
    for op in walk(function, "memref.load", "memref.store", "memref.atomic_rmw"):
        number = 0 if op.name == "memref.load" else 1
        known = (layouts or {}).get(op.operands[number])
        base, layout = _resolve(op.operands[number]) if known is None else (known[0], (known[1], 0))
        if base is None:
            continue
        strides, offset = layout
        with ir.InsertionPoint(op), op.location:
            coordinates = [narrow(ints, v) for v in list(op.operands)[number + 1:]]
            at = ints.index(ints.dot(coordinates, strides, offset))
            if number == 0:
                op.results[0].replace_all_uses_with(memref.load(base, [at]))
            elif op.name == "memref.atomic_rmw":
                done = memref.AtomicRMWOp(op.attributes["kind"], op.operands[0], base, [at])
                op.results[0].replace_all_uses_with(done.result)
            else:
                memref.store(op.operands[0], base, [at])
        op.erase()
    for op in reversed(walk(function, *_VIEWS)):
        if not is_read(op.results[0]):
            op.erase()


def _resolve(value: ir.Value) -> tuple[ir.Value | None, tuple[list[int], int] | None]:
    """The parameter or shared array that ``value`` is a view of, with strides and offset; (None, None) where they are not constants."""
    if owner(value) is None and ir.MemRefType(value.type).memory_space is not None:
        return None, None
    while (op := owner(value)) is not None and op.name == "memref.cast":
        value = op.operands[0]
    if op is None:
        return None, None
    strides, offset = ir.MemRefType(value.type).get_strides_and_offset()
    unknown = _OFFSETS_OUT_OF_TYPE()
    if offset == unknown or any(s == unknown for s in strides):
        return None, None
    while op is not None and op.name in _VIEWS:
        value = op.operands[0]
        op = owner(value)
    flat = op is None and ir.MemRefType(value.type).rank == 1
    return (value, (list(strides), offset)) if flat else (None, None)


def narrow(ints: Integers, value: ir.Value) -> Integer:
    """An ``index`` as an integer of the wanted width.  Sums and products are computed in it: only the end needs to fit."""
    op = owner(value)
    if op is None:
        return ints.narrow(value)
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value
    if op.name in ("arith.index_cast", "arith.index_castui") and op.operands[0].type == ints.type:
        return op.operands[0]
    if op.name in ("arith.addi", "arith.subi", "arith.muli"):
        lhs, rhs = (narrow(ints, v) for v in op.operands)
        return {"arith.addi": ints.add, "arith.subi": ints.sub, "arith.muli": ints.mul}[op.name](lhs, rhs)
    return ints.narrow(value)

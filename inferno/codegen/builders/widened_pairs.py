"""Conversion of pairs of bfloat16 to float32 by words: the low one by a shift, the high one by a mask.

LLVM takes a pair to its halves first, and shifts each: three instructions, of which the end of a product has six for a column of a batch norm, and a norm
of columns one and a half for each point and phase."""

from collections.abc import Sequence

from inferno.codegen.builders.elements import convert, join, lanes_of
from inferno.codegen.nvvm.builder import integer_type
from inferno.mlir import arith, ir, vector


def widen(op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """``arith.extf`` on ``operands``, of which the only one may be a vector."""
    element = op.results[0].type
    return widened(operands[0], element.element_type if isinstance(element, ir.VectorType) else element)


def widened(value: ir.Value, element: ir.Type) -> ir.Value:
    """A number, or each of a vector, in a wider type."""
    is_vector = isinstance(value.type, ir.VectorType)
    if not is_vector or value.type.shape[0] % 2 or not isinstance(value.type.element_type, ir.BF16Type) or not isinstance(element, ir.F32Type):
        return convert(value, element)
    i32 = integer_type(32)
    words = lanes_of(vector.bitcast(ir.VectorType.get([value.type.shape[0] // 2], i32), value))
    halves = [x for w in words for x in (arith.shli(w, arith.constant(i32, 16)), arith.andi(w, arith.constant(i32, -1 << 16)))]
    return join([arith.bitcast(element, half) for half in halves])


CUSTOM = {"arith.extf": widen}
"""For ``inline_body``."""

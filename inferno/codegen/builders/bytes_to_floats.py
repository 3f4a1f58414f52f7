"""Bytes to floats by permuting bytes, four at a time, for bodies that are inlined on vectors.

A byte u in the last bits of 2^23 is the float 2^23 + u, so that a permutation and a subtraction convert it; a signed one has its sign's bit
flipped first, which adds 128.  The tensor core's prologues convert a byte for every two bytes that they write: the conversion
instruction runs at a quarter of the rate, and wants its byte moved to the front.
"""

from collections.abc import Sequence

from inferno.codegen.builders.elements import join, lanes_of, splat
from inferno.codegen.nvvm.builder import integer_type, operation
from inferno.mlir import arith, ir, llvm

_EXPONENT = 0x4B000000  # of 2^23


def convert(op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """``arith.sitofp`` or ``arith.uitofp`` on ``operands``, of which the only one may be a vector."""
    value, element = operands[0], op.results[0].type
    lanes = ir.VectorType(value.type).shape[0] if isinstance(value.type, ir.VectorType) else 1
    bytes_ = lanes % 4 == 0 and str(value.type.element_type) == "i8"
    if not bytes_ or not isinstance(element, (ir.F32Type, ir.BF16Type, ir.F16Type)):
        type_ = ir.VectorType.get([lanes], element) if isinstance(value.type, ir.VectorType) else element
        return ir.Operation.create(op.name, results=[type_], operands=[value], loc=op.location).results[0]
    signed, i32, f32 = op.name == "arith.sitofp", integer_type(32), ir.F32Type.get()
    words = lanes_of(operation("llvm.bitcast", [ir.VectorType.get([lanes // 4], i32)], [value]))
    exponent, signs = arith.constant(i32, _EXPONENT), arith.constant(i32, -0x7F7F7F80)
    zero = splat(f32, 2**23 + (128 if signed else 0))
    floats = []
    for word in words:
        word = arith.xori(word, signs) if signed else word
        for i in range(4):
            bits = llvm.inline_asm(i32, [word, exponent], f"prmt.b32 $0, $1, $2, {0x7440 + i};", "=r,r,r")
            floats.append(arith.subf(arith.bitcast(f32, bits), zero))
    whole = join(floats)
    return whole if element == f32 else arith.truncf(ir.VectorType.get([lanes], element), whole)


CUSTOM = {"arith.sitofp": convert, "arith.uitofp": convert}
"""For ``inline_body``."""

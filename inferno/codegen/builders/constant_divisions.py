"""Divisions of float32 by constants: multiplications by the reciprocal, corrected by what the quotient leaves of the dividend.

A division of float32 is some 13 instructions with a branch to a function, which a dividend of 0 or near the ends of the range takes; no two of them
overlap.  At the end of a tile of a product 96 of them in each thread are more instructions than all else (hardswish, ``x * clamp(x + 3, 0, 6) / 6``:
TF32, 16x14x14x112 to 672 37.2 us on an H200, of which 3 are memory's, with tiles that were transposed in shared memory besides).  A fused multiply-add has
the rest of the dividend exactly, and another one corrects the quotient, which is then the rounded one ("Correctly rounded floating-point division",
Markstein, 1990), but for dividends below 2^-100, where it may be off by one rounding.  No branches, so that the next element's overlaps.
"""

import struct

from inferno.codegen.builders.elements import splat
from inferno.mlir import arith, ir, math

_SMALL, _LARGE = 2.0**-64, 2.0**64  # half of float32's exponents: a quotient's rest and the product that corrects it are normal numbers


def has_reciprocal(divisor: float | None) -> bool:
    """Whether it is a number whose reciprocal, too, is far from the ends of the range."""
    return divisor is not None and _SMALL <= abs(divisor) <= _LARGE


def divide_by_constant(op: ir.Operation, divisor: float | None) -> ir.Value | None:
    """What replaces an ``arith.divf`` of a float32 by ``divisor``, in front of it; None where it stays, as by a power of two, which LLVM multiplies by."""
    x = op.operands[0]
    if not isinstance(x.type, ir.F32Type) or not has_reciprocal(divisor):
        return None
    divisor = _float32(divisor)
    reciprocal = _float32(1 / divisor)
    if reciprocal * divisor == 1.0:
        return None
    with ir.InsertionPoint(op), op.location:
        # Signs are such that a quotient of -0 stays that: the rest is +0 then, and its product with a negative number is -0.
        x = arith.negf(x) if divisor < 0 else x
        quotient = arith.mulf(x, splat(x.type, abs(reciprocal)))
        left = math.fma(quotient, splat(x.type, abs(divisor)), arith.negf(x))
        corrected = math.fma(left, splat(x.type, -abs(reciprocal)), quotient)
        return arith.select(arith.cmpf(arith.CmpFPredicate.ORD, corrected, corrected), corrected, quotient)  # an infinite quotient leaves no number


def _float32(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]

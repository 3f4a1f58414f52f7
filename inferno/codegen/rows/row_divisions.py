"""Divisions by what all points of a row have in common: multiplications by its reciprocal.

A float32 division takes ten instructions and a branch, and a softmax is bound by its arithmetic.  The product is off by two roundings of float32 at
most, which rounding to 16 bits or 8 hides; where the quotient stays float32, what it leaves of the dividend, which a fused multiply-add has exactly,
corrects it ("Correctly rounded floating-point division", Markstein, 1990).  Reciprocals of very small and large divisors are no normal numbers, so both
factors are scaled there by a power of two: an element that this makes infinite, or loses, has a quotient that is infinite, or lost.
"""

from inferno.codegen.builders.elements import splat
from inferno.codegen.builders.float8 import is_rounded_to_8_bits
from inferno.mlir import arith, ir, math, owner, users, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.row_contraction import RowContraction
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_steps import RowStep

_SMALL, _LARGE, _SCALE = 2.0**-100, 2.0**100, 2.0**64  # divisors that are scaled, and by what: reciprocals are normal from 2^-126 to 2^126


def multiply_by_reciprocals(step: RowStep, kernel: RowKernel | RowContraction) -> None:
    """Rewrite such divisions in a step's body, in place; once a row is done what is computed of the divisor alone."""
    rows = {
        argument for argument, source in zip(step.block.arguments, step.sources)
        if (kernel.values[source].per_row if isinstance(source, int) else isinstance(source, Access) and not kernel.wide(source))
    }
    for op in walk(step.generic, "arith.divf"):
        x, divisor = op.operands
        if isinstance(op.results[0].type, ir.F32Type) and _is_of(divisor, rows) and not _is_of(x, rows):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_product(x, divisor, _is_rounded(op.results[0])))
            op.erase()


def _is_of(value: ir.Value, rows: set[ir.Value]) -> bool:
    """Whether a value is a row's, or computed of one by conversions and arithmetic with constants."""
    if isinstance(value, ir.BlockArgument):
        return value in rows
    op = owner(value)
    return op.name.startswith(("arith.", "math.")) and all(_is_of(v, rows) for v in op.operands)


def _is_rounded(value: ir.Value) -> bool:
    return all(u.name == "arith.truncf" and u.results[0].type.width == 16 for u in users(value)) or is_rounded_to_8_bits(value)


def _product(x: ir.Value, divisor: ir.Value, rounded: bool) -> ir.Value:
    type_ = divisor.type
    size = math.absf(divisor)
    small = arith.cmpf(arith.CmpFPredicate.OLT, size, splat(type_, _SMALL))
    large = arith.cmpf(arith.CmpFPredicate.OGT, size, splat(type_, _LARGE))
    scale = arith.select(small, splat(type_, _SCALE), arith.select(large, splat(type_, 1 / _SCALE), splat(type_, 1.0)))
    x, divisor = arith.mulf(x, scale), arith.mulf(divisor, scale)
    reciprocal = arith.divf(splat(type_, 1.0), divisor)
    quotient = arith.mulf(x, reciprocal)
    if rounded:
        return quotient
    left = math.fma(arith.negf(quotient), divisor, x)
    corrected = math.fma(left, reciprocal, quotient)
    return arith.select(arith.cmpf(arith.CmpFPredicate.ORD, corrected, corrected), corrected, quotient)  # an infinite quotient leaves no number

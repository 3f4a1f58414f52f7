"""Repair sums on tensor cores in which elements were multiplied by padding zeros: infinity times zero is NaN, so what is not finite is added up again."""

from collections.abc import Callable

from inferno.codegen.builders.elements import lanes_of
from inferno.mlir import arith, ir, math, scf
from inferno.passes.generics import float32


def unless_finite(sums: ir.Value, again: Callable[[], ir.Value]) -> ir.Value:
    """A vector of sums in float32, or what ``again`` makes of its own elements alone where one of them is not finite."""
    zero, total = float32(0.0), float32(0.0)
    for x in lanes_of(sums):
        total = math.fma(x, zero, total)
    found = scf.IfOp(arith.cmpf(arith.CmpFPredicate.UNE, total, zero), [sums.type], has_else=True)
    with ir.InsertionPoint(found.then_block):
        scf.yield_([again()])
    with ir.InsertionPoint(found.else_block):
        scf.yield_([sums])
    return found.results[0]

"""Repair sums on tensor cores in which elements were multiplied by padding zeros: infinity times zero is NaN, so what is not finite is added up again."""

from collections.abc import Callable

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.builders.elements import lanes_of
from inferno.mlir import arith, ir, math
from inferno.passes.generics import float32


def unless_finite(sums: ir.Value, again: Callable[[], ir.Value]) -> ir.Value:
    """A vector of sums in float32, or what ``again`` makes of its own elements alone where one of them is not finite."""
    zero, total = float32(0.0), float32(0.0)
    for x in lanes_of(sums):
        total = math.fma(x, zero, total)
    return if_else(arith.cmpf(arith.CmpFPredicate.UNE, total, zero), [sums.type], lambda: [again()], lambda: [sums])[0]

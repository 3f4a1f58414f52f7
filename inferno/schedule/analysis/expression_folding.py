"""What is known of expressions before anything runs: conditions that loops' ranges decide, operations on constants."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferno.mlir import arith, ir
from inferno.symbolic import Int, bounds

if TYPE_CHECKING:
    from inferno.schedule.analysis.expressions import Expression, Expressions, Loop

Linear = tuple[dict["Loop", Int], Int]
"""Coefficients of loops, and a constant."""
_PREDICATES = {  # what holds of the difference of both sides, by its least and its greatest value
    "eq": (lambda low, high: low == high == 0, lambda low, high: low > 0 or high < 0),
    "ne": (lambda low, high: low > 0 or high < 0, lambda low, high: low == high == 0),
    "slt": (lambda low, high: high < 0, lambda low, high: low >= 0),
    "sle": (lambda low, high: high <= 0, lambda low, high: low > 0),
    "sgt": (lambda low, high: low > 0, lambda low, high: high <= 0),
    "sge": (lambda low, high: low >= 0, lambda low, high: high < 0),
}


def predicate_of(comparison: "Expression") -> str:
    """The name of an integer comparison's predicate."""
    return arith.CmpIPredicate(ir.IntegerAttr(comparison.op.attributes["predicate"]).value).name.lower()


def linear(expression: "Expression", leaves: bool = False) -> Linear | None:
    """An integer as a sum of loops, each times a constant; None where it is none.  Loops and what is computed of them fit any integer type.
    With ``leaves`` elements that are read count as loops do; what is added to them is taken to fit, too."""
    if leaves and expression.name == "read" and isinstance(expression.type, ir.IntegerType) and expression.type.width in (32, 64):
        return {expression: 1}, 0
    if expression.name == "index":
        return dict(expression.strides), expression.offset
    if expression.name == "arith.constant":
        value = expression.constant
        return None if value is None or isinstance(expression.type, ir.FloatType) else ({}, int(value))
    if expression.name in ("arith.index_cast", "arith.extsi"):
        return linear(expression.operands[0], leaves)
    product = expression.name == "arith.muli" and isinstance(expression.type, ir.IndexType)
    if expression.name not in ("arith.addi", "arith.subi") and not product:
        return None
    a, b = (linear(e, leaves) for e in expression.operands)
    if a is None or b is None:
        return None
    if product:
        (sums, constant), (none, factor) = (a, b) if not b[0] else (b, a)
        return None if none else ({loop: c * factor for loop, c in sums.items() if factor != 0}, constant * factor)
    sign = 1 if expression.name == "arith.addi" else -1
    sums = {loop: a[0].get(loop, 0) + sign * b[0].get(loop, 0) for loop in {**a[0], **b[0]}}
    return {loop: c for loop, c in sums.items() if c != 0}, a[1] + sign * b[1]


def fold(made: "Expressions", expression: "Expression") -> "Expression":
    """The same value, simpler where that is known."""
    operands, name = expression.operands, expression.name
    if name == "arith.cmpi":
        decided = _decided(predicate_of(expression), *operands)
        return expression if decided is None else _truth(made, decided)
    if name in ("arith.andi", "arith.ori") and _is_truth(expression):
        neutral = name == "arith.andi"
        left = [e for e in dict.fromkeys(operands) if e.constant is None or bool(e.constant) != neutral]
        return next((e for e in left if e.constant is not None), expression if len(left) == 2 else left[0] if left else operands[0])
    if name == "arith.select":
        condition, chosen, other = operands
        if condition.constant is not None or chosen is other:
            return chosen if chosen is other or condition.constant else other
    if name in ("arith.truncf", "arith.extf") and operands[0].constant is not None:
        return made.constant(ir.FloatAttr.get(expression.type, operands[0].constant))
    return expression


def _least(number: Linear) -> Int:
    """The least value of a sum of loops, or less."""
    return bounds(number[1])[0] + sum(min(0, bounds(c)[0]) * (bounds(loop.size)[1] - 1) for loop, c in number[0].items())


def _is_truth(expression: "Expression") -> bool:
    return isinstance(expression.type, ir.IntegerType) and ir.IntegerType(expression.type).width == 1


def _truth(made: "Expressions", value: bool) -> "Expression":
    return made.constant(ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(value)))


def _decided(predicate: str, *sides: "Expression") -> bool | None:
    """What a comparison gives whatever the loops' numbers are; None where that depends."""
    unsigned = predicate[0] == "u"
    predicate = f"s{predicate[1:]}" if unsigned else predicate
    if predicate not in _PREDICATES:
        return None
    if sides[0] is sides[1]:
        low = high = 0
    else:
        a, b = map(linear, sides)
        if a is None or b is None or (unsigned and any(_least(side) < 0 for side in (a, b))):
            return None
        steps = {loop: a[0].get(loop, 0) - b[0].get(loop, 0) for loop in {**a[0], **b[0]}}
        if any(bounds(c)[0] < 0 < bounds(c)[1] for c in steps.values()):
            return None
        ends: Sequence[tuple[bool, Int]] = [(bounds(c)[1] <= 0, c * (loop.size - 1)) for loop, c in steps.items()]
        low, high = (bounds(a[1] - b[1] + sum(e for falls, e in ends if falls == below))[0 if below else 1] for below in (True, False))
    holds, fails = _PREDICATES[predicate]
    return True if holds(low, high) else False if fails(low, high) else None

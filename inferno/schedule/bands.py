"""Masks of attention that are told by the numbers of queries and keys alone: causal, sliding windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from inferno.mlir import arith, ir
from inferno.schedule.expressions import CONSTANT, INDEX, Expression, Loop, Loops, Tracer
from inferno.symbolic import Int


@dataclass(frozen=True)
class Band:
    """The keys that a query sees by their numbers: ``query + low <= key <= query + high``; None where that end is open.

    Causal is ``high = 0`` (or keys - queries, where queries are the last ones); a sliding window of w is ``low = 1 - w``.
    """

    low: Int | None
    high: Int | None


Linear = tuple[dict[Loop, int], int]
"""Coefficients of loops, and a constant."""
_ORDERS = {  # (left, right, more): left times the one side and right times the other and ``more`` are at least 0
    "slt": (-1, 1, -1), "sle": (-1, 1, 0), "sgt": (1, -1, -1), "sge": (1, -1, 0),
}
_OPPOSITE = {"slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle"}


def find_band(tracer: Tracer, scores: Expression, keys: Loops, shared: Sequence[Loop]) -> tuple[Expression, Band | None, list[Loop]]:
    """The scores without the mask that is a band, that band, and the loops that are queries; without a band the scores as they are, and no
    loops.  ``shared`` are those that may be queries."""
    masks: list[tuple[Expression, bool]] = []
    inside = scores
    while inside.name == "arith.select" and -inf in (rest := [e.constant for e in inside.operands[1:]]):
        masks += _conjuncts(inside.operands[0], rest[1] == -inf)
        inside = inside.operands[1 if rest[1] == -inf else 2]
    low, high, queries, left = None, None, [], []
    for mask in masks:
        found = _read(*mask, keys, shared)
        if found is None or (queries and found[2] != queries):
            left.append(mask)
            continue
        low = max((x for x in (low, found[0]) if x is not None), default=None)
        high = min((x for x in (high, found[1]) if x is not None), default=None)
        queries = found[2]
    if not queries:
        return scores, None, []
    for condition, holds in left:
        least = tracer.constant(ir.FloatAttr.get(scores.type, -inf))
        inside = tracer.make("arith.select", scores.type, [condition, *((inside, least) if holds else (least, inside))])
    return inside, Band(low, high), queries


def compares(expression: Expression, predicate: arith.CmpFPredicate) -> bool:
    """Whether it is a comparison of floats by this predicate."""
    return expression.name == "arith.cmpf" and ir.IntegerAttr(expression.op.attributes["predicate"]).value == predicate.value


def _conjuncts(condition: Expression, holds: bool) -> list[tuple[Expression, bool]]:
    """What all has to hold, or not to hold, for the condition to be ``holds``."""
    if condition.name == ("arith.andi" if holds else "arith.ori"):
        return [c for e in condition.operands for c in _conjuncts(e, holds)]
    if condition.name == "arith.xori":
        flipped = [e for e in condition.operands if e.constant is None]
        if len(flipped) == 1 and next(e.constant for e in condition.operands if e is not flipped[0]):
            return _conjuncts(flipped[0], not holds)
    return [(condition, holds)]


def _read(condition: Expression, holds: bool, keys: Loops, shared: Sequence[Loop]) -> tuple[int | None, int | None, list[Loop]] | None:
    """(low, high, the loops of queries) of a condition, if it is one of a band."""
    if condition.name != "arith.cmpi":
        return None
    name = arith.CmpIPredicate(ir.IntegerAttr(condition.op.attributes["predicate"]).value).name.lower()
    sides = [_linear(e) for e in condition.operands]
    if name not in _ORDERS or None in sides:
        return None
    left, right, more = _ORDERS[name if holds else _OPPOSITE[name]]
    by: dict[Loop, int] = {}
    for factor, (coefficients, constant) in zip((left, right), sides):
        more += factor * constant
        for loop, c in coefficients.items():
            by[loop] = by.get(loop, 0) + factor * c
    by = {loop: c for loop, c in by.items() if c}
    queries = sorted((loop for loop in by if loop not in keys), key=lambda loop: -abs(by[loop]))
    if not queries or not keys or any(loop not in shared for loop in queries):
        return None
    sign = 1 if by.get(keys[-1], 0) > 0 else -1
    numbered = {loop: sign * prod(i.size for i in keys[n + 1:]) for n, loop in enumerate(keys)}
    numbered |= {loop: -sign * prod(i.size for i in queries[n + 1:]) for n, loop in enumerate(queries)}
    if by != numbered:
        return None
    return (-more, None, queries) if sign > 0 else (None, more, queries)


def _linear(expression: Expression) -> Linear | None:
    """An integer as a sum of loops, each times a constant; None where it is none.  Loops and what is computed of them fit any integer type."""
    if expression.name == INDEX:
        return dict(expression.strides), expression.offset
    if expression.name == CONSTANT:
        value = expression.constant
        return None if value is None else ({}, int(value))
    if expression.name in ("arith.index_cast", "arith.extsi"):
        return _linear(expression.operands[0])
    if expression.name not in ("arith.addi", "arith.subi"):
        return None
    a, b = map(_linear, expression.operands)
    if a is None or b is None:
        return None
    sign = 1 if expression.name == "arith.addi" else -1
    return {loop: a[0].get(loop, 0) + sign * b[0].get(loop, 0) for loop in {**a[0], **b[0]}}, a[1] + sign * b[1]

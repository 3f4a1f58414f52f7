"""Softmax as expressions: which scores it is of, and what else a row's exponentials are divided by than their sum.

A further score without a value is a sink; where it is 0, that is softmax1 (Miller, "Attention is off by one", 2023), which is written in many ways.
"""

from dataclasses import dataclass
from math import inf, log

from inferno.mlir import arith, ir
from inferno.schedule.analysis.expression_tracer import NotUnderstood
from inferno.schedule.analysis.expressions import MAXIMUM, SUM, Expression, Loops
from inferno.schedule.attention.bands import compares
from inferno.schedule.attention.score_expressions import holds, unrounded


@dataclass(frozen=True)
class Softmax:
    """A softmax of ``scores``; ``safe``, ``sink`` and ``added`` as in AttentionKernel.  ``most`` and ``total``: the largest score, None where it is not
    subtracted, and the sum of exponentials."""

    scores: Expression
    safe: bool
    sink: Expression | float | None
    added: float
    most: Expression | None
    total: Expression


def read_softmax(weights: Expression, keys: Loops) -> Softmax:
    """What ``weights`` are; NotUnderstood where they are no softmax over ``keys``."""
    safe = weights.name == "arith.select"
    if safe:
        condition, zero, weights = weights.operands
        if zero.constant != 0:
            raise NotUnderstood
    if weights.name != "arith.divf":
        raise NotUnderstood
    power, total = map(unrounded, weights.operands)
    total, further = _sum(total)
    if total.name != SUM or unrounded(total.operands[0]) is not power or power.name != "math.exp" or not isinstance(total.type, ir.F32Type):
        raise NotUnderstood
    scores, base = _below(power.operands[0])
    most, bound = (None, None) if base is None else _greatest(base)
    if most is not None and unrounded(most.operands[0]) is not unrounded(scores):
        raise NotUnderstood
    sink, added = (None, 0.0) if further is None else _further(further, base)
    if bound is not None and not (bound.constant is not None and not added) and unrounded(bound) is not sink:
        raise NotUnderstood
    if not isinstance(scores.type, ir.F32Type) or (safe and (further is not None or not _is_empty(condition, most))):
        raise NotUnderstood
    if isinstance(sink, Expression):
        scores, sink = _without_common(scores, sink, keys)
    return Softmax(scores, safe, sink, added, most, total)


def _sum(total: Expression) -> tuple[Expression, Expression | None]:
    """A row's sum, and what is added to it."""
    if total.name != "arith.addf":
        return total, None
    found = sorted(map(unrounded, total.operands), key=lambda e: e.name != SUM)
    return found[0], found[1]


def _below(exponent: Expression) -> tuple[Expression, Expression | None]:
    """The scores of an exponent, and what is subtracted from them so that exponentials stay finite."""
    difference = unrounded(exponent)
    if difference.name == "arith.subf" and holds(difference.operands[1], MAXIMUM):
        return difference.operands
    return exponent, None


def _greatest(base: Expression) -> tuple[Expression, Expression | None]:
    """The largest score of a row, and what else may be the base, if it is larger."""
    base = unrounded(base)
    if base.name == "arith.select":  # as clamp has it
        condition, chosen, other = base.operands
        if condition.name == "arith.ori":  # what is no number is the largest
            orders = [e for e in condition.operands if not (compares(e, arith.CmpFPredicate.UNE) and len(set(e.operands)) == 1)]
            condition = orders[0] if len(orders) == 1 else condition
        greater, less = (compares(condition, p) for p in (arith.CmpFPredicate.OGT, arith.CmpFPredicate.OLT))
        if not (greater and condition.operands == (chosen, other)) and not (less and condition.operands == (other, chosen)):
            raise NotUnderstood
        ends = (chosen, other)
    elif base.name in ("arith.maximumf", "arith.maxnumf"):
        ends = base.operands
    else:
        ends = (base,)
    found = [unrounded(e) for e in ends if unrounded(e).name == MAXIMUM]
    bounds = [e for e in ends if unrounded(e).name != MAXIMUM]
    if len(found) != 1:
        raise NotUnderstood
    return found[0], bounds[0] if bounds else None


def _further(further: Expression, base: Expression | None) -> tuple[Expression | float | None, float]:
    """What is added to a row's sum: the exponential of a further score below the same base, or a number."""
    if further.constant is not None:
        if not 0 <= further.constant < inf:
            raise NotUnderstood
        if further.constant == 0:
            return None, 0.0
        return (log(further.constant), 0.0) if base is None else (None, float(further.constant))
    if further.name != "math.exp" or base is None:
        raise NotUnderstood
    exponent = unrounded(further.operands[0])
    if exponent.name == "arith.negf" and unrounded(exponent.operands[0]) is unrounded(base):
        return 0.0, 0.0
    if exponent.name != "arith.subf" or unrounded(exponent.operands[1]) is not unrounded(base):
        raise NotUnderstood
    sink = unrounded(exponent.operands[0])
    return (sink if sink.constant is None else float(sink.constant)), 0.0


def _is_empty(condition: Expression, most: Expression | None) -> bool:
    """Whether a condition is that of a row of nothing but -inf."""
    return most is not None and compares(condition, arith.CmpFPredicate.OEQ) and unrounded(condition.operands[0]) is most \
        and condition.operands[1].constant == -inf


def _without_common(scores: Expression, sink: Expression, keys: Loops) -> tuple[Expression, Expression | float]:
    """Both without what is subtracted from both."""
    while True:
        ends = [unrounded(e) for e in (scores, sink)]
        less = {unrounded(e.operands[1]) for e in ends if e.name == "arith.subf"}
        if any(e.name != "arith.subf" for e in ends) or len(less) != 1 or less.pop().moves_with() & set(keys):
            return scores, ends[1] if ends[1].constant is None else float(ends[1].constant)
        scores, sink = (e.operands[0] for e in ends)

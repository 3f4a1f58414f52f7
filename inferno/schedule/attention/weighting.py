"""What is made of attention's weights before values are multiplied by them: masks and factors behind the softmax, whose sums they do not change.

Scores of keys that are hidden are a large negative number, and their weights 0, so that rows of which all is hidden give 0 (ESPnet, NeMo, DeBERTa).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from inferno.schedule.analysis.expression_tracer import NotUnderstood
from inferno.schedule.analysis.expressions import CONTRACTION, MAXIMUM, READ, SUM, Expression
from inferno.schedule.attention.score_expressions import holds, only, unrounded


@dataclass(frozen=True)
class Weighted:
    """The ``result``, linear in the ``weight``; ``chosen``: it is that or 0."""

    result: Expression
    weight: Expression
    chosen: bool


Choice = tuple[Expression, int]
"""A condition, and which of the two operands behind it is a constant."""


def find_weighting(weights: Expression) -> tuple[Expression, Weighted | None, list[Choice]]:
    """The softmax, what is made of it, if anything is, and the choices by which that is 0 of weights that may be any."""
    inner, choices = weights, []
    while (found := _within(inner)) is not None:
        inner, choice = unrounded(found[0]), found[1]
        choices.append(choice)
    hidden = [c for c in choices if c is not None]
    return inner, Weighted(weights, inner, None not in choices) if choices else None, hidden


def _within(expression: Expression) -> tuple[Expression, Choice | None] | None:
    """What is multiplied or divided by something else, or chosen beside 0, and that choice; None of anything else."""
    match expression.name, expression.operands:
        case "arith.mulf", [a, b] if _is_of_rows(a) != _is_of_rows(b):
            return (a if _is_of_rows(a) else b), None
        case "arith.divf", [a, b] if _is_of_rows(a) and not _is_of_rows(b):
            return a, None
        case "arith.select", [condition, *values] if not _is_of_rows(condition):
            return next(((values[1 - side], (condition, side)) for side, value in enumerate(values) if value.constant == 0), None)
    return None


def _is_of_rows(expression: Expression) -> bool:
    """Whether an expression is one of a softmax."""
    return holds(expression, MAXIMUM, SUM)


def hides_rows(hidden: Sequence[Choice], scores: Expression) -> bool:
    """Whether rows of which all is hidden, which give 0, have nothing but -inf as scores.  What is hidden has to be a constant in front of the softmax, too:
    of rows of nothing but -inf weights are no numbers, of which what is not hidden has to stay none."""
    if not hidden:
        return False
    (condition, side), scores = hidden[0], unrounded(scores)
    fill = scores.operands[1 + side].constant if scores.name == "arith.select" and scores.operands[0] is condition else None
    if fill is None or any(c is not condition or s != side for c, s in hidden) or not (isfinite(fill) or fill == -inf):
        raise NotUnderstood
    if fill == -inf and _may_be_hidden(scores.operands[2 - side]):
        raise NotUnderstood  # a row may have nothing but -inf besides
    return fill == -inf


def _may_be_hidden(scores: Expression) -> bool:
    """Whether scores may be -inf themselves: by a constant, or by what is read beside the product."""
    product = only([scores], CONTRACTION)
    above = [e for e in scores.walk(lambda e: e is product) if e is not product]
    return any(e.name == READ or e.constant == -inf for e in above)

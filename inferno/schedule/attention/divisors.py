"""What weights that are no softmax are divided by: a number of each row, made of the sum of its weights, or of their sizes (linear attention, RetNet)."""

from dataclasses import dataclass

from inferno.mlir import ir
from inferno.schedule.analysis.expression_tracer import NotUnderstood
from inferno.schedule.analysis.expressions import CONTRACTION, INDEX, MAXIMUM, READ, SUM, Expression
from inferno.schedule.attention.score_expressions import holds, only, unrounded
from inferno.schedule.matmul.contraction import Map


@dataclass(frozen=True)
class Divisor:
    """``absolute``: of the weights' sizes; ``made``: of their sum, its ``accumulators``; None where that is the divisor."""

    absolute: bool
    made: Map | None


@dataclass(frozen=True)
class Divided:
    """``weights`` over ``divisor``, which is made of ``total``, their sum or if ``absolute`` that of their sizes."""

    weights: Expression
    divisor: Expression
    total: Expression
    absolute: bool


def read_divided(weights: Expression) -> Divided | None:
    """What ``weights`` are where they are divided by something of their row; None where they are not, NotUnderstood where that is something else."""
    if not holds(weights, SUM):
        return None
    if weights.name != "arith.divf":
        raise NotUnderstood
    value, divisor = map(unrounded, weights.operands)
    total = only([divisor], SUM)
    summed = unrounded(total.operands[0])
    absolute = summed.name == "math.absf"
    if (unrounded(summed.operands[0]) if absolute else summed) is not value or holds(value, SUM):
        raise NotUnderstood
    if holds(divisor, CONTRACTION, MAXIMUM, READ, INDEX, stop=total) or not all(isinstance(e.type, ir.F32Type) for e in (total, divisor)):
        raise NotUnderstood
    return Divided(value, divisor, total, absolute)

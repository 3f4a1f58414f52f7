"""What expressions of scores are made of: the contraction, softmax's sums and maxima, casts, and factors that are constants."""

from collections.abc import Sequence
from math import inf

from inferno.mlir import ir
from inferno.schedule.analysis.expression_tracer import NotUnderstood
from inferno.schedule.analysis.expressions import Expression


def only(expressions: Sequence[Expression], name: str) -> Expression:
    """The one of this name that they are computed of."""
    found = {e for one in expressions for e in one.walk(lambda e: e.name == name) if e.name == name}
    if len(found) != 1:
        raise NotUnderstood
    return found.pop()


def readers_of(expression: Expression, inner: Expression) -> list[Expression]:
    """What in an expression takes ``inner`` as it is."""
    return [e for e in expression.walk(lambda e: e is inner) if e is not inner and inner in e.operands]


def holds(expression: Expression, *names: str, stop: Expression | None = None) -> bool:
    """Whether one of these operations is in an expression; what is below ``stop`` is not looked at."""
    return any(e.name in names for e in expression.walk(lambda e: e is stop))


def unrounded(expression: Expression) -> Expression:
    """What is in front of changes of precision."""
    while expression.name in ("arith.extf", "arith.truncf"):
        expression = expression.operands[0]
    return expression


def constant_factor(expression: Expression) -> tuple[Expression, float]:
    """What is multiplied by a positive constant, and that; 1 where it is nothing like that."""
    if expression.name == "arith.divf":
        value, constant = expression.operands
        return (value, 1 / constant.constant) if constant.constant is not None and 0 < constant.constant < inf else (expression, 1.0)
    values = [e for e in expression.operands if e.constant is None]
    constants = [e.constant for e in expression.operands if e.constant is not None]
    if expression.name != "arith.mulf" or len(constants) != 1 or not 0 < constants[0] < inf:
        return expression, 1.0
    return values[0], constants[0]


def unscaled(factor: Expression) -> tuple[Expression, float]:
    """A factor of a contraction before it was multiplied by a constant, and rounded, and that constant."""
    widened = factor.name == "arith.extf"
    scaled = factor.operands[0] if widened else factor
    if widened and scaled.name == "arith.truncf":
        scaled = scaled.operands[0]
    value, constant = constant_factor(scaled)
    before = value.operands[0] if value.name == "arith.extf" else value
    fits = before.type == factor.operands[0].type and value.type == factor.type if widened else value.type == factor.type
    fits = fits and (constant <= 1 or not isinstance(before.type, ir.F16Type))  # what is too large for it is infinite
    return (value, constant) if value is not scaled and fits else (factor, 1.0)


def plain(expression: Expression) -> Expression:
    """A score without what rounds it to a type with its range and widens it again, and without what adds nothing."""
    if expression.name == "arith.extf" and (inner := expression.operands[0]).name == "arith.truncf" and inner.operands[0].type == expression.type:
        return inner.operands[0] if isinstance(inner.type, ir.BF16Type) else expression
    if expression.name == "arith.addf" and any(e.constant == 0 for e in expression.operands):
        return next(e for e in expression.operands if e.constant != 0 or e is expression.operands[1])
    return expression

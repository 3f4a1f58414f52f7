"""Masks that are conditions on numbers of queries and keys alone, where weights are no softmax: what such a mask hides has a weight of 0, however that comes
about: by a choice, by a factor, or as the sigmoid of -inf.
"""

from collections.abc import Callable, Sequence
from math import copysign, exp, inf, isnan, nan

from inferno.mlir import ir
from inferno.schedule.analysis.expressions import CONTRACTION, Expression, Expressions, Loop, Loops
from inferno.schedule.attention.bands import Band, read_band
from inferno.symbolic import maximum, minimum

_LARGEST = 3.4e38  # of float32, in which weights are computed


def find_zero_band(made: Expressions, weights: Expression, keys: Loops, shared: Sequence[Loop]) -> tuple[Expression, Band | None, list[Loop]]:
    """The weights inside of a band, outside of which they are 0, that band, and the loops that are queries; without one the weights as they are, and no
    loops.  ``shared`` are those that may be queries."""
    low = high = queries = None
    for condition in [e for e in weights.walk(lambda e: e.name == CONTRACTION) if e.name == "arith.cmpi"]:
        for holds in (True, False):
            found = read_band(condition, holds, keys, shared)
            if found is None or found[2] != (queries or found[2]):
                continue
            outside, inside = (_with(made, weights, condition, value) for value in (not holds, holds))
            if outside.constant != 0:
                continue
            weights, queries = inside, found[2]
            low = found[0] if low is None else low if found[0] is None else maximum(low, found[0])
            high = found[1] if high is None else high if found[1] is None else minimum(high, found[1])
            break
    return (weights, None, []) if queries is None else (weights, Band(low, high), queries)


def _with(made: Expressions, weights: Expression, condition: Expression, value: bool) -> Expression:
    """The weights where the condition is known."""
    known = made.constant(ir.IntegerAttr.get(condition.type, int(value)))
    return made.rebuild(weights, lambda e: known if e is condition else _computed(made, e))


def _computed(made: Expressions, e: Expression) -> Expression:
    """Of constants a constant; what is multiplied by 0 is 0, as is what is larger than nothing."""
    if e.name == "arith.xori" and all(x.constant is not None for x in e.operands):
        return made.constant(ir.IntegerAttr.get(e.type, e.operands[0].constant != e.operands[1].constant))
    if not isinstance(e.type, ir.FloatType):
        return e
    if e.name == "arith.mulf" and any(x.constant == 0 for x in e.operands):
        return made.constant(ir.FloatAttr.get(e.type, 0.0))
    values = [x.constant for x in e.operands]
    if e.name not in _OPERATIONS or None in values:
        return e
    try:
        found = float(_OPERATIONS[e.name](*map(float, values)))
    except OverflowError:
        found = inf
    found = copysign(inf, found) if abs(found) > _LARGEST else found
    return e if isnan(found) else made.constant(ir.FloatAttr.get(e.type, found))


def _quotient(a: float, b: float) -> float:
    return a / b if b else nan


_OPERATIONS: dict[str, Callable[..., float]] = {
    "arith.addf": float.__add__, "arith.subf": float.__sub__, "arith.mulf": float.__mul__, "arith.divf": _quotient, "arith.negf": float.__neg__,
    "arith.maximumf": max, "arith.maxnumf": max, "arith.minimumf": min, "arith.minnumf": min, "math.exp": exp, "arith.uitofp": abs,
}

"""How a running maximum and the sum of exponentials below it are updated and combined, on scalars or vectors of lanes.

A sum is relative to its largest term, or to 0 where that is infinite: a factor brings it to another one.  Factors are libdevice's exponentials, for
their errors are all of a sum's; those of terms are the hardware's power of two, as in ``row_exponentials``.
"""

from collections.abc import Callable, Sequence
from math import e, inf, log2

from inferno.codegen.builders.elements import convert, join, lanes_of, splat, tree
from inferno.mlir import arith, ir, llvm, math
from inferno.schedule.analysis.combiners import Combiner

_HIGH = 1.44269502162933349609375  # log2(e) in float32
_LOW = log2(e) - _HIGH


def take_exponentials(combiners: Sequence[Combiner], running: list[ir.Value], terms: Sequence[ir.Value]) -> list[ir.Value]:
    """The running values with terms more, which are all scalars or all vectors of lanes of their own."""
    largest, total = running
    own = tree(combiners[0].combine, terms)
    grown = combiners[0].combine(largest, own)
    base = _base(grown)
    new = tree(combiners[1].combine, [_power(arith.subf(x, base)) for x in terms])
    return [grown, arith.addf(arith.mulf(total, _factor(largest, base)), convert(new, ir.F64Type.get()), fastmath=_contract())]


def join_exponentials(combiners: Sequence[Combiner], a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
    """What two parts have together."""
    grown = combiners[0].combine(a[0], b[0])
    base = _base(grown)
    first, second = (arith.mulf(total, _factor(largest, base), fastmath=_contract()) for largest, total in (a, b))
    return [grown, arith.addf(first, second, fastmath=_contract())]


def _base(largest: ir.Value) -> ir.Value:
    zero, bound = splat(largest.type, 0.0), splat(largest.type, inf)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(largest), bound), zero, largest)


def _factor(largest: ir.Value, base: ir.Value) -> ir.Value:
    """What brings a sum relative to ``largest`` to one relative to ``base``, in float64.  (Of minus infinity alone both are 0.)"""
    return convert(_lanewise(math.exp, arith.subf(largest, base)), ir.F64Type.get())


def _power(x: ir.Value) -> ir.Value:
    """exp(x) for a term of a sum."""
    high, low = splat(x.type, _HIGH), splat(x.type, _LOW)
    power = arith.addf(arith.mulf(x, low, fastmath=_contract()), arith.mulf(x, high, fastmath=_contract()), fastmath=_contract())
    return _lanewise(lambda y: llvm.CallIntrinsicOp(y.type, "llvm.nvvm.ex2.approx.ftz.f", [y], [], []).operation.results[0], power)


def _lanewise(function: Callable[[ir.Value], ir.Value], x: ir.Value) -> ir.Value:
    return join([function(y) for y in lanes_of(x)]) if isinstance(x.type, ir.VectorType) else function(x)


def _contract() -> ir.Attribute:
    return ir.Attribute.parse("#arith.fastmath<contract>")

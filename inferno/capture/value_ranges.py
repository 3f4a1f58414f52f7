"""Bounds of the elements of a graph's tensors (interval analysis): the factor of a decay is at most 1.

Rounding keeps them: what is between 0 and 1 before it is rounded is so afterwards.  NaN is in every range.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

aten, prims = torch.ops.aten, torch.ops.prims
Range = tuple[float, float]
ALL: Range = (-math.inf, math.inf)
_DEEP = 64  # operations

_MOVES = {
    aten.select.int, aten.slice.Tensor, aten.permute.default, aten.transpose.int, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.expand.default, aten.clone.default, aten.reshape.default, aten._unsafe_view.default, aten._to_copy.default,
    prims.convert_element_type.default,
}


def value_range(value: Any, depth: int = 0) -> Range:
    """Of a node of a graph of decomposed operations, or of a number."""
    if isinstance(value, (bool, int, float)):
        return float(value), float(value)
    made = value.meta.get("val") if isinstance(value, Node) else None
    if isinstance(made, torch.Tensor) and made.dtype == torch.bool:
        return 0.0, 1.0
    if made is None or depth > _DEEP or value.op != "call_function":
        return ALL
    of = lambda i: value_range(value.args[i], depth + 1)  # noqa: E731
    target = value.target
    if target in _MOVES:
        return of(0)
    if target in (aten.full.default, aten.full_like.default):
        return of(1)
    if target is aten.scalar_tensor.default:
        return of(0)
    if target in _RISING:
        return tuple(_RISING[target](x) for x in of(0))
    if target in _BETWEEN:
        return _BETWEEN[target]
    if target is aten.neg.default:
        lo, hi = of(0)
        return -hi, -lo
    if target is aten.abs.default:
        lo, hi = of(0)
        return max(0.0, lo, -hi), max(-lo, hi)
    if target in (aten.mul.Tensor, aten.mul.Scalar):
        ends = [_product(a, b) for a in of(0) for b in of(1)]
        return min(ends), max(ends)
    if target in (aten.add.Tensor, aten.sub.Tensor) and value.kwargs.get("alpha", 1) == 1:
        (a, b), (c, d) = of(0), of(1)
        return (_sum(a, c, -1), _sum(b, d, 1)) if target is aten.add.Tensor else (_sum(a, -d, -1), _sum(b, -c, 1))
    if target in (aten.minimum.default, aten.maximum.default):
        pick = min if target is aten.minimum.default else max
        return tuple(pick(x, y) for x, y in zip(of(0), of(1)))
    if target is aten.where.self:
        first, second = _where(value, depth), of(2)
        return min(first[0], second[0]), max(first[1], second[1])
    return ALL


def _where(node: Node, depth: int) -> Range:
    """Of what is chosen where the condition holds, which may be that it is more than a number: so softplus is written."""
    condition, chosen = node.args[0], node.args[1]
    lo, hi = value_range(chosen, depth + 1)
    if isinstance(condition, Node) and condition.target is aten.gt.Scalar and condition.args[0] is chosen:
        lo = max(lo, float(condition.args[1]))
    return lo, hi


def _guarded(function: Callable[[float], float], least: float, end: float) -> Callable[[float], float]:
    """A rising function, which is ``end`` at what is no more than ``least``; infinite where it overflows."""

    def call(x: float) -> float:
        try:
            return end if x <= least else function(x)
        except OverflowError:
            return math.inf

    return call


_RISING = {
    aten.exp.default: _guarded(math.exp, -math.inf, 0.0), aten.exp2.default: _guarded(lambda x: 2.0**x, -math.inf, 0.0),
    aten.log1p.default: _guarded(math.log1p, -1.0, -math.inf), aten.log.default: _guarded(math.log, 0.0, -math.inf),
    aten.sqrt.default: _guarded(math.sqrt, 0.0, 0.0), aten.relu.default: lambda x: max(x, 0.0),
}
_BETWEEN: dict[Any, Range] = {
    aten.sigmoid.default: (0.0, 1.0), aten.tanh.default: (-1.0, 1.0), aten.sin.default: (-1.0, 1.0), aten.cos.default: (-1.0, 1.0),
}


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _sum(a: float, b: float, side: int) -> float:
    """Nothing is known of opposite infinities."""
    found = a + b
    return side * math.inf if math.isnan(found) else found

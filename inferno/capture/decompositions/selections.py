"""Integer powers by products, a selection between a tensor and itself, and comparisons with numbers.

torch-mlir has powers of floating-point numbers alone; ``where(c, x, x)`` it folds to ``x``, which has another shape if ``c`` is larger;
a number that a boolean is compared with it takes as one bit, and one that a float is compared with as a number of 64 bits, which 0.1 of
float32 is not equal to.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
_MOST = 64  # the highest power of an integer but 0, 1 and -1 that int64 holds is the 62nd


def power(x: Tensor, exponent: Any) -> Tensor:
    """``x ** exponent`` by squaring, for integers; they wrap around as torch's do."""
    whole = isinstance(x, Tensor) and not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool
    if not whole or not isinstance(exponent, int) or isinstance(exponent, bool) or not 0 <= exponent <= _MOST:
        return NotImplemented
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x if exponent else x
    return torch.ones_like(x) if result is None else result.clone()


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    if x is not y:
        return NotImplemented
    return x.expand(torch.broadcast_shapes(condition.shape, x.shape)).clone()


def _round(x: Tensor, number: Any) -> Any:
    """The number as torch compares it: in the tensor's type, of 16 bits on a GPU in float32."""
    if not isinstance(number, (int, float)):
        return number
    dtype = torch.float32 if x.device.type == "cuda" and x.dtype.itemsize <= 2 else x.dtype
    with _disable_current_modes():  # a number of its own, and nothing of the graph
        return torch.tensor(number, dtype=torch.float64, device="cpu").to(dtype).item()


def _compare(operator: Any) -> Callable:
    def compare(x: Tensor, other: Any) -> Tensor:
        if x.is_floating_point():
            rounded = _round(x, other)
            return NotImplemented if rounded == other or rounded != rounded else operator(x, rounded)
        if x.dtype is not torch.bool or isinstance(other, (bool, float)):
            return NotImplemented
        return operator(x.to(torch.int64), other)

    return compare


def add(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Of booleans and one that is no tensor, which torch-mlir adds as bits."""
    if not isinstance(x, Tensor) or x.dtype is not torch.bool or not isinstance(other, bool):
        return NotImplemented
    return torch.logical_or(x, torch.full((), other and bool(alpha), dtype=torch.bool, device=x.device))


_COMPARISONS = (aten.gt.Scalar, aten.ge.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.eq.Scalar, aten.ne.Scalar)
TABLE = {
    aten.add.Tensor: add, aten.add.Scalar: add, aten.pow.Tensor_Scalar: power, aten.where.self: where, **{op: _compare(op) for op in _COMPARISONS},
}

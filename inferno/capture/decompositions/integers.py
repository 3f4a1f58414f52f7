"""Common divisors and powers of integers, in as many steps as the largest number of the type can need, negated integers, and shifts that are written
``<<``."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import tensor_of

aten = torch.ops.aten


def gcd(x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm; numbers of b bits are done after b / log2 of the golden ratio steps (Lamé)."""
    dtype = torch.result_type(x, y)
    if dtype == torch.uint8 or dtype.is_floating_point:
        return NotImplemented
    a, b = (t.to(dtype).abs() for t in torch.broadcast_tensors(y, x))  # in torch's order: signs differ where the least number has no absolute value
    for _ in range(math.ceil((torch.iinfo(dtype).bits - 1) / math.log2((1 + math.sqrt(5)) / 2)) + 1):
        done = b == 0
        rest = torch.fmod(a, torch.where(done, 1, b))
        a, b = torch.where(done, a, b), torch.where(done, 0, rest)
    return a


def lcm(x: Tensor, y: Tensor) -> Tensor:
    common = gcd(x, y)
    if common is NotImplemented:
        return NotImplemented
    # torch multiplies in int at least, and wraps around only where the product is stored.
    wide = common.dtype if torch.iinfo(common.dtype).bits >= 32 else torch.int32
    x = torch.div(x.to(wide), torch.where(common == 0, 1, common).to(wide), rounding_mode="trunc")
    return (x * y.to(wide)).abs().to(common.dtype)


def neg(x: Tensor) -> Tensor:
    """What zero is more than ``x``: the import negates as float32, which holds 24 bits of an integer."""
    return torch.rsub(x, 0) if x.dtype in _WHOLE else NotImplemented


def power(x: Tensor, exponent: Tensor) -> Tensor:
    """By squaring, wrapping around as torch's does; with a negative exponent what is not 1 or -1 is 0."""
    dtype = torch.result_type(x, exponent)
    if dtype.is_floating_point or dtype.is_complex or dtype in (torch.uint8, torch.bool):
        return NotImplemented
    base, left = (t.to(dtype) for t in torch.broadcast_tensors(x, exponent))
    found, square = torch.ones_like(base), base
    for i in range(torch.iinfo(dtype).bits - 1):
        odd = torch.bitwise_and(torch.bitwise_right_shift(left, torch.full((), i, dtype=dtype, device=x.device)), torch.ones_like(left)) != 0
        found = torch.where(odd, found * square, found)
        square = square * square
    odd = torch.bitwise_and(left, torch.ones_like(left)) != 0
    below = torch.where(base == 1, 1, torch.where(base == -1, torch.where(odd, -1, 1), 0))
    return torch.where(left < 0, below, found).to(dtype)


def power_of_number(base: float, exponent: Tensor) -> Tensor:
    """``aten.pow.Scalar``: a whole number to the powers of a tensor of integers, in its type and shape; NotImplemented for others."""
    if not isinstance(base, int) or exponent.dtype not in _WHOLE:
        return NotImplemented
    if base == 2:  # one bit, where there is one: 63 squarings take seconds to compile
        bits = torch.iinfo(exponent.dtype).bits
        inside = (exponent >= 0) & (exponent < bits)
        one = torch.ones_like(exponent)
        return torch.where(inside, torch.bitwise_left_shift(one, torch.where(inside, exponent, 0)), 0)
    return power(tensor_of(base, exponent.dtype, exponent.device), exponent)


def power_of_boolean(x: Tensor, exponent: float) -> Tensor:
    """Which is a number, and the boolean's own unless the exponent is 0."""
    if x.dtype != torch.bool or not isinstance(exponent, int) or isinstance(exponent, bool) or exponent < 0:
        return NotImplemented
    return x.to(torch.int64) if exponent else torch.ones_like(x, dtype=torch.int64)


def _shift(operator: Any) -> Callable:
    """``operator``, of integers; ``<<`` of floats multiplies."""

    def shift(x: Tensor | int, by: Tensor | int) -> Tensor:
        if any(isinstance(v, float) or (isinstance(v, Tensor) and v.dtype not in _WHOLE) for v in (x, by)):
            return NotImplemented
        dtype, device = torch.result_type(x, by), (x if isinstance(x, Tensor) else by).device
        x, by = (v if isinstance(v, Tensor) else tensor_of(v, dtype, device) for v in (x, by))
        return operator(x.to(dtype), by.to(dtype))

    return shift


_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64)
TABLE = {
    aten.neg.default: neg, aten.gcd.default: gcd, aten.lcm.default: lcm, aten.pow.Tensor_Tensor: power, aten.pow.Tensor_Scalar: power_of_boolean,
    aten.pow.Scalar: power_of_number,
    **{op: _shift(aten.bitwise_left_shift.Tensor) for op in (
        aten.__lshift__.Tensor, aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Scalar_Tensor,
    )},
    **{op: _shift(aten.bitwise_right_shift.Tensor) for op in (
        aten.__rshift__.Tensor, aten.__rshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Scalar_Tensor,
    )},
}

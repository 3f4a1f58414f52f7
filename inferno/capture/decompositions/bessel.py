"""Modified Bessel functions, computed in float64 for results of at most float32.

The power series up to 12, where all its terms are positive, and Hankel's expansion beyond (DLMF 10.25, 10.40).
"""

import math

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import float_type

aten = torch.ops.aten

_LOG_OF_LARGEST = math.log(torch.finfo(torch.float32).max)
_SPLIT = 12.0  # from here on the expansion, which is good to 1.3e-10 here (to 2.4e-9 at 10), far below float32's last bit
_SERIES = 34  # terms: the last one is under 1e-10 of the sum at 12
_HANKEL = 16  # terms: the last one is under 1e-9 of the sum at 12


def i0(x: Tensor) -> Tensor:
    return _bessel_i(0, x, scaled=False)


def i0e(x: Tensor) -> Tensor:
    return _bessel_i(0, x, scaled=True)


def i1(x: Tensor) -> Tensor:
    return _bessel_i(1, x, scaled=False)


def i1e(x: Tensor) -> Tensor:
    return _bessel_i(1, x, scaled=True)


def _bessel_i(order: int, x: Tensor, scaled: bool) -> Tensor:
    """I of ``order`` 0 or 1, times exp(-|x|) if ``scaled``."""
    if x.dtype == torch.float64 or x.is_complex():
        return NotImplemented
    wide = x.to(torch.float64)
    size = wide.abs()
    near = torch.where(size < _SPLIT, size, 0)
    small = _polynomial([0.25**k / (math.factorial(k) * math.factorial(k + order)) for k in range(_SERIES)], near * near)
    small = small * (near / 2) if order else small
    small = small * torch.exp(-near) if scaled else small
    far = torch.where(size < _SPLIT, _SPLIT, size)
    coefficients = [1.0]
    for k in range(1, _HANKEL):
        coefficients.append(-coefficients[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    large = _polynomial(coefficients, 1 / far) * torch.rsqrt(2 * math.pi * far)
    if not scaled:
        large = large * torch.exp(far)
        # torch multiplies with an exponential in float32: infinite where that is, and no number of infinity.
        large = torch.where(far > _LOG_OF_LARGEST, math.inf, large)
        large = torch.where(far == math.inf, math.nan, large)
    found = torch.where(size < _SPLIT, small, large)
    if order:
        found = torch.where(wide < 0, -found, found)
    dtype = float_type(x)
    return torch.where(torch.isnan(wide), wide, found).to(dtype)


def _polynomial(coefficients: list[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


TABLE = {
    aten.i0.default: i0, aten.special_i0e.default: i0e, aten.special_i1.default: i1, aten.special_i1e.default: i1e,
    aten.special_modified_bessel_i0.default: i0, aten.special_modified_bessel_i1.default: i1,
}

"""The gamma function's relatives, computed in float64 for results of at most float32: series that end below float32's digits.

Stirling's series at eight steps and more from 0, reached by the recurrence, and reflected for what is negative (DLMF 5.5, 5.11).
"""

import math

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import float_type

aten = torch.ops.aten

_STEPS = 8  # of the recurrence; at 8 the last term of the series below is under 1e-14
_LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # B(2k) / (2k (2k-1))
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # B(2k) / 2k

_MOST = 8  # derivatives of digamma: of more, the sum above would need more terms


def lgamma(x: Tensor) -> Tensor:
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    if x.dtype == torch.float64 or x.is_complex():
        return NotImplemented
    wide = x.to(torch.float64)
    below = wide < 0.5
    found = _lgamma_of_positive(torch.where(below, 1 - wide, wide))
    sine = torch.sin(math.pi * (wide - torch.trunc(wide))).abs()
    # Of infinities the difference below is none; -inf is taken for one of the integers, where the sine is 0.
    reflected = torch.where((sine == 0) | (wide == -math.inf), math.inf, math.log(math.pi) - torch.log(sine) - found)
    return torch.where(below, reflected, found).to(float_type(x))


def _lgamma_of_positive(x: Tensor) -> Tensor:
    near = x < _STEPS
    base = torch.where(near, x, 1)
    product = base
    for k in range(1, _STEPS):
        product = product * (base + k)
    z = torch.where(near, x + _STEPS, x)
    series = _odd_powers(_LGAMMA, 1 / z)
    found = (z - 0.5) * (torch.log(z) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    found = torch.where(near, found - torch.log(product), found)
    found = torch.where((x == 1) | (x == 2), 0.0, found)
    return torch.where(x == math.inf, math.inf, found)


def digamma(x: Tensor) -> Tensor:
    """The derivative of log gamma; NaN at the negative integers, and infinite at 0 with the sign that 0 has not."""
    if x.dtype == torch.float64 or x.is_complex():
        return NotImplemented
    wide = x.to(torch.float64)
    negative = wide < 0
    found = _digamma_of_positive(torch.where(negative, 1 - wide, wide))
    part = wide - torch.trunc(wide)
    reflected = torch.where(part == 0, math.nan, found - math.pi / torch.tan(math.pi * part))
    found = torch.where(negative, reflected, found)
    return torch.where(wide == 0, -torch.copysign(torch.full_like(wide, math.inf), wide), found).to(float_type(x))


def _digamma_of_positive(x: Tensor) -> Tensor:
    near = x < _STEPS
    base = torch.where(near, x, 1)
    back = 1 / base
    for k in range(1, _STEPS):
        back = back + 1 / (base + k)
    z = torch.where(near, x + _STEPS, x)
    inverse = 1 / z
    found = torch.log(z) - 0.5 * inverse - inverse * _odd_powers(_DIGAMMA, inverse)
    return torch.where(near, found - back, found)


def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma: (-1)**(n + 1) n! zeta(n + 1, x), and by derivatives of the cotangent below 0.5."""
    if n == 0:
        return digamma(x)
    if x.dtype == torch.float64 or n > _MOST:
        return NotImplemented
    wide = x.to(torch.float64)
    below = wide < 0.5
    sign = -1.0 if n % 2 == 0 else 1.0
    found = sign * math.factorial(n) * zeta_of_integer(n + 1, torch.where(below, 1 - wide, wide))
    angle = math.pi * (wide - torch.trunc(wide))
    cotangent = torch.cos(angle) / torch.sin(angle)
    reflected = -sign * found - math.pi ** (n + 1) * _derivative_of_cotangent(n, cotangent)
    found = torch.where(below, torch.where((angle == 0) | (wide == -math.inf), sign * math.inf, reflected), found)
    found = torch.where(wide == (math.inf if n > 1 else -math.inf), math.nan, found)  # as torch has it
    return found.to(float_type(x))


def zeta_of_integer(s: int, x: Tensor) -> Tensor:
    """The sum of (x + k)**-s over k from 0, for x from 0.5 on, by Euler and Maclaurin's formula behind the first terms."""
    total = torch.zeros_like(x)
    for k in range(_STEPS):
        total = total + (x + k) ** -s
    z = x + _STEPS
    rest = 1 / (s - 1) + 0.5 / z
    for k, b in enumerate(_DIGAMMA, 1):
        rest = rest + b * math.prod(range(s, s + 2 * k - 1)) / math.factorial(2 * k - 1) * z ** (-2 * k)
    return total + z ** (1 - s) * rest


def _derivative_of_cotangent(n: int, c: Tensor) -> Tensor:
    """The n-th derivative of cot, as a polynomial of the cotangent ``c``: that of c**k is -k c**(k-1) (1 + c**2)."""
    powers = [0.0, 1.0]
    for _ in range(n):
        slope = [k * p for k, p in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope])]
    total = torch.zeros_like(c)
    for p in reversed(powers):
        total = total * c + p
    return total


def _odd_powers(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """c[0] x + c[1] x**3 + ..."""
    square = x * x
    total = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * square + c
    return total * x


TABLE = {aten.lgamma.default: lgamma, aten.digamma.default: digamma, aten.polygamma.default: polygamma}

"""``frexp``, ``nextafter`` and the like without access to a number's bits: exact in float64, by powers of two."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

_STEPS = (128, 64, 32, 16, 8, 4, 2, 1)  # any exponent of float32, also of what is subnormal there, is a sum of these


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1; e is 0 for 0, infinities and NaN, which are their own m."""
    if x.dtype == torch.float64 or not x.is_floating_point():
        return NotImplemented
    part, _, exponent = _take_apart(x.to(torch.float64).abs())
    part = torch.where(x < 0, -part, part)
    plain = _is_plain(x)
    return torch.where(plain, part.to(x.dtype), x), torch.where(plain, exponent, 0)


def nextafter(x: Tensor, y: Tensor) -> Tensor:
    """The neighbour of x on the side of y."""
    x, y = torch.broadcast_tensors(x, y)
    if x.dtype != y.dtype or x.dtype == torch.float64 or not x.is_floating_point():
        return NotImplemented
    info = torch.finfo(x.dtype)
    least = info.smallest_normal * info.eps
    wide = x.to(torch.float64)
    size = wide.abs()
    part, scale, _ = _take_apart(size)
    grows = (x < y) == (x > 0)
    # The spacing is eps/2 of the power of two above, and half of that below a power of two.
    spacing = scale * torch.where((part == 0.5) & ~grows, info.eps / 4, info.eps / 2)
    spacing = torch.clamp(spacing, min=least)
    moved = torch.where(grows, size + spacing, size - spacing)
    moved = torch.where(size == math.inf, info.max, moved)
    found = torch.where(wide < 0, -moved, moved)
    found = torch.where(wide == 0, torch.where(y < 0, -least, least), found)
    found = torch.where(x == y, y.to(torch.float64), found).to(x.dtype)
    return torch.where(torch.isnan(x) | torch.isnan(y), math.nan, found)


def _take_apart(size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(m, s, e) of positive numbers in float64: m * s with s = 2**e."""
    scale, exponent = torch.ones_like(size), torch.zeros_like(size, dtype=torch.int32)
    for large in (True, False):
        for k in _STEPS:
            step = size >= 2.0**k if large else size < 2.0**-k
            size = torch.where(step, size * 2.0 ** (-k if large else k), size)
            scale = torch.where(step, scale * 2.0 ** (k if large else -k), scale)
            exponent = torch.where(step, exponent + (k if large else -k), exponent)
    step = size >= 1
    return torch.where(step, size * 0.5, size), torch.where(step, scale * 2, scale), torch.where(step, exponent + 1, exponent)


def _is_plain(x: Tensor) -> Tensor:
    return (x != 0) & (x.abs() < math.inf)


TABLE = {aten.frexp.Tensor: frexp, aten.nextafter.default: nextafter}

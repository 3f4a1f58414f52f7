"""The error function's complement and inverse, in float64 for results of at most float32."""

import math

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import float_type

aten = torch.ops.aten

_FRACTION = 18  # depth of the continued fraction: at 2 its error is under 1e-11 of the value


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), and beyond 2, where that has no digits left, by Laplace's continued fraction (DLMF 7.9)."""
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float64)
    far = torch.where(wide > 2, wide, 2.0)
    return torch.where(wide > 2, torch.exp(-far * far) * _scaled_tail(far), 1 - torch.erf(wide)).to(float_type(x))


def erfcx(x: Tensor) -> Tensor:
    """erfc(x) exp(x**2), which falls like 1/x."""
    return NotImplemented if x.dtype == torch.float64 else _erfcx(x.to(torch.float64)).to(float_type(x))


def log_ndtr(x: Tensor) -> Tensor:
    """The log of the normal distribution's integral up to ``x``; below 1 by what is left of it beside the exponential."""
    if x.dtype == torch.float64:
        return NotImplemented
    t = x.to(torch.float64) / math.sqrt(2)
    below = torch.log(_erfcx(-t) / 2) - t * t
    above = torch.log1p((torch.erf(torch.where(t < 0.5, 0.5, t)) - 1) / 2)
    found = torch.where(x < 1, below, above)
    return torch.where(x == -math.inf, -math.inf, found).to(float_type(x))


def _erfcx(x: Tensor) -> Tensor:
    near = torch.where(x > 2, 2.0, x)
    return torch.where(x > 2, _scaled_tail(torch.where(x > 2, x, 2.0)), torch.exp(near * near) * (1 - torch.erf(near)))


def _scaled_tail(x: Tensor) -> Tensor:
    """erfcx from 2 on."""
    fraction = x
    for k in range(_FRACTION, 0, -1):
        fraction = x + (k / 2) / fraction
    return 1 / (fraction * math.sqrt(math.pi))


def erfinv(x: Tensor) -> Tensor:
    """Newton's method on erf, from Winitzki's approximation (relative error 2e-3), which Halley's correction makes cubic."""
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float64)
    inside = wide.abs() < 1
    y = torch.where(inside, wide, 0.0)
    log = torch.log((1 - y) * (1 + y))
    half = 2 / (math.pi * 0.147) + log / 2
    found = torch.sqrt(torch.sqrt(half * half - log / 0.147) - half)
    found = torch.where(y < 0, -found, found)
    for _ in range(2):
        step = (torch.erf(found) - y) * torch.exp(found * found) * (math.sqrt(math.pi) / 2)
        found = found - step / (1 + found * step)
    found = torch.where(wide.abs() < 1e-9, wide * (math.sqrt(math.pi) / 2), found)  # the root above would cancel
    edge = torch.where(wide.abs() == 1, wide * math.inf, math.nan)
    return torch.where(inside, found, edge).to(float_type(x))


TABLE = {
    aten.erfc.default: erfc, aten.erfinv.default: erfinv, aten.special_erfcx.default: erfcx, aten.special_log_ndtr.default: log_ndtr,
}

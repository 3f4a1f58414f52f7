"""Maxima, minima and what is made of them: a NaN on either side is the result, which the import's comparisons lose."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten


def maximum(x: Tensor, y: Tensor) -> Tensor:
    if _is_unsigned(x, y):
        return torch.maximum(x.to(torch.int32), y.to(torch.int32)).to(torch.result_type(x, y))
    if not _is_float(x, y):
        return NotImplemented
    return torch.where((x > y) | torch.isnan(x), x, y)


def minimum(x: Tensor, y: Tensor) -> Tensor:
    if _is_unsigned(x, y):
        return torch.minimum(x.to(torch.int32), y.to(torch.int32)).to(torch.result_type(x, y))
    if not _is_float(x, y):
        return NotImplemented
    return torch.where((x < y) | torch.isnan(x), x, y)


def clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """NaN stays, since it is neither below nor above."""
    if x.dtype == torch.bool:
        bounds = [v for v in (min, max) if v is not None]
        wide = x.to(torch.result_type(x, next((v for v in bounds if isinstance(v, float)), bounds[0])))
        return clamp(wide, min, max) if wide.is_floating_point() else torch.clamp(wide, min, max)
    if _is_unsigned(x) and not any(isinstance(v, float) for v in (min, max)):
        min, max = (v if v is None else v % 256 for v in (min, max))  # as torch takes a number beside bytes
        return torch.clamp(x.to(torch.int32), min, max).to(x.dtype)
    if not _is_float(x):
        return NotImplemented
    if any(isinstance(v, float) and math.isnan(v) for v in (min, max)):
        return torch.full_like(x, math.nan)
    found = x
    if min is not None:
        found = torch.where(found < min, min, found)
    if max is not None:
        found = torch.where(found > max, max, found)
    return found.to(x.dtype)


def clamp_min(x: Tensor, min: float) -> Tensor:
    return clamp(x, min)


def clamp_max(x: Tensor, max: float) -> Tensor:
    return clamp(x, None, max)


def clamp_tensor(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    bounds = [t for t in (min, max) if t is not None]
    mixed = any(t.dtype != x.dtype for t in bounds)  # torch-mlir compares them as they are
    if not mixed and not _is_float(x, *bounds) and not _is_unsigned(x, *bounds):
        return NotImplemented
    found = x if min is None else torch.maximum(x, min)
    return found if max is None else torch.minimum(found, max)


def clamp_min_tensor(x: Tensor, min: Tensor) -> Tensor:
    return clamp_tensor(x, min)


def clamp_max_tensor(x: Tensor, max: Tensor) -> Tensor:
    return clamp_tensor(x, None, max)


def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    return clamp(x, min_val, max_val)


def fmax(x: Tensor, y: Tensor) -> Tensor:
    """The other one of a NaN."""
    if not _is_float(x, y):
        return torch.maximum(x, y)
    return torch.where((x >= y) | torch.isnan(y), x, y)


def fmin(x: Tensor, y: Tensor) -> Tensor:
    if not _is_float(x, y):
        return torch.minimum(x, y)
    return torch.where((x <= y) | torch.isnan(y), x, y)


def logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """log(exp(x) + exp(y)), from the larger of the two on; of two equal infinities, which have no difference, that infinity."""
    if not _is_float(x, y):
        return NotImplemented
    return torch.where((x == y) & (x.abs() == math.inf), x, torch.maximum(x, y) + torch.log1p(torch.exp(-(x - y).abs())))


def logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    if not _is_float(x, y):
        return NotImplemented
    more = torch.log1p(torch.exp2(-(x - y).abs())) * (1 / math.log(2))
    return torch.where((x == y) & (x.abs() == math.inf), x, torch.maximum(x, y) + more)


def _is_unsigned(*tensors: Tensor) -> bool:
    """Of bytes and booleans, which the import compares as if they had a sign."""
    return all(t.dtype in (torch.uint8, torch.bool) for t in tensors)


def _is_float(*tensors: Tensor) -> bool:
    return any(t.is_floating_point() for t in tensors) and not any(t.is_complex() for t in tensors)


TABLE = {
    aten.maximum.default: maximum,
    aten.minimum.default: minimum,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp_tensor,
    aten.clamp_min.default: clamp_min,
    aten.clamp_min.Tensor: clamp_min_tensor,
    aten.clamp_max.default: clamp_max,
    aten.clamp_max.Tensor: clamp_max_tensor,
    aten.hardtanh.default: hardtanh,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.logaddexp.default: logaddexp,
    aten.logaddexp2.default: logaddexp2,
}

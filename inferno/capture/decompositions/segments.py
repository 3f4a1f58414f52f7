"""Reductions of consecutive rows, of as many as ``lengths`` says or between ``offsets``."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

_EMPTY = {"sum": 0.0, "mean": math.nan, "prod": 1.0, "max": -math.inf, "min": math.inf}


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None,
    axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Tensor:
    """Row s is the reduction of segment s, ``initial`` where it is empty; every segment meets every row of ``data``."""
    if (lengths is None) == (offsets is None) or reduce not in _EMPTY or not data.is_floating_point():
        return NotImplemented
    if offsets is None:
        ends = lengths.cumsum(axis)
        begins = ends - lengths
    else:
        begins, ends = offsets.narrow(axis, 0, offsets.shape[axis] - 1), offsets.narrow(axis, 1, offsets.shape[axis] - 1)
    number = torch.arange(data.shape[axis], device=data.device)
    inside = (number >= begins.unsqueeze(-1)) & (number < ends.unsqueeze(-1))
    inside = inside.reshape(*inside.shape, *(1,) * (data.dim() - axis - 1))
    wide = data if data.dtype == torch.float64 else data.to(torch.float32)
    rows = wide.unsqueeze(axis)
    start = initial if initial is not None else {"mean": 0.0}.get(reduce, _EMPTY[reduce])
    if reduce in ("sum", "mean"):
        found = torch.where(inside, rows, 0.0).sum(axis + 1) + start
    elif reduce == "prod":
        found = torch.where(inside, rows, 1.0).prod(axis + 1) * start
    else:
        found = torch.where(inside, rows, _EMPTY[reduce])
        start = torch.full((), start, dtype=wide.dtype, device=data.device)
        found = torch.maximum(found.amax(axis + 1), start) if reduce == "max" else torch.minimum(found.amin(axis + 1), start)
    if reduce == "mean":
        count = (ends - begins).reshape(*begins.shape, *(1,) * (data.dim() - axis - 1))
        found = torch.where(count > 0, found / count, math.nan if initial is None else found)
    return found.to(data.dtype)


TABLE = {aten.segment_reduce.default: segment_reduce}

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
    begins, ends = _borders(lengths, offsets, axis)
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


def segment_reduce_backward(
    grad: Tensor, output: Tensor, data: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """Each row's share of its segment's gradient.  Elements that are all the greatest share one that is positive, as torch has it, and each has a negative one.
    Of products it is left to torch: what the others' product is where one of them is 0 or no number takes a loop."""
    if (lengths is None) == (offsets is None) or reduce not in _EMPTY or reduce == "prod" or not data.is_floating_point() or not grad.shape[axis]:
        return NotImplemented
    begins, ends = _borders(lengths, offsets, axis)
    number = torch.arange(data.shape[axis], device=data.device)
    segment = (number >= ends.unsqueeze(-1)).sum(axis)  # of each row; one that no segment has in it is of the last, or in front of the first
    inside = (segment < grad.shape[axis]) & (number >= begins.narrow(axis, 0, 1))
    segment = segment.clamp(max=grad.shape[axis] - 1)
    after = (1,) * (data.dim() - axis - 1)
    places = segment.reshape(*segment.shape, *after).expand(data.shape)
    given = grad.gather(axis, places)
    wide = given if data.dtype == torch.float64 else given.to(torch.float32)
    if reduce == "mean":
        size = (ends - begins).gather(axis, segment)
        wide = wide / size.reshape(*size.shape, *after)
    inside = inside.reshape(*inside.shape, *after)
    if reduce in ("max", "min"):
        inside = inside & ((data == output.gather(axis, places)) | data.isnan())
        count = torch.zeros(grad.shape, dtype=wide.dtype, device=data.device).scatter_add(axis, places, inside.to(wide.dtype)).gather(axis, places)
        wide = torch.where(wide > 0, wide / count, wide)
    return torch.where(inside, wide, 0.0).to(data.dtype)


def _borders(lengths: Tensor | None, offsets: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Where each segment begins and ends."""
    if offsets is None:
        ends = lengths.cumsum(axis)
        return ends - lengths, ends
    return offsets.narrow(axis, 0, offsets.shape[axis] - 1), offsets.narrow(axis, 1, offsets.shape[axis] - 1)


TABLE = {aten.segment_reduce.default: segment_reduce, aten._segment_reduce_backward.default: segment_reduce_backward}

"""Writes of whole slices, ``index_copy``, as a select between the old element and the new one, in one pass.

A key-value cache takes a token this way.  As a scatter it would be a table of every element's place, and a kernel that writes wherever the table says;
here nothing is written for an index that is out of range.
"""

import torch
from torch import Tensor

from inferno.capture.decompositions.scattering import put_slices

aten = torch.ops.aten

# Comparisons that it may cost to find, for every place, the last slice that goes there: 2**26 are 0.1 ms on a GPU.
_MOST = 1 << 26


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``aten.index_copy``: ``x`` with slices of ``source`` along ``dim`` at the places in ``index``; NotImplemented for many slices, and sizes that vary."""
    sizes = (*x.shape, *source.shape, *index.shape)
    known = all(isinstance(n, int) for n in sizes)
    one = all(isinstance(n, int) and n == 1 for n in index.shape)
    if not x.dim() or index.dim() > 1 or not (known or one) or any(isinstance(n, int) and n == 0 for n in sizes):
        return NotImplemented
    dim = dim % x.dim()
    places, slices = x.shape[dim], 1 if one else index.numel()
    if (known and places * slices > _MOST) or source.dim() != x.dim():
        return NotImplemented
    if slices > 1 and x.device.type == "cuda" and not torch.are_deterministic_algorithms_enabled():
        return put_slices(x, dim, index.reshape(-1), source)  # of several for one place any one may stay, as in eager
    along = [places if d == dim else 1 for d in range(x.dim())]
    place = torch.arange(places, device=x.device, dtype=index.dtype)
    if slices == 1:
        return torch.where((place == index.reshape(1)).reshape(along), source, x)
    number = torch.arange(1, slices + 1, device=x.device)
    last = torch.where(place.unsqueeze(1) == index, number, 0).amax(1)  # where several go to one place, the last one stays
    found = aten.index_select.default(source, dim, (last - 1).clamp(min=0))
    return torch.where((last > 0).reshape(along), found, x)


def index_fill(x: Tensor, dim: int, index: Tensor, value: float | Tensor) -> Tensor:
    """Its indices, unlike those of ``index_copy``, count from the end where they are negative."""
    if not x.dim() or index.dim() > 1:
        return NotImplemented
    index = torch.where(index < 0, index + x.shape[dim], index).reshape(-1)
    slices = [index.shape[0] if d == dim % x.dim() else n for d, n in enumerate(x.shape)]
    value = value.to(x.dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=x.dtype, device=x.device)
    return aten.index_copy.default(x, dim, index, value.expand(slices))


TABLE = {aten.index_copy.default: index_copy, aten.index_fill.int_Scalar: index_fill, aten.index_fill.int_Tensor: index_fill}

"""Sorting and what is made of it: medians, running extrema, searches."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from inferno.capture.running import running

aten = torch.ops.aten

_UNSIGNED = (torch.bool, torch.uint8)


def sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Our sort is stable anyway."""
    return sort_by_number(x, dim, descending)


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The import takes booleans and bytes for signed integers, of which true is -1 and 255 too."""
    return sort_by_number(x, dim, descending) if x.dtype in _UNSIGNED else NotImplemented


def sort_by_number(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    values, indices = aten.sort.default(x.to(torch.int16) if x.dtype in _UNSIGNED else x, dim, descending)
    return values.to(x.dtype), indices


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """Sorted, which a caller who asks for no order gets as well: the import has no other."""
    if x.dtype not in _UNSIGNED:
        return NotImplemented if sorted else aten.topk.default(x, k, dim, largest)
    values, indices = aten.topk.default(x.to(torch.int16), k, dim, largest)
    return values.to(x.dtype), indices


def _chosen(value: Tensor, index: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """One place of each row, dense as torch has it: not a view of all the sorted ones."""
    return tuple((t if keepdim else t.squeeze(dim)).contiguous() for t in (value, index))


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th of the sorted row."""
    if not x.dim() or not isinstance(k, int):
        return NotImplemented
    values, indices = sort_by_number(x, dim, False)
    value, index = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return _chosen(value, index, dim, keepdim)


def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower of the two middle values; a NaN anywhere is the median."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, indices = sort_by_number(x, dim, False)
    middle = (x.shape[dim] - 1) // 2
    value, index = values.narrow(dim, middle, 1), indices.narrow(dim, middle, 1)
    if x.is_floating_point():
        nan = torch.isnan(x)
        some, first = nan.any(dim, keepdim=True), nan.to(torch.int32).argmax(dim, keepdim=True)
        value, index = torch.where(some, math.nan, value), torch.where(some, first, index)
    return _chosen(value, index, dim, keepdim)


def median(x: Tensor) -> Tensor:
    return median_dim(x.flatten(), 0)[0] if x.numel() else NotImplemented


def nanmedian_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median of what is not NaN; NaN where nothing else is."""
    if not x.dim() or not x.is_floating_point():
        return median_dim(x, dim, keepdim)
    values, indices = aten.sort.default(x, dim, False)  # NaN comes behind all numbers
    middle = (~torch.isnan(x)).sum(dim, keepdim=True).sub(1).clamp(min=0).div(2, rounding_mode="floor")
    value, index = values.gather(dim, middle), indices.gather(dim, middle)
    return _chosen(value, index, dim, keepdim)


def nanmedian(x: Tensor) -> Tensor:
    return nanmedian_dim(x.flatten(), 0)[0] if x.numel() else NotImplemented


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value, the least of several such, and the last place where it is.  torch leaves open what NaN does."""
    if not x.dim() or not x.numel():
        return NotImplemented
    values, indices = sort_by_number(x, dim, False)
    values, indices = values.movedim(dim, -1), indices.movedim(dim, -1)
    if isinstance(values.shape[-1], int):
        count = _search(values, values, torch.le) - _search(values, values, torch.lt)
    else:
        count = (values.unsqueeze(-1) == values.unsqueeze(-2)).sum(-1)
    count = count.clamp(min=1)
    first = count.argmax(-1, keepdim=True)
    value = values.gather(-1, first).movedim(-1, dim)
    index = indices.gather(-1, first + count.gather(-1, first) - 1).movedim(-1, dim)
    return _chosen(value, index, dim, keepdim)


def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extremum(x, dim, "max")


def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extremum(x, dim, "min")


def _extremum(x: Tensor, dim: int, kind: str) -> tuple[Tensor, Tensor]:
    """Running extremum and the last place where it is; a NaN is one, whatever comes before and after.

    Where an element and its place fit 64 bits, the place below the element, it is one running maximum of whole numbers.
    """
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    places = _places(x, dim)
    if x.dtype in (torch.float64, torch.int64):
        extremes = running(x, dim, kind)
        index = running(torch.where((x == extremes) | (x != x), places, 0), dim, "max")
        return x.gather(dim, index) if x.is_floating_point() else extremes, index  # of zeros that are equal the last one's sign
    if not x.is_floating_point():
        found = running(_of_number(x.to(torch.int64), kind) * _HIGH + places, dim, "max")
        return _of_number(_shifted(found, 32), kind).to(x.dtype), torch.bitwise_and(found, _LOW)
    wide = x.to(torch.float32)
    bits = wide.view(torch.int32)
    ordered = torch.where(bits < 0, torch.bitwise_xor(bits, _MOST), bits)
    ordered = torch.where(wide == 0, 0, ordered).to(torch.int64)  # zeros are equal, and the sign of one comes below its place
    ordered = torch.where(wide != wide, _MOST, _of_number(ordered, kind))
    found = running(ordered * _HIGH + places * 2 + ((wide == 0) & (bits < 0)).to(torch.int64), dim, "max")
    low = torch.bitwise_and(found, _LOW)
    ordered = _of_number(_shifted(found, 32), kind).to(torch.int32)
    bits = torch.where(ordered < 0, torch.bitwise_xor(ordered, _MOST), ordered)
    bits = torch.where((ordered == 0) & (torch.bitwise_and(low, 1) == 1), -_MOST - 1, bits)
    return bits.view(torch.float32).to(x.dtype), _shifted(low, 1)


_HIGH, _LOW, _MOST = 1 << 32, (1 << 32) - 1, (1 << 31) - 1  # a word's value in the upper half of 64 bits, its bits, and the largest int32


def _places(x: Tensor, dim: int) -> Tensor:
    """The place of each element along a dimension."""
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.arange(x.shape[dim], device=x.device).view(shape)


def _of_number(x: Tensor, kind: str) -> Tensor:
    """Numbers in the order in which the extremum is the greatest, and back."""
    return x if kind == "max" else -1 - x


def _shifted(x: Tensor, bits: int) -> Tensor:
    return torch.bitwise_right_shift(x, torch.full((), bits, dtype=x.dtype, device=x.device))


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Running log of the sum of exponentials, of which none is taken of what is not a difference."""
    if not x.dim() or x.is_complex():
        return x.clone() if not x.dim() else NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    return running(wide, dim, "logaddexp").to(x.dtype)


def searchsorted(
    edges: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:
    """The number of edges before each value, by halving; where the number of edges varies, by counting.  NaN is behind all edges."""
    right = right if side is None else side == "right"
    edges = edges if sorter is None else edges.gather(-1, sorter)
    if isinstance(edges.shape[-1], int) and edges.shape[-1] and x.dim():
        # With torch's own comparisons, which matter where edges are NaN.
        found = _search(edges, x, lambda edge, x: ~(edge > x if right else edge >= x))
        return found.to(torch.int32 if out_int32 else torch.int64)
    edges = edges.unsqueeze(-2) if edges.dim() > 1 else edges
    value = x.unsqueeze(-1)
    before = edges <= value if right else edges < value
    if x.is_floating_point():
        before = before | torch.isnan(value)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _search(edges: Tensor, x: Tensor, is_before: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """How many edges are before each value, with the middles that torch's own search takes, which matter where the edges are not in order."""
    count, shape = edges.shape[-1], x.shape
    x = x.flatten() if edges.dim() == 1 else x
    narrow = torch.int32 if count < 2**30 else torch.int64
    begin, end = torch.zeros(x.shape, dtype=narrow, device=x.device), torch.full(x.shape, count, dtype=narrow, device=x.device)
    for _ in range(count.bit_length()):
        middle = (begin + end) >> 1
        edge = edges.gather(-1, middle.clamp(max=count - 1).to(torch.int64))
        before = is_before(edge, x)
        begin, end = torch.where((begin < end) & before, middle + 1, begin), torch.where((begin < end) & ~before, middle, end)
    return begin.view(shape)


def searchsorted_scalar(
    edges: Tensor, x: float, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:
    value = torch.full((), x, dtype=edges.dtype if isinstance(x, int) or edges.is_floating_point() else torch.float32, device=edges.device)
    return searchsorted(edges, value, out_int32=out_int32, right=right, side=side, sorter=sorter)


def bucketize(x: Tensor, edges: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(edges, x, out_int32=out_int32, right=right)


TABLE = {
    aten.sort.stable: sort_stable,
    aten.sort.default: sort,
    aten.topk.default: topk,
    aten.mode.default: mode,
    aten.kthvalue.default: kthvalue,
    aten.median.dim: median_dim,
    aten.median.default: median,
    aten.nanmedian.dim: nanmedian_dim,
    aten.nanmedian.default: nanmedian,
    aten.cummax.default: cummax,
    aten.cummin.default: cummin,
    aten.logcumsumexp.default: logcumsumexp,
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted_scalar,
    aten.bucketize.Tensor: bucketize,
}

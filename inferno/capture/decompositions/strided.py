"""Views by strides of tensors that lie in memory as their shape says: the same elements by their numbers."""

import torch
from torch import Tensor

aten = torch.ops.aten


def as_strided(x: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None) -> Tensor:
    number = _numbers(x, size, stride, storage_offset)
    return NotImplemented if number is None else x.flatten().index_select(0, number.flatten()).reshape(size)


def as_strided_scatter(x: Tensor, src: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None) -> Tensor:
    """``x`` with the view's elements replaced; NotImplemented where elements of the view share a place."""
    number = _numbers(x, size, stride, storage_offset)
    if number is None or _overlap(size, stride):
        return NotImplemented
    return x.flatten().index_put((number.flatten(),), src.flatten().to(x.dtype)).reshape(x.shape)


def _numbers(x: Tensor, size: list[int], stride: list[int], offset: int | None) -> Tensor | None:
    """The elements' numbers in ``x``; None where the view reaches what ``x`` does not hold."""
    if not x.is_contiguous() or x.storage_offset() != 0 or any(not isinstance(v, int) for v in (*x.shape, *size, *stride, offset or 0)):
        return None
    offset = offset or 0
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if 0 in size or last >= x.numel():
        return None
    number = torch.full((), offset, dtype=torch.int64, device=x.device)
    for n, s in zip(size, stride):
        number = number.unsqueeze(-1) + torch.arange(n, device=x.device) * s
    return number


def _overlap(size: list[int], stride: list[int]) -> bool:
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride) if n > 1):
        if s <= reach:
            return True
        reach += s * (n - 1)
    return False


TABLE = {aten.as_strided.default: as_strided, aten.as_strided_copy.default: as_strided, aten.as_strided_scatter.default: as_strided_scatter}

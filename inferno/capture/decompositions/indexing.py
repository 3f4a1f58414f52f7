"""Views, fills and scatters whose lowering upstream is missing."""

from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """Strides are the memory planner's business."""
    return aten.empty.memory_format(size, dtype=dtype or torch.get_default_dtype(), device=device)


def new_empty_strided(x: Tensor, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    return aten.empty.memory_format(size, dtype=dtype or x.dtype, device=device or x.device)


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Row by row: the diagonal's place in a row, if the row has one, takes that row's value."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rows, columns = x.shape[dim1], x.shape[dim2]
    moved = x.movedim((dim1, dim2), (-2, -1))
    row = torch.arange(rows, device=x.device)
    column = row + offset
    on = (torch.arange(columns, device=x.device) == column.unsqueeze(-1))
    first = max(0, -offset)
    padded = torch.nn.functional.pad(src, (first, rows - first - src.shape[-1]))
    found = torch.where(on, padded.unsqueeze(-1), moved)
    return found.movedim((-2, -1), (dim1, dim2)).contiguous()


def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Of a scalar: itself."""
    if x.dim():
        return NotImplemented
    wide = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    return x.to(wide).clone()


TABLE = {
    aten.empty_strided.default: empty_strided,
    aten.new_empty_strided.default: new_empty_strided,
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.cumsum.default: cumsum,
    aten.cumprod.default: cumsum,
}

"""Running products and sums in another type than the input's; torch-mlir's product knows none, and integers not at all."""

import torch
from torch import Tensor

aten = torch.ops.aten


def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """By doubling where the type is one of integers."""
    wide = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    if wide.is_floating_point or wide.is_complex:
        return NotImplemented if dtype is None else aten.cumprod.default(x.to(wide), dim)
    value, step = x.to(wide).movedim(dim, -1), 1
    while step < x.shape[dim]:
        value = torch.cat([value[..., :step], value[..., step:] * value[..., :-step]], -1)
        step *= 2
    return value.movedim(-1, dim).clone()


TABLE = {aten.cumprod.default: cumprod}

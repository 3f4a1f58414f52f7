"""Running products and sums in another type than the input's; torch-mlir's product knows none, and integers not at all."""

import torch
from torch import Tensor

from inferno.capture.running import running

aten = torch.ops.aten


def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    wide = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    if wide.is_floating_point or wide.is_complex:
        return NotImplemented if dtype is None else aten.cumprod.default(x.to(wide), dim)
    return running(x.to(wide), dim, "mul") if x.dim() else x.to(wide).clone()


TABLE = {aten.cumprod.default: cumprod}

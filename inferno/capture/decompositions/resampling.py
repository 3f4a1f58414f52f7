"""Resizing with antialiasing: each direction is a product with a matrix of the filter's weights."""

from collections.abc import Callable

import torch
from torch import Tensor

aten = torch.ops.aten


def _resize(kernel: Callable[[Tensor], Tensor], reach: float) -> Callable:
    """The operator whose filter is ``kernel``, 0 beyond ``reach``."""

    def decomposition(x: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Tensor:
        if x.dim() != 4 or not x.is_floating_point():
            return NotImplemented
        wide = x if x.dtype == torch.float64 else x.to(torch.float32)
        rows = _weights(x.shape[2], output_size[0], align_corners, scales_h, kernel, reach, wide)
        columns = _weights(x.shape[3], output_size[1], align_corners, scales_w, kernel, reach, wide)
        return torch.matmul(rows, torch.matmul(wide, columns.t())).to(x.dtype)

    return decomposition


def _weights(
    size: int, count: int, align_corners: bool, scale: float | None, kernel: Callable[[Tensor], Tensor], reach: float, like: Tensor,
) -> Tensor:
    """[count, size]: how much of each input is in each output.  Rows add up to 1; the filter is widened where it shrinks."""
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scale if scale else size / count
    widening = max(step, 1.0)
    number = torch.arange(count, device=like.device).to(torch.float64)
    centre = (step * (number + 0.5)).unsqueeze(-1)
    place = torch.arange(size, device=like.device).to(torch.float64)
    support = reach * widening
    begin = torch.trunc(centre - support + 0.5).clamp(min=0)
    end = torch.trunc(centre + support + 0.5).clamp(max=size)
    weight = kernel(((place + 0.5 - centre) / widening).abs())
    weight = torch.where((place >= begin) & (place < end), weight, 0.0)
    return (weight / weight.sum(-1, keepdim=True)).to(like.dtype)


def _linear(x: Tensor) -> Tensor:
    return torch.where(x < 1, 1 - x, 0.0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' cubic convolution with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


TABLE = {aten._upsample_bilinear2d_aa.default: _resize(_linear, 1.0), aten._upsample_bicubic2d_aa.default: _resize(_cubic, 2.0)}

"""Group normalisation from differences to the mean, which do not cancel as torch's scale and shift do on the CPU.

Images with channels last are taken as they lie, so that nothing transposes them.
"""

import torch
from torch import Tensor

from inferno.settings import settings

aten = torch.ops.aten


def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(output, mean, 1 / deviation), the last two [N, group]; computed in float32 at least."""
    if not x.is_floating_point() or not x.numel():
        return NotImplemented
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    last = settings().unmeasured and _is_channels_last(x)
    inner, count = range(2, x.dim()), C // group * HxW
    if last:
        rows = x.permute(0, *inner, 1).reshape(N, HxW, group, C // group).to(wide)
    else:
        rows = x.to(wide).reshape(N, group, count)
    points = (1, 3) if last else (-1,)
    mean = rows.sum(points, keepdim=True) / count
    centred = rows - mean
    scale = torch.rsqrt((centred * centred).sum(points, keepdim=True) / count + eps)
    found = (centred * scale).reshape([N, *x.shape[2:], C] if last else x.shape)
    channels = [1, *(1 for _ in inner), C] if last else [1, C, *(1 for _ in inner)]
    if weight is not None:
        found = found * weight.to(wide).reshape(channels)
    if bias is not None:
        found = found + bias.to(wide).reshape(channels)
    found = found.to(x.dtype)
    found = found.permute(0, x.dim() - 1, *range(1, x.dim() - 1)) if last else found
    return found, mean.reshape(N, group).to(x.dtype), scale.reshape(N, group).to(x.dtype)


def _is_channels_last(x: Tensor) -> bool:
    """Whether an image or a volume is, and only that; sizes that vary are not asked for more."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.dim() not in formats or any(not isinstance(n, int) for n in x.shape):
        return False
    return x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous()


TABLE = {aten.native_group_norm.default: native_group_norm}

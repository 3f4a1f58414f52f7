"""Group normalisation from differences to the mean, which do not cancel as torch's scale and shift do on the CPU."""

import torch
from torch import Tensor

aten = torch.ops.aten


def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(output, mean, 1 / deviation), the last two [N, group]; computed in float32 at least."""
    if not x.is_floating_point() or not x.numel():
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    rows = wide.reshape(N, group, C // group * HxW)
    count = rows.shape[-1]
    mean = rows.sum(-1, keepdim=True) / count
    centred = rows - mean
    scale = torch.rsqrt((centred * centred).sum(-1, keepdim=True) / count + eps)
    found = (centred * scale).reshape(x.shape)
    channels = [1, C, *(1,) * (x.dim() - 2)]
    if weight is not None:
        found = found * weight.to(wide.dtype).reshape(channels)
    if bias is not None:
        found = found + bias.to(wide.dtype).reshape(channels)
    return found.to(x.dtype), mean.squeeze(-1).to(x.dtype), scale.squeeze(-1).to(x.dtype)


TABLE = {aten.native_group_norm.default: native_group_norm}

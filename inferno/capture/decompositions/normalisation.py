"""Group normalisation from differences to the mean, which do not cancel as torch's scale and shift do on the CPU.

Images with channels last are taken as they lie, so that nothing transposes them.
"""

import torch
from torch import Tensor

from inferno.settings import settings

aten = torch.ops.aten
# Bytes of a pixel that a group has: of less, most of each sector of 32 bytes that is read would be of other groups.
_PIECE = 16


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
    found = _channels_second(found) if last else found
    return found, mean.reshape(N, group).to(x.dtype), scale.reshape(N, group).to(x.dtype)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:
    """Of an image with channels last on a GPU, whose norm torch copies to channels first and leaves there: statistics read it as it lies, and what
    applies them turns it, so that it is read twice and written once.  Anything else, and what has little of a pixel in a group, is torch's own way."""
    if not settings().unmeasured or x.device.type != "cuda" or not x.is_floating_point() or not _is_channels_last(x) or not x.numel():
        return NotImplemented
    if x.shape[1] % num_groups or x.shape[1] // num_groups * x.element_size() < _PIECE:
        return NotImplemented
    return turned_group_norm(x, num_groups, weight, bias, eps)


def turned_group_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The group norm of an image with channels last, with channels first."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    images, channels = x.shape[:2]
    last = x.permute(0, *range(2, x.dim()), 1).reshape(images, -1, channels).to(wide)
    rows = last.reshape(images, -1, groups, channels // groups)
    count = rows.shape[1] * rows.shape[3]
    mean = rows.sum((1, 3), keepdim=True) / count
    centred = rows - mean
    scale = torch.rsqrt((centred * centred).sum((1, 3), keepdim=True) / count + eps)
    mean, scale = (v.expand(images, 1, groups, channels // groups).reshape(images, 1, channels) for v in (mean, scale))
    found = (last - mean) * (scale if weight is None else scale * weight.to(wide))
    found = (found if bias is None else found + bias.to(wide)).to(x.dtype)
    return _channels_second(found).reshape(x.shape).clone(memory_format=torch.contiguous_format)


def _channels_second(x: Tensor) -> Tensor:
    return x.permute(0, x.dim() - 1, *range(1, x.dim() - 1))


def _is_channels_last(x: Tensor) -> bool:
    """Whether an image or a volume is, and only that; sizes that vary are not asked for more."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.dim() not in formats or any(not isinstance(n, int) for n in x.shape):
        return False
    return x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous()


TABLE = {aten.native_group_norm.default: native_group_norm, aten.group_norm.default: group_norm}

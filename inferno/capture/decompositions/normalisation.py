"""Group normalisation from differences to the mean, which do not cancel as torch's scale and shift do on the CPU.

Float32 images with channels last are read as they lie, on a GPU.
"""

import torch
from torch import Tensor

aten = torch.ops.aten
# Bytes of a pixel that a group has, and of an element, from which statistics of what lies with channels last take less time than a copy: on an H200 the norm
# in 32 groups of 128x512x28x28 in float32 160 us instead of 223, of 8x320x64x64 49 instead of 54, of 64x256x64x64 (32 bytes) 292 instead of 284; in bf16, of
# which the copy has half the bytes, of 64x256x64x64 150 instead of 136.
_PIECE, _ELEMENT = 40, 4


def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(output, mean, 1 / deviation), the last two [N, group]; computed in float32 at least."""
    if not x.is_floating_point() or not x.numel():
        return NotImplemented
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    # Channels and pixels stay dimensions of their own: rows of an image that lies with channels last are read as they lie then.
    rows, count = x.to(wide).reshape(N, group, C // group, *x.shape[2:]), C // group * HxW
    terms = tuple(range(2, rows.dim()))
    mean = rows.sum(terms, keepdim=True) / count
    centred = rows - mean
    scale = torch.rsqrt((centred * centred).sum(terms, keepdim=True) / count + eps)
    found = (centred * scale).reshape(x.shape)
    channels = [1, C, *(1 for _ in range(2, x.dim()))]
    if weight is not None:
        found = found * weight.to(wide).reshape(channels)
    if bias is not None:
        found = found + bias.to(wide).reshape(channels)
    return found.to(x.dtype), mean.reshape(N, group).to(x.dtype), scale.reshape(N, group).to(x.dtype)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:
    """Of an image with channels last on a GPU, whose norm torch copies to channels first and leaves there: statistics read it as it lies, and what
    applies them transposes it, so that it is read twice and written once.  Anything else, and what has little of a pixel in a group, is torch's own way."""
    if x.device.type != "cuda" or x.element_size() < _ELEMENT or not x.is_floating_point() or not _is_channels_last(x) or not x.numel():
        return NotImplemented
    if x.shape[1] % num_groups or x.shape[1] // num_groups * x.element_size() < _PIECE:
        return NotImplemented
    return transposed_group_norm(x, num_groups, weight, bias, eps)


def transposed_group_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
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
    return found.transpose(1, 2).reshape(x.shape).clone(memory_format=torch.contiguous_format)


def _is_channels_last(x: Tensor) -> bool:
    """Whether an image or a volume is, and only that; sizes that vary are not asked for more."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.dim() not in formats or any(not isinstance(n, int) for n in x.shape):
        return False
    return x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous()


TABLE = {aten.native_group_norm.default: native_group_norm, aten.group_norm.default: group_norm}

"""Convolutions in groups of three dimensions, which the import lacks, as such of two: places along the first one are images, and the window's taps along it
are channels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.capture.decompositions.window_sizes import are_known, per_dimension
from inferno.capture.devices import for_hopper
from inferno.window_limits import window_count

aten = torch.ops.aten

_MOST_TAPS = 7  # along the first dimension: the image is written so many times


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:
    """``aten.convolution`` of [batch, channels, places, rows, columns] in groups; NotImplemented for others, sizes that vary, and windows of many layers."""
    if transposed or groups == 1 or x.dim() != 5 or weight.dim() != 5 or not for_hopper(x):
        return NotImplemented
    if not are_known(x, weight) or weight.shape[2] > _MOST_TAPS:
        return NotImplemented
    stride, padding, dilation = per_dimension(3, stride, padding, dilation)
    count = window_count(x.shape[2], weight.shape[2], stride[0], padding[0], dilation[0])
    if count < 1:
        return NotImplemented  # (an error of torch's)
    padded = aten.constant_pad_nd.default(x, [0, 0, 0, 0, padding[0], padding[0]]) if padding[0] else x
    taps = [
        aten.slice.Tensor(padded, 2, i * dilation[0], i * dilation[0] + (count - 1) * stride[0] + 1, stride[0]) for i in range(weight.shape[2])
    ]
    images = torch.stack(taps, 2).permute(0, 3, 1, 2, 4, 5).flatten(2, 3).flatten(0, 1)  # [images, channels, taps, places, rows, columns] before
    found = aten.convolution.default(images, weight.flatten(1, 2), bias, stride[1:], padding[1:], dilation[1:], False, [0, 0], groups)
    return found.unflatten(0, (x.shape[0], count)).transpose(1, 2)


TABLE = {aten.convolution.default: convolution}

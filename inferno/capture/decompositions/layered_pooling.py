"""Maxima of windows of three dimensions of which each is in one layer, and their gradients, as poolings of images: layers are channels.

The places of three-dimensional windows were found by a reduction of copies beside each other, and torch's gradient scatters: of (1, 3, 3) by (1, 2, 2) of
2x64x8x112x112 in bf16 they took an H200 33 us and 72, where memory takes 10 each.
"""

import torch
from torch import Tensor

aten = torch.ops.aten


def maxima(
    x: Tensor, kernel_size: list[int], stride: list[int] = (), padding: list[int] = (0,), dilation: list[int] = (1,), ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Places are those of the whole volume."""
    kernel, step, pad, gap = _spelled(kernel_size, stride, padding, dilation)
    if not _is_layered(x, kernel, step, pad) or x.shape[2] == 1:  # (a single layer is how an image's maxima are found)
        return NotImplemented
    values, places = aten.max_pool2d_with_indices.default(x.flatten(1, 2), kernel[1:], step[1:], pad[1:], gap[1:], ceil_mode)
    shape = [*x.shape[:3], *values.shape[2:]]
    return values.reshape(shape), places.reshape(shape) + _layers(x)


def gradient(
    grad: Tensor, x: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool, indices: Tensor,
) -> Tensor:
    """``aten.max_pool3d_with_indices_backward`` of windows in one layer: of ``x``'s shape; NotImplemented for other windows."""
    kernel, step, pad, gap = _spelled(kernel_size, stride, padding, dilation)
    if not _is_layered(x, kernel, step, pad):
        return NotImplemented
    places = (indices - _layers(x)).flatten(1, 2)
    found = aten.max_pool2d_with_indices_backward.default(
        grad.flatten(1, 2), x.flatten(1, 2), kernel[1:], step[1:], pad[1:], gap[1:], ceil_mode, places,
    )
    return found.reshape(x.shape)


def _is_layered(x: Tensor, kernel: list[int], step: list[int], pad: list[int]) -> bool:
    """Whether each layer has windows of its own; a volume with channels last would have to be copied."""
    known = x.dim() == 5 and all(isinstance(n, int) for n in x.shape)
    return known and x.is_floating_point() and kernel[0] == step[0] == 1 and not pad[0] and x.is_contiguous()


def _layers(x: Tensor) -> Tensor:
    """The place of each layer's first element in its volume."""
    return (torch.arange(x.shape[2], device=x.device) * (x.shape[3] * x.shape[4])).reshape(-1, 1, 1)


def _spelled(kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> list[list[int]]:
    """A number for each dimension."""
    return [list(v) * 3 if len(v) == 1 else list(v) for v in (kernel, stride or kernel, padding, dilation)]


TABLE = {aten.max_pool3d_with_indices.default: maxima, aten.max_pool3d_with_indices_backward.default: gradient}

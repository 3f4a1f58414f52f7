"""What decompositions of convolutions ask of sizes."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from inferno.window_limits import MOST_TERMS


def per_dimension(rank: int, *options: Sequence[int]) -> list[list[int]]:
    """Options with a number for each dimension, of which one may be given for all."""
    return [list(v) * rank if len(v) == 1 else list(v) for v in options]


def are_known(*tensors: Tensor) -> bool:
    """Whether all sizes are numbers, and there are elements."""
    return all(isinstance(n, int) and n != 0 for t in tensors for n in t.shape)


def is_depthwise(gradient: Tensor, x: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether each channel of an image and of a result's gradient has a window of its own, along one or two dimensions, that a thread can keep."""
    taps = weight.shape[2:]
    return groups == gradient.shape[1] == x.shape[1] and len(taps) < 3 and prod(taps) <= MOST_TERMS


def padded_for_windows(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> Tensor:
    """The image with zeros around it, or cut off, so that the windows of a result of the gradient's size reach all of it and nothing else."""
    widths: list[int] = []
    for n, places, taps, s, p, d in zip(x.shape[2:], gradient.shape[2:], weight.shape[2:], stride, padding, dilation):
        widths = [p, (places - 1) * s + (taps - 1) * d + 1 - n - p, *widths]
    return torch.ops.aten.constant_pad_nd.default(x, widths) if any(widths) else x

"""Float32 convolutions in groups of few channels, as a ResNeXt has, by TF32: several groups are one, with zeros where a feature does not read a channel.

The tensor core's kernels bring 32 channels of a pixel at a time, and multiply the zeros faster than CUDA cores only what is there.  cuDNN rounds such
convolutions to TF32, too, as its flag allows.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.capture.decompositions.window_sizes import are_known
from inferno.capture.devices import for_hopper
from inferno.tf32 import takes_tf32_convolutions

aten = torch.ops.aten

# Channels of a group that it pays for, and of a merged one.  3x3 of 16 images in 32 groups on an H200, us, channels last: 4 channels at 56x56 60 and 37 (of one
# image 8.2 and 6.9), 8 at 28x28 25 and 21 (6.8 and 5.5), 16 at 14x14 40 and 15 (5.0 and 5.2); by twice as many channels as 32 they took longer.
_LEAST, _WANTED = 4, 32
# Images from which on cuDNN rounds groups of four channels, too: one took it a kernel of its own, in float32.
_IMAGES_OF_LEAST = 2


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:
    """``aten.convolution`` with fewer and wider groups, whose weight has zeros; NotImplemented where that is no faster."""
    together = _together(x, weight, groups) if not transposed else 1
    if together == 1:
        return NotImplemented
    (features, channels, *taps), count = weight.shape, groups // together
    parts = weight.reshape(count, together, features // groups, 1, channels, *taps)
    own = torch.eye(together, dtype=weight.dtype, device=weight.device).reshape(together, 1, together, *(1 for _ in (channels, *taps)))
    merged = torch.where(own != 0, parts, 0).reshape(features, together * channels, *taps)
    return aten.convolution.default(x, merged, bias, stride, padding, dilation, False, output_padding, count)


def _together(x: Tensor, weight: Tensor, groups: int) -> int:
    """How many groups become one."""
    if x.dim() != weight.dim() or not are_known(x, weight):
        return 1
    if x.dtype != torch.float32 or weight.dtype != x.dtype or not takes_tf32_convolutions() or not for_hopper(x):
        return 1
    channels, features = weight.shape[1], weight.shape[0] // groups
    if channels % _LEAST or min(channels, features) < _LEAST or (channels == _LEAST and x.shape[0] < _IMAGES_OF_LEAST):
        return 1
    together = _WANTED // channels
    return together if together > 1 and groups % together == 0 else 1


TABLE = {aten.convolution.default: convolution}

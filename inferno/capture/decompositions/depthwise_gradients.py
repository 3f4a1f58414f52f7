"""The gradient of a depthwise convolution's weight: for each channel and tap a sum over the places of all images.

That is a convolution in groups, a group's channels being all images of one channel, by the result's gradient, whose places are the window's; what is
transposed to say so lies in memory as it did (``sums_taps`` of ``passes/convolution.py``), and generator ``tap_sums`` computes it.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from inferno.capture.decompositions.window_sizes import are_known, is_depthwise, padded_for_windows
from inferno.settings import settings
from inferno.window_limits import MOST_TERMS

aten = torch.ops.aten

Sizes = Sequence[int]

# Taps side by side of float32 images with channels last whose gradient cuDNN takes no longer for.  On an H200, us, ours with a copy of both images before
# (about 14 us of the first in 16 bits, 28 in float32, 24 and 49 of the third) and cuDNN's: 3x3 of 16x144x56x56 bf16 31 and 27, float32 61 and 41, by 2 of
# 16x96x112x112 51 and 30, 79 and 51, of 32x32x112x112 47 and 52, 98 and 37, of 16x128x28x28 dilated 9 and 123, 15 and 178; 5x5 of 32x672x14x14 21 and 27, 40
# and 94, 7x7 of 8x96x56x56 17 and 27, 24 and 656.  Row-major images are ATen's own: 3x3 28 and 99, 53 and 105, dilated 9 and 27, 12 and 26, 5x5 22 and 218, 36
# and 213, 7x7 17 and 170, 25 and 167.
_FEW = 9


def is_summed_by_taps(gradient: Tensor, x: Tensor, weight: Tensor, dilation: Sizes, groups: int) -> bool:
    """Whether the generator takes the gradient of a weight: a window a channel, of few taps, with more terms than a thread keeps windows of."""
    if not are_known(gradient, x, weight):
        return False
    taps, places = weight.shape[2:], gradient.shape[2:]
    narrow = gradient.dtype in (torch.bfloat16, torch.float16, torch.float32)
    few = gradient.dtype == torch.float32 and prod(taps) <= _FEW and set(dilation) == {1}
    if not is_depthwise(gradient, x, weight, groups) or not narrow or (few and _has_channels_last(x) and not settings().unmeasured):
        return False
    return prod(taps) > 1 and x.shape[0] * prod(places) > MOST_TERMS and all(n > 1 for n, k in zip(places, taps) if k > 1)


def _has_channels_last(x: Tensor) -> bool:
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def depthwise_weight_gradient(gradient: Tensor, x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes) -> Tensor:
    """The sums, in memory as the weight: of the image as much is read as windows reach, zeros around it included."""
    image = padded_for_windows(gradient, x, weight, stride, padding, dilation)
    rank, (images, channels) = len(stride), x.shape[:2]
    image = image.transpose(0, 1).reshape(1, channels * images, *image.shape[2:])
    sums = aten.convolution.default(
        image, gradient.transpose(0, 1), None, list(dilation), [0] * rank, list(stride), False, [0] * rank, channels)
    return sums.view(weight.shape)

"""Depthwise convolutions of windows that no thread can keep, as those of 31x31 in RepLKNet, are convolutions in groups along one dimension less.

A channel's outputs of some places side by side are products of a row of its image, as long as they reach, with a band matrix, in whose columns the window's
row stands one step further each: what was a place in the row is a channel of a group, and only the window's rows are left to walk.  The zeros beside
the band are multiplied too, on tensor cores that do so faster than CUDA cores walk the window.

One channel with many windows, as a spectrogram's signal (1 to 201, windows of 400 by 160) or a patch of it has, is none of these: its windows, rows of memory
that overlap, times the features are a product of matrices as they are, and band matrices of all features would be larger than all else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

import torch
from torch import Tensor

from inferno.capture.decompositions.window_sizes import are_known, per_dimension
from inferno.capture.devices import for_hopper
from inferno.window_limits import MOST_TERMS, window_count

aten = torch.ops.aten

_EIGHTH = 8  # channels of a group in 16 bits: whole vectors
# Float32 groups of channels that are whole vectors may be rounded to TF32, as cuDNN does; depthwise ones it does not (see ``mark-convolutions``).
_VECTOR = 4
# Fitted to the kernels of 11 windows of 9x9 to 51x51 in images of 14 to 112 columns on an H200, by places that a block multiplies.  31x31 of 16x128x56x56:
# bf16 168, 153 and 181 us, float32 1704, 892 and 737 (cuDNN 1991 and 1721).
_RATES = {2: {8: 0.5, 16: 1.0, 32: 1.0, 40: 0.7}, 4: {8: 0.35, 16: 1.0, 32: 1.65}}
_READ = {2: 140, 4: 40}  # products that take as long as an element of a row is written and read again
_MADE = 100  # the same of an element of a band matrix


@dataclass(frozen=True)
class _Blocks:
    """``count`` times ``places`` outputs of a row, each block of which reads ``length`` elements, the first of them ``low`` in front of the image."""

    count: int
    places: int
    length: int
    low: int


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:
    """``aten.convolution`` of each channel with a large window of its own, of one or two dimensions; NotImplemented for other ones."""
    if transposed or not _is_taken(x, weight, groups):
        return NotImplemented
    stride, padding, dilation = per_dimension(x.dim() - 2, stride, padding, dilation)
    if x.dim() == 3:
        image, window = x.unsqueeze(2), weight.unsqueeze(2)
        found = convolution(image, window, bias, [1, *stride], [0, *padding], [1, *dilation], False, output_padding, groups)
        return found if found is NotImplemented else found.squeeze(2)
    if weight.shape[2] > weight.shape[3]:  # the longer side is the one that bands shorten more
        exchanged = [list(reversed(v)) for v in (stride, padding, dilation)]
        found = convolution(x.transpose(2, 3), weight.transpose(2, 3), bias, *exchanged, False, output_padding, groups)
        return found if found is NotImplemented else found.transpose(2, 3)
    (images, channels, _, columns), (features, _, down, along) = x.shape, weight.shape
    step, pad, gap = stride[1], padding[1], dilation[1]
    height, width = map(window_count, x.shape[2:], weight.shape[2:], stride, padding, dilation)
    if min(height, width) < 1:
        return NotImplemented  # (an error of torch's)
    blocks = _choose(width, columns, images * height, down, (along - 1) * gap + 1, step, pad, x.element_size())
    lines = _lines(x, blocks, step, padding[0]).reshape(images * blocks.count, channels * blocks.length, -1)
    bands = _bands(weight.squeeze(1), blocks, step, pad, gap).reshape(features * blocks.places, blocks.length, down)
    sums = aten.convolution.default(lines, bands, None, stride[:1], [0], dilation[:1], False, [0], groups)
    sums = sums.reshape(images, blocks.count, features, blocks.places, height).permute(0, 2, 4, 1, 3)
    if blocks.count == 1:
        result = sums[:, :, :, 0, :width]
    else:
        place = torch.arange(width, device=x.device)
        result = aten.index.Tensor(sums, [None, None, None, place // blocks.places, place % blocks.places])
    return result if bias is None else result + bias[:, None, None]


def _is_taken(x: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether each channel has a window of its own, with more terms than the kernels for such take."""
    if x.dim() not in (3, 4) or weight.dim() != x.dim() or not are_known(x, weight):
        return False
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or weight.dtype != x.dtype:
        return False
    if groups == 1 and weight.shape[0] >= _EIGHTH:
        return False
    return groups == x.shape[1] and weight.shape[1] == 1 and prod(weight.shape[2:]) > MOST_TERMS and for_hopper(x)


def _choose(width: int, columns: int, lines: int, down: int, reach: int, step: int, pad: int, size: int) -> _Blocks:
    """The blocks of a row of ``width`` outputs that take least, for images of ``columns``, by windows that reach over so many of them."""
    found, rates = [], _RATES[size]
    for places in (8, 16, 32, ceil(width / _EIGHTH) * _EIGHTH):
        count = ceil(width / places)
        if count == 1:  # the image itself: what is beside it would be multiplied by zeros
            blocks = _Blocks(1, places, _whole(columns, size), 0)
        else:
            blocks = _Blocks(count, places, _whole((places - 1) * step + reach, size), pad)
        read = count * blocks.length
        time = down * read * places / rates[max(n for n in rates if n <= places)]
        found.append((time + _READ[size] * read + _MADE * down * places * blocks.length / lines, blocks))
    return min(found, key=lambda item: item[0])[1]


def _whole(length: int, size: int) -> int:
    """As many channels of a group, or a few more."""
    return ceil(length / _EIGHTH) * _EIGHTH if size == 2 else length + (length % _VECTOR == 0)


def _lines(x: Tensor, blocks: _Blocks, step: int, pad: int) -> Tensor:
    """(images, blocks, channels, elements of a row, rows with ``pad`` above and below) of images; what is beside them is 0."""
    element = torch.arange(blocks.length, device=x.device) - blocks.low + torch.arange(blocks.count, device=x.device)[:, None] * (blocks.places * step)
    row = torch.arange(x.shape[2] + 2 * pad, device=x.device) - pad
    inside = ((row >= 0) & (row < x.shape[2])) & ((element >= 0) & (element < x.shape[3]))[:, :, None]
    gathered = x[:, :, row.clamp(0, x.shape[2] - 1), element.clamp(0, x.shape[3] - 1)[:, :, None]]
    return torch.where(inside, gathered, 0).permute(0, 2, 1, 3, 4)


def _bands(window: Tensor, blocks: _Blocks, step: int, pad: int, gap: int) -> Tensor:
    """(features, places, elements of a row, rows of the window) of (features, rows, columns)."""
    element = torch.arange(blocks.length, device=window.device) - blocks.low + pad
    reached = element - torch.arange(blocks.places, device=window.device)[:, None] * step
    inside = (reached >= 0) & (reached <= (window.shape[2] - 1) * gap)
    if gap > 1:
        inside = inside & (reached % gap == 0)
    tap = (reached // gap if gap > 1 else reached).clamp(0, window.shape[2] - 1)
    return torch.where(inside, window[:, :, tap], 0).permute(0, 2, 3, 1)


TABLE = {aten.convolution.default: convolution}

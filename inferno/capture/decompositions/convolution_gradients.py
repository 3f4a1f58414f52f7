"""A convolution's three gradients as operations of their own.  The input's is a convolution of the result's gradient by the same weights, transposed where the
convolution is not; the weight's is a convolution of the image by the result's gradient, with the batch as channels; the bias's is a sum.

Only where generators for Hopper's tensor cores, or for depthwise windows, take the input's, and a training step is faster (see ``docs/convolution.md``);
the weight's stays an operation of torch's library where none does.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from inferno.capture.decompositions.depthwise_gradients import depthwise_weight_gradient, is_summed_by_taps
from inferno.capture.decompositions.window_sizes import are_known, is_depthwise, padded_for_windows, per_dimension
from inferno.capture.devices import on_hopper
from inferno.settings import settings
from inferno.tf32 import takes_tf32_convolutions

aten = torch.ops.aten

# What a window may reach, by the image's dimensions: the box that the copy engine walks has a corner as far outside of it.
_REACH = {1: 1 << 14, 2: 127, 3: 15}
# Convolutions that one by steps, transposed, may become.
_MOST_PHASES = 16
_PIXEL = 16  # bytes of a pixel's channels, of which there are whole ones
_MOST_STEP = 8  # of the copy engine through an image
_PANEL = 32  # channels of a tap that it brings together, at least, where taps are columns
# Of a product over pixels: results of a block, blocks that there should be, pixels of each at least.
_TILE, _BLOCKS, _LEAST_PIXELS = 64, 132, 512

# Features, and elements, from which on a window of one pixel is read as it lies: 512 times 128 at 28x28 took 11.5 us, transposed 17.1, 256 times 1024 at
# 14x14 15.8 and 28.1, but 64 times 256 at 56x56 49.0 and 20.5, 128 times 512 23.4 and 15.1.
_PRODUCT = 256, 1 << 16

# Channels and features from which on cuDNN sums a weight's gradient in less time channels last, transposed by us.  On an H200, float32, us, row-major,
# and channels last without the image's copy: 3x3 of 72 channels of 4x48x48 193 (by Fourier transforms) and 38, of 48 of 4x96x96 134 and 45, of 1280 of
# 2x8x8 115 and 79, of 512 of 32x7x7 74 and 62, of 64 of 1x256x256 88 and 67; of 320 of 2x64x64 126 and 135; of 24 of 4x112x112 62 and 64.  bf16: of 512 of
# 1x64x64 66 and 52.  Of one pixel both take as long.
_TRANSPOSED = 48

Sizes = Sequence[int]


def convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sizes | None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
    output_padding: Sizes, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """``aten.convolution_backward``: the gradients of image, weight and bias that ``output_mask`` asks for, of their shapes; NotImplemented for torch's."""
    if not on_hopper(gradient):
        return NotImplemented
    if groups == 1 and not transposed and all(n == 1 for t in (weight, x) for n in t.shape[2:]) and not any(padding):
        return _of_one_pixel(gradient, x, weight, output_mask)
    places = (x, gradient) if transposed else (gradient, x)  # of the result's gradient, and the image that windows lie over
    by_taps = output_mask[1] and is_summed_by_taps(*places, weight, dilation, groups)
    if not (output_mask[0] or by_taps):
        return NotImplemented
    rank = x.dim() - 2
    stride, padding, dilation = per_dimension(rank, stride, padding, dilation)
    if not (settings().unmeasured or _is_faster(x, stride, transposed, groups)):
        return NotImplemented
    if not _is_taken(gradient, x, weight, stride, padding, dilation, groups, transposed) or (transposed and _is_patches(gradient, weight, stride, padding)):
        return NotImplemented
    of_input = input_gradient(gradient, x.shape, weight, stride, padding, dilation, transposed, groups) if output_mask[0] else None
    of_weight = None
    if by_taps:
        of_weight = depthwise_weight_gradient(*places, weight, stride, padding, dilation)
    elif output_mask[1] and _is_summed(*places, weight, stride, groups):
        of_weight = weight_gradient(*places, weight, stride, padding, dilation)
    elif output_mask[1]:
        beside = (gradient, x) if transposed or groups > 1 else _with_channels_last(gradient, x, weight)
        of_weight = aten.convolution_backward.default(
            *beside, weight, None, stride, padding, dilation, transposed, output_padding, groups, [False, True, False])[1]
        of_weight = of_weight.contiguous() if beside[1] is not x and weight.is_contiguous() else of_weight
    of_bias = gradient.sum([0, *range(2, gradient.dim())]) if output_mask[2] else None
    return of_input, of_weight, of_bias


def _of_one_pixel(
    gradient: Tensor, x: Tensor, weight: Tensor, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a linear layer, as a squeeze-and-excitation block's are: the library's kernels for windows took 4 to 9 us each."""
    rows, features, channels = gradient.shape[0], weight.shape[0], weight.shape[1]
    above, below = gradient.reshape(rows, features), x.reshape(rows, channels)
    of_input = aten.mm.default(above, weight.reshape(features, channels)).view(x.shape) if output_mask[0] else None
    of_weight = aten.mm.default(above.t(), below).view(weight.shape) if output_mask[1] else None
    return of_input, of_weight, above.sum(0) if output_mask[2] else None


def input_gradient(
    gradient: Tensor, shape: Sizes, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool, groups: int,
) -> Tensor:
    """The gradient of an input of this shape, as a convolution."""
    rank = len(shape) - 2
    if transposed:
        found = aten.convolution.default(gradient, weight, None, stride, padding, dilation, False, [0] * rank, groups)
        for d in range(2, 2 + rank):  # of what is padded behind, no element of the input is read
            found = found.narrow(d, 0, shape[d]) if found.shape[d] != shape[d] else found
        return found
    if prod(stride) == 1 and (groups == 1 or not are_known(gradient)):
        taps = [2 + d for d in range(rank) if weight.shape[2 + d] > 1]
        if not taps and groups == 1 and _are_rows(gradient) and weight.shape[0] >= _PRODUCT[0] and weight.numel() >= _PRODUCT[1]:
            return aten.mm.default(_rows(gradient), weight.flatten(1)).view(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2)
        swapped = weight.transpose(0, 1) if groups == 1 else weight
        around = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding)]
        swapped = aten.flip.default(swapped, taps) if taps else swapped
        return aten.convolution.default(gradient, swapped, None, stride, around, dilation, False, [0] * rank, groups)
    least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(gradient.shape[2:], stride, padding, dilation, weight.shape[2:])]
    rest = [n - m for n, m in zip(shape[2:], least)]
    return aten.convolution.default(gradient, weight, None, stride, padding, dilation, True, rest, groups)


def weight_gradient(gradient: Tensor, x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes) -> Tensor:
    """The gradient of the weight of a convolution without groups, in memory as the weight: place and tap change their parts."""
    if prod(weight.shape[2:]) == prod(stride) == 1 and not any(padding) and _are_rows(gradient, x):
        return _sum_of_pixels(_rows(gradient), _rows(x)).view(weight.shape)
    image = padded_for_windows(gradient, x, weight, stride, padding, dilation)
    rank = len(stride)
    sums = aten.convolution.default(
        image.transpose(0, 1), gradient.transpose(0, 1), None, list(dilation), [0] * rank, list(stride), False, [0] * rank, 1,
    ).transpose(0, 1)
    last = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    return sums.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def _with_channels_last(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """How torch's library gets the result's gradient and the image for the weight's gradient: channels last, where it would turn row-major ones by itself."""
    if x.dim() != 4 or not x.is_contiguous() or prod(weight.shape[2:]) == 1 or min(weight.shape[:2]) < _TRANSPOSED:
        return gradient, x
    return gradient.contiguous(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)


def _are_rows(*tensors: Tensor) -> bool:
    """Whether each is a matrix of pixels by channels in memory, of 16 bits."""
    return all(t.dim() == 4 and t.dtype.itemsize == 2 and t.is_contiguous(memory_format=torch.channels_last) for t in tensors)


def _rows(image: Tensor) -> Tensor:
    return image.permute(0, 2, 3, 1).reshape(-1, image.shape[1])


def _sum_of_pixels(a: Tensor, b: Tensor) -> Tensor:
    """``a.T @ b`` of many rows: where the results are too few for all multiprocessors, in parts of the rows, which are added up in float32."""
    tiles = -(-a.shape[1] // _TILE) * -(-b.shape[1] // _TILE)
    parts = max((p for p in range(1, _BLOCKS // tiles + 1) if a.shape[0] % p == 0 and a.shape[0] // p >= _LEAST_PIXELS), default=1)
    if parts == 1:
        return aten.mm.default(a.t(), b)
    first, second = (t.view(parts, -1, t.shape[1]).float() for t in (a, b))
    return aten.bmm.default(first.transpose(1, 2), second).sum(0).to(a.dtype)


def _is_summed(gradient: Tensor, x: Tensor, weight: Tensor, stride: Sizes, groups: int) -> bool:
    """Whether a generator takes the weight's gradient."""
    if groups != 1 or gradient.dtype not in (torch.bfloat16, torch.float16) or x.shape[0] < 2 or max(stride) > _MOST_STEP:
        return False
    plain = prod(weight.shape[2:]) == prod(stride) == 1
    return x.shape[1] % (8 if plain else _PANEL) == 0 and gradient.shape[1] % 8 == 0 and prod(weight.shape[2:]) <= prod(gradient.shape[2:])


def _is_faster(x: Tensor, stride: Sizes, transposed: bool, groups: int) -> bool:
    """Whether a step with such a convolution took an H200 less than with torch's gradients.  Of 40, forward and backward, us, bf16 and float32: 7x7 depthwise
    117 and 105 (383 and 353), 3x3 depthwise 223 and 232 (436 and 435); of row-major images 3x3 of 64 channels 145 and 209 (189 and 243), with batch norm 123
    and 175 (151 and 183), 1x1 128 and 140 (144 and 166), 5 along 1000 95 and 164 (142 and 180), 3x3x3 78 and 231 (115 and 258), 4x4 transposed 77 and 113 (99
    and 124), 3x3 by 2 103 (134), but in float32 170 (154).  What has channels last cuDNN takes as it lies."""
    if groups > 1:
        return True
    return x.is_contiguous() and (x.element_size() == 2 or transposed or max(stride) == 1)


def _is_patches(gradient: Tensor, weight: Tensor, stride: Sizes, padding: Sizes) -> bool:
    """Whether windows lie side by side in an image whose channels do not: a product whose terms are far apart in memory."""
    return list(weight.shape[2:]) == list(stride) and not any(padding) and not (
        gradient.dim() == 4 and gradient.is_contiguous(memory_format=torch.channels_last))


def _is_taken(gradient: Tensor, x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, transposed: bool) -> bool:
    tensors = (gradient, x, weight)
    # Of images whose size varies the transposed convolution that one by steps would become is not decomposed.
    varies = groups > 1 and not transposed and prod(stride) == 1
    if not are_known(*((weight,) if varies else tensors)) or any(t.dtype != gradient.dtype for t in tensors):
        return False
    narrow = gradient.dtype in (torch.bfloat16, torch.float16)
    if not narrow and not (gradient.dtype == torch.float32 and takes_tf32_convolutions()):
        return False
    taps = weight.shape[2:]
    reach = _REACH.get(len(taps), 0)
    if any(d * (k - 1) > reach or p > d * (k - 1) for d, k, p in zip(dilation, taps, padding)) or prod(stride) > _MOST_PHASES:
        return False
    if groups == 1:
        return all(t.shape[1] * t.element_size() % _PIXEL == 0 for t in (gradient, x))
    return is_depthwise(gradient, x, weight, groups)


TABLE = {aten.convolution_backward.default: convolution_backward}

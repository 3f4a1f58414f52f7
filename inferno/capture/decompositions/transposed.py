"""Transposed convolutions in groups as plain ones of an image with zeros between its elements, which torch-mlir itself makes only of those without groups:
it fails where each channel is a group.  ``skip-zeros`` leaves the zeros out again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.capture.decompositions.window_sizes import are_known, per_dimension


aten = torch.ops.aten


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:
    """``aten.convolution`` that is transposed and in groups; NotImplemented for other ones, and for sizes that vary."""
    if not transposed or groups == 1 or x.dim() != weight.dim():
        return NotImplemented
    rank = x.dim() - 2
    if not are_known(x, weight):
        return NotImplemented
    stride, padding, dilation, output_padding = per_dimension(rank, stride, padding, dilation, output_padding)
    for d in range(rank):
        low = dilation[d] * (weight.shape[2 + d] - 1) - padding[d]
        x = _spread(x, 2 + d, stride[d], low, low + output_padding[d])
    parts = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    flipped = aten.flip.default(parts, list(range(2, 2 + rank)))
    return aten.convolution.default(x, flipped, bias, [1] * rank, [0] * rank, dilation, False, [0] * rank, groups)


def _spread(x: Tensor, dim: int, step: int, low: int, high: int) -> Tensor:
    """``x`` with ``step - 1`` zeros between its elements along a dimension and some around them, or less than none."""
    size = (x.shape[dim] - 1) * step + 1
    shape = list(x.shape)
    shape[dim] = size + max(low, 0) + max(high, 0)
    zeros, begin = x.new_zeros(shape), max(low, 0)
    found = aten.slice_scatter.default(zeros, x, dim, begin, begin + size, step)
    return found.narrow(dim, max(-low, 0), size + low + high) if min(low, high) < 0 else found


TABLE = {aten.convolution.default: convolution}

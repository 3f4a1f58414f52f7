"""Gradients of average poolings: each place of an image is in a few windows, which are known, and takes its share of what each of them is given."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from inferno.capture.decompositions.folding import MOST_MET, met

aten = torch.ops.aten


def _shares(
    grad: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], include_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    """The gradient of ``x`` [..., *image] by that of its windows' averages [..., *windows]; ``divisor`` is what each sum was divided by, else its
    window's length, what is padded included or not."""
    rank = len(kernel)
    lead = x.dim() - rank
    known = all(isinstance(n, int) and n for n in (*x.shape, *grad.shape))
    stride = stride or kernel
    number = [-(-k // s) for k, s in zip(kernel, stride)]
    if not known or not x.is_floating_point() or len(stride) != rank or len(padding) != rank or math.prod(number) > MOST_MET:
        return NotImplemented
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    image, windows = x.shape[lead:], grad.shape[lead:]
    whole = include_pad and all((w - 1) * s + k <= n + 2 * p for w, s, k, n, p in zip(windows, stride, kernel, image, padding))
    one = divisor or (math.prod(kernel) if whole else None)
    along = [[met(image[d], padding[d], stride[d], kernel[d], windows[d], t, x.device)[1:] for t in range(number[d])] for d in range(rank)]
    total = None
    for places in itertools.product(*along):
        inside = True
        for d, (_, there) in enumerate(places):
            inside = inside & _row(there, d, rank)
        term = aten.index.Tensor(grad, [*[None] * lead, *(_row(window, d, rank) for d, (window, _) in enumerate(places))]).to(wide)
        for d, (window, _) in enumerate(places) if not one else ():
            term = term / _row(_lengths(window, image[d], kernel[d], stride[d], padding[d], include_pad).to(wide), d, rank)
        term = torch.where(inside, term, 0.0)
        total = term if total is None else total + term
    return (total / one if one else total).to(x.dtype)


def _lengths(window: Tensor, size: int, length: int, step: int, pad: int, include_pad: bool) -> Tensor:
    """How many places each of these windows of a dimension has: those behind the padding, which only windows of a ceiling reach, never count."""
    first = window * step - pad
    if include_pad:
        return (first + length).clamp(max=size + pad) - first
    return (first + length).clamp(max=size) - first.clamp(min=0)


def _row(values: Tensor, dim: int, rank: int) -> Tensor:
    return values.reshape([-1 if d == dim else 1 for d in range(rank)])


def _gradient(rank: int) -> Callable:
    def average_gradient(
        grad: Tensor, x: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool, count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        kernel, stride, padding = (list(v) * rank if len(v) == 1 else v for v in (kernel_size, stride, padding))
        return _shares(grad, x, kernel, stride, padding, count_include_pad, divisor_override)

    return average_gradient


def adaptive_average_gradient(grad: Tensor, x: Tensor, rank: int) -> Tensor:
    """Where windows are of one length."""
    sizes = list(zip(x.shape[-rank:], grad.shape[-rank:]))
    if any(not isinstance(n, int) or not isinstance(m, int) or not m or n % m for n, m in sizes):
        return NotImplemented
    kernel = [n // m for n, m in sizes]
    return _shares(grad, x, kernel, kernel, [0] * rank, True)


TABLE = {
    aten.avg_pool2d_backward.default: _gradient(2), aten.avg_pool3d_backward.default: _gradient(3),
    aten._adaptive_avg_pool2d_backward.default: lambda grad, x: adaptive_average_gradient(grad, x, 2),
    aten._adaptive_avg_pool3d_backward.default: lambda grad, x: adaptive_average_gradient(grad, x, 3),
}

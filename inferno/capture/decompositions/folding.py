"""``F.fold``, which is the gradient of ``F.unfold``, and the gradient of ``Tensor.unfold``: each element is the sum of the windows' elements that overlap
there.  They are few, and at known places, so they are gathered, and nothing is scattered."""

import functools
import operator
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

MOST_MET = 25  # terms of a sum, each of which is read at a place of its own, neighbours by vectors; more of them are dimensions that are summed


class Line(NamedTuple):
    """One dimension: places, windows, elements of a window, and how they lie: windows begin ``step`` apart, and their elements are ``gap`` apart."""

    size: int
    count: int
    length: int
    step: int
    pad: int = 0
    gap: int = 1

    @property
    def number(self) -> int:
        """Terms of a place."""
        return min(self.count, -(-self.length // self.step) if self.gap == 1 else self.length)

    def met(self, number: int | Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """For each place the element that may lie there, its window, and whether it does.  Windows meet in a place at every ``step``-th of their elements, at
        element r + number * step of window q - number, where the place is r elements behind the beginning of window q.  Where windows are fewer than that,
        or their elements lie apart, each window or each element of one is a term.

        It takes few operations, which readers do again rather than read: what is outside differs from what is kept inside."""
        place = torch.arange(self.size, device=device)
        place = place.unsqueeze(1) if isinstance(number, Tensor) else place
        one = number.unsqueeze(0) if isinstance(number, Tensor) else torch.full((1,), number, device=device)
        if self.number == self.count:
            element, whole = _quotient(place + (self.pad - number * self.step), self.gap)
            kept = element.clamp(0, self.length - 1)
            return kept, one, (kept == element) & whole
        if self.gap == 1:
            window, _ = _quotient(place + self.pad, self.step)
            window = window - number
            element = one if self.step == 1 else (place + self.pad) % self.step + number * self.step
            kept = window.clamp(0, self.count - 1)
            if self.length % self.step == 0:
                return element, kept, kept == window
            return element.clamp(max=self.length - 1), kept, (kept == window) & (element < self.length)
        window, whole = _quotient(place + (self.pad - number * self.gap), self.step)
        kept = window.clamp(0, self.count - 1)
        return one, kept, (kept == window) & whole

    def each(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The same of all numbers."""
        return (self.met(t, device) for t in range(self.number))

    def all(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The same as tensors [places, numbers]."""
        return self.met(torch.arange(self.number, device=device), device)


def col2im(x: Tensor, output_size: list[int], kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]) -> Tensor:
    """``aten.col2im``: [batch, channels * taps, windows] -> [batch, channels, *output_size], of floats, with or without a batch; NotImplemented for others."""
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(output_size, padding, dilation, kernel_size, stride)]
    if x.dim() not in (2, 3) or not x.is_floating_point() or any(not isinstance(n, int) or not n for n in (*x.shape, *counts)):
        return NotImplemented
    batch = x if x.dim() == 3 else x.unsqueeze(0)
    windows = batch.unflatten(1, (-1, *kernel_size)).unflatten(-1, counts)  # [batch, channels, rows of a window, columns, windows down, windows across]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, columns = (Line(*sizes) for sizes in zip(output_size, counts, kernel_size, stride, padding, dilation))

    def term(row: Tensor, down: Tensor, high: Tensor, column: Tensor, across: Tensor, broad: Tensor) -> Tensor:
        return torch.where(high & broad, windows[:, :, row, column, down, across].to(wide), 0.0)

    if rows.number * columns.number <= MOST_MET:
        each = ((tuple(t[:, None] for t in row), column) for row in rows.each(x.device) for column in columns.each(x.device))
        total = _sum(term(*row, *column) for row, column in each)
    else:  # terms [..., rows, columns, terms down, terms across]
        row = (t[:, None, :, None] for t in rows.all(x.device))
        total = term(*row, *(t[:, None, :] for t in columns.all(x.device))).sum((-2, -1))
    total = total.to(x.dtype)
    return total if x.dim() == 3 else total.squeeze(0)


def unfold_backward(grad: Tensor, input_sizes: list[int], dim: int, size: int, step: int) -> Tensor:
    """Along one dimension; windows lie along it, their elements along the last one."""
    known = all(isinstance(n, int) and n for n in (*grad.shape, *input_sizes, size, step))
    if not known or not input_sizes or not grad.is_floating_point():
        return NotImplemented
    dim = dim % len(input_sizes)
    line = Line(input_sizes[dim], grad.shape[dim], size, step)
    between = grad.shape[dim + 1:-1]  # dimensions between the windows and their elements, each of which is read where it is
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32

    def term(element: Tensor, window: Tensor, inside: Tensor, last: int) -> Tensor:
        """With ``last`` dimensions behind all others."""
        whole = [as_dimension(torch.arange(n, device=grad.device), d, len(between) + last) for d, n in enumerate(between)]
        element, window, inside = (t.reshape(-1, *[1] * len(between), *t.shape[1:]) for t in (element, window, inside))
        return torch.where(inside, aten.index.Tensor(grad, [*[None] * dim, window, *whole, element]).to(wide), 0.0)

    if line.number <= MOST_MET:
        total = _sum(term(*places, 0) for places in line.each(grad.device))
    else:
        total = term(*line.all(grad.device), 1).sum(-1)
    return total.to(grad.dtype)


def _quotient(number: Tensor, by: int) -> tuple[Tensor, Tensor | bool]:
    """Rounded down, and whether nothing is left."""
    return (number, True) if by == 1 else (torch.div(number, by, rounding_mode="floor"), number % by == 0)


def _sum(terms: Iterator[Tensor]) -> Tensor:
    return functools.reduce(operator.add, terms)


TABLE = {aten.col2im.default: col2im, aten.unfold_backward.default: unfold_backward}

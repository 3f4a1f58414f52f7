"""Gradients of average poolings: an element of the image is in a few windows, which are known, and its gradient is the sum of its shares of theirs."""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

_MOST_MET = 16  # terms of a sum, each of which is read at a place of its own; more are summed along one dimension after the other


class _Line(NamedTuple):
    """One dimension: places of the image, windows, and how they lie."""

    size: int
    count: int
    length: int
    step: int
    pad: int

    @property
    def number(self) -> int:
        """Windows that a place may be in."""
        return -(-self.length // self.step)

    def meet(self, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """For each of that ``number``: the window of each place, and whether the place is in it."""
        place = torch.arange(self.size, device=device, dtype=torch.int32) + self.pad
        last = torch.div(place, self.step, rounding_mode="trunc")
        found = []
        for t in range(self.number):
            window = last - t
            inside = (place - window * self.step < self.length) & (window >= 0) & (window < self.count)
            found.append((window.clamp(0, self.count - 1), inside))
        return found

    @property
    def whole(self) -> bool:
        """Whether each window ends in the image or its padding."""
        return (self.count - 1) * self.step + self.length <= self.size + 2 * self.pad


class _Uneven(NamedTuple):
    """One dimension whose windows are as equal as its size allows: window w from floor(w * size / count) to ceil((w + 1) * size / count)."""

    size: int
    count: int

    @property
    def number(self) -> int:
        return max(self._behind(i) - i * self.count // self.size for i in range(self.size))

    def _behind(self, place: Any) -> Any:
        """The first window that begins behind a place."""
        return ((place + 1) * self.count + self.size - 1) // self.size

    def meet(self, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        place = torch.arange(self.size, device=device, dtype=torch.int32)
        first, behind = torch.div(place * self.count, self.size, rounding_mode="trunc"), self._behind(place)
        return [((first + t).clamp(max=self.count - 1), first + t < behind) for t in range(self.number)]

    def share(self, device: torch.device, wide: torch.dtype) -> Tensor:
        window = torch.arange(self.count, device=device, dtype=torch.int32)
        length = torch.div((window + 1) * self.size + self.count - 1, self.count, rounding_mode="trunc")
        return 1 / (length - torch.div(window * self.size, self.count, rounding_mode="trunc")).to(wide)


def _shares(
    grad: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], include_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    """The gradient of ``x`` [..., *image] by that of its windows' averages [..., *windows]; ``divisor`` is what each sum was divided by, else its
    window's length, what is padded included or not."""
    rank = len(kernel)
    known = all(isinstance(n, int) and n for n in (*x.shape, *grad.shape))
    stride = stride or kernel
    if not known or not x.is_floating_point() or len(stride) != rank or len(padding) != rank:
        return NotImplemented
    lines = [_Line(*sizes) for sizes in zip(x.shape[-rank:], grad.shape[-rank:], kernel, stride, padding)]
    one = divisor or (math.prod(kernel) if include_pad and all(line.whole for line in lines) else None)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    shares = None if one else [_share(line, include_pad, x.device, wide) for line in lines]
    if math.prod(line.number for line in lines) <= _MOST_MET:
        total = _met(grad, lines, shares, range(rank), wide)
    elif all(s == 1 for s in stride) and rank in (2, 3):
        return _windows(grad, lines, shares, one, wide).to(x.dtype)
    elif all(line.number <= _MOST_MET for line in lines):  # along one dimension after the other
        total = functools.reduce(lambda found, d: _met(found, lines, shares, [d], wide), range(rank), grad)
    else:
        return NotImplemented
    return (total / one if one else total).to(x.dtype)


def _share(line: _Line, include_pad: bool, device: torch.device, wide: torch.dtype) -> Tensor:
    """One over how many places each window of a dimension has: those behind the padding, which only windows of a ceiling reach, never count."""
    first = torch.arange(line.count, device=device, dtype=torch.int32) * line.step - line.pad
    if include_pad:
        length = (first + line.length).clamp(max=line.size + line.pad) - first
    else:
        length = (first + line.length).clamp(max=line.size) - first.clamp(min=0)
    return 1 / length.to(wide)


def _met(grad: Tensor, lines: Sequence[_Line | _Uneven], shares: Sequence[Tensor] | None, dims: Sequence[int], wide: torch.dtype) -> Tensor:
    """The sum over ``dims`` of what windows that a place is in have, each by its share: the last dimension outermost, so that what its windows come to is the
    same for neighbours of a row."""
    rank = len(lines)
    lead = grad.dim() - rank
    ways = {}
    for d in dims:
        ways[d] = []
        for window, inside in lines[d].meet(grad.device):
            share = None if shares is None else as_dimension(shares[d][window], d, rank)
            ways[d].append((as_dimension(window, d, rank), share, as_dimension(inside, d, rank)))
    whole = [as_dimension(torch.arange(n, device=grad.device, dtype=torch.int32), d, rank) for d, n in enumerate(grad.shape[lead:])]

    def nested(left: Sequence[int], chosen: dict[int, Tensor]) -> Tensor:
        if not left:
            return aten.index.Tensor(grad, [*[None] * lead, *(chosen.get(d, whole[d]) for d in range(rank))]).to(wide)
        *rest, d = left
        terms = ((nested(rest, {**chosen, d: window}), share, inside) for window, share, inside in ways[d])
        return functools.reduce(operator.add, (torch.where(inside, x if share is None else x * share, 0.0) for x, share, inside in terms))

    return nested(list(dims), {})


def _windows(grad: Tensor, lines: Sequence[_Line], shares: Sequence[Tensor] | None, one: int | None, wide: torch.dtype) -> Tensor:
    """Where each place begins a window: sums of windows of zeros around the gradient, for which there are kernels."""
    rank, found = len(lines), grad.to(wide)
    for d in range(rank) if shares is not None else ():
        found = found * as_dimension(shares[d], d, rank)
    around = []
    for line in reversed(lines):
        low = line.length - 1 - line.pad
        around += [low, line.size + line.length - 1 - line.count - low]
    average = aten.avg_pool2d.default if rank == 2 else aten.avg_pool3d.default
    return average(aten.constant_pad_nd.default(found, around), [line.length for line in lines], [1] * rank, [0] * rank, False, True, one or 1)


def _gradient(rank: int) -> Callable:
    def average_gradient(
        grad: Tensor, x: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool, count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        kernel, stride, padding = (list(v) * rank if len(v) == 1 else v for v in (kernel_size, stride, padding))
        return _shares(grad, x, kernel, stride, padding, count_include_pad, divisor_override)

    return average_gradient


def adaptive_average_gradient(grad: Tensor, x: Tensor, rank: int) -> Tensor:
    """Where windows are of one length, and where a place is in few of others."""
    sizes = list(zip(x.shape[-rank:], grad.shape[-rank:]))
    if any(not isinstance(n, int) or not n for n in (*x.shape, *grad.shape)) or not x.is_floating_point():
        return NotImplemented
    if all(n % m == 0 for n, m in sizes):
        kernel = [n // m for n, m in sizes]
        return _shares(grad, x, kernel, kernel, [0] * rank, True)
    lines, wide = [_Uneven(n, m) for n, m in sizes], torch.float64 if x.dtype == torch.float64 else torch.float32
    if math.prod(line.number for line in lines) > _MOST_MET:
        return NotImplemented
    return _met(grad, lines, [line.share(x.device, wide) for line in lines], range(rank), wide).to(x.dtype)


TABLE = {
    aten.avg_pool2d_backward.default: _gradient(2), aten.avg_pool3d_backward.default: _gradient(3),
    aten._adaptive_avg_pool2d_backward.default: lambda grad, x: adaptive_average_gradient(grad, x, 2),
    aten._adaptive_avg_pool3d_backward.default: lambda grad, x: adaptive_average_gradient(grad, x, 3),
}

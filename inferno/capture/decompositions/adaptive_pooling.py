"""Adaptive poolings whose windows have one size and do not overlap are reductions of a view: ``AdaptiveMaxPool1d(1)`` is a row's maximum, and its gradient
a select.

The general form reads each window through places that it computes: of 16x1024x2048 in bf16 the maxima took an H200 56.6 us, memory takes 17.
"""

from collections.abc import Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

_SMALL = 32  # elements of a window that a pooling compares or adds in one kernel


def maxima(x: Tensor, output_size: Sequence[int], rank: int) -> tuple[Tensor, Tensor]:
    """Maxima of windows and their places in the input's last ``rank`` dimensions: of what is equal the first one, and the last NaN, as torch has it."""
    if (empty := _empty(x, output_size, rank)) is not None:
        return empty, empty.long()
    sizes = _windows(x, output_size, rank)
    if sizes is None or x.dtype in (torch.uint8, torch.bool):
        return NotImplemented
    counts, windows = sizes
    small = _are_small(counts, windows) and x.dim() == rank + 2
    if small and rank == 2:
        return aten.max_pool2d_with_indices.default(x, windows, windows)
    lead, result = x.dim() - rank, [*x.shape[:x.dim() - rank], *counts]
    apart, along = _apart(x, counts, windows)
    values = aten.max_pool3d_with_indices.default(x, windows, windows)[0] if small else apart.amax(along).reshape(result)
    rows = apart.permute([d for d in range(apart.dim()) if d not in along] + along).reshape([*result, -1])
    chosen = rows.argmax(-1)
    if x.is_floating_point():
        last = torch.where(torch.isnan(rows), torch.arange(prod(windows), device=x.device), -1).amax(-1)
        chosen = torch.where(last >= 0, last, chosen)
    place, left, stride = torch.zeros((), dtype=torch.int64, device=x.device), chosen, 1
    for d in reversed(range(rank)):
        begin = as_dimension(torch.arange(counts[d], device=x.device), d, rank) * windows[d]
        place = place + (begin + left % windows[d]) * stride
        left, stride = left // windows[d], stride * x.shape[lead + d]
    return values, place


def gradient(grad: Tensor, x: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Each element is of one window: its gradient is that window's where it is the one that was found, and 0 elsewhere; nothing is scattered, and who
    reads the gradient computes it, of tensors as small as the maxima."""
    sizes = _windows(x, grad.shape[-rank:], rank)
    if sizes is None or not x.is_floating_point():
        return NotImplemented
    lead, apart = list(x.shape[:x.dim() - rank]), [n for pair in zip(*sizes) for n in pair]
    each = lambda t: t.reshape([*lead, *(n for count in sizes[0] for n in (count, 1))])  # noqa: E731
    count = prod(x.shape[-rank:])
    small = torch.int32 if count < 2**31 else torch.int64  # half of what is read beside each element
    own = torch.arange(count, device=x.device, dtype=small).reshape(apart)
    return torch.where(each(indices).to(small) == own, each(grad), 0).reshape(x.shape)


def means(x: Tensor, output_size: Sequence[int], rank: int) -> Tensor:
    """Means of windows."""
    if (empty := _empty(x, output_size, rank)) is not None:
        return empty
    sizes = _windows(x, output_size, rank)
    if sizes is None or not x.is_floating_point():
        return NotImplemented
    if _are_small(*sizes) and x.dim() == rank + 2 and rank > 1:
        return (aten.avg_pool2d if rank == 2 else aten.avg_pool3d).default(x, sizes[1], sizes[1])
    apart, along = _apart(x, *sizes)
    return apart.mean(along).reshape([*x.shape[:x.dim() - rank], *sizes[0]])


def _counts(output_size: int | Sequence[int], rank: int) -> list[int]:
    """How many windows are asked for in each dimension."""
    counts = [output_size] if isinstance(output_size, int) else list(output_size)
    return counts * rank if len(counts) == 1 else counts


def _empty(x: Tensor, output_size: int | Sequence[int], rank: int) -> Tensor | None:
    """The result, where there are no windows: torch's decomposition divides by their number."""
    shape = [*x.shape[:x.dim() - rank], *_counts(output_size, rank)]
    return x.new_empty(shape) if any(type(n) is int and n == 0 for n in shape) else None


def _windows(x: Tensor, output_size: Sequence[int], rank: int) -> tuple[list[int], list[int]] | None:
    """How many windows there are in each dimension, and elements of one; None where they differ, or are not known."""
    counts, sizes = _counts(output_size, rank), list(x.shape[-rank:])
    if any(type(s) is not int or s == 0 for s in (*x.shape, *counts)) or any(s % n for s, n in zip(sizes, counts)):
        return None
    return counts, [s // n for s, n in zip(sizes, counts)]


def _are_small(counts: Sequence[int], windows: Sequence[int]) -> bool:
    """Whether windows have few elements, which one thread reads, beside each other in some dimension."""
    return prod(windows) <= _SMALL and any(n > 1 and size > 1 for n, size in zip(counts, windows))


def _apart(x: Tensor, counts: Sequence[int], windows: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Each of the last dimensions as one of windows and one along them, and which are those along them: none of one element, and neighbours along windows
    are one, so that most poolings reduce one dimension."""
    shape, along = list(x.shape[:x.dim() - len(counts)]), []
    for count, size in zip(counts, windows):
        if count > 1:
            shape.append(count)
        if size > 1 and along and along[-1] == len(shape) - 1:
            shape[-1] *= size
        elif size > 1:
            along.append(len(shape))
            shape.append(size)
    along = along or [len(shape)]
    return x.reshape(shape if along[-1] < len(shape) else [*shape, 1]), along


TABLE = {
    aten.adaptive_max_pool2d.default: partial(maxima, rank=2), aten.adaptive_max_pool3d.default: partial(maxima, rank=3),
    aten.adaptive_max_pool2d_backward.default: partial(gradient, rank=2), aten.adaptive_max_pool3d_backward.default: partial(gradient, rank=3),
    aten.adaptive_avg_pool1d.default: partial(means, rank=1), aten._adaptive_avg_pool2d.default: partial(means, rank=2),
    aten._adaptive_avg_pool3d.default: partial(means, rank=3),
}

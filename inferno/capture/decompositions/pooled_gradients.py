"""Gradients of maxima of windows, whose places are known: of windows that meet in few elements sums over these, of others what is put where it was found."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu
from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

# Windows that meet in an element, each of which is asked whether it found it; of more the import scatters a plane, and a volume is scattered here.
_MOST_MET = {2: 16, 3: 27}
# Windows that an element is in, and elements for each window, from which on a GPU adds what the windows found.  3x3x3 by 2 of 2x64x16x56x56, eight of both,
# took an H200 17.8 us so in float32 and 33.8 in bf16 (torch's additions 17.2 and 33.4), where each element asks its windows 48.9 and 65.8; but 5x5 by 3 of
# 16x64x113x113, four and nine, 48.5 and 77.0, and 38.4 and 37.6.
_FEW = 8


def met(
    grad: Tensor, x: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool, indices: Tensor,
    rank: int,
) -> Tensor:
    """Each element's gradient is the sum over the windows that found it, where few meet in an element; of more, each window's is added to what it found."""
    if x.dim() not in ((4,) if rank == 2 else (4, 5)) or not x.is_floating_point():
        return NotImplemented
    kernel, step, pad, gap = (_each(v, rank) for v in (kernel_size, stride or kernel_size, padding, dilation))
    meeting = [-(-(gap[d] * (kernel[d] - 1) + 1) // step[d]) for d in range(rank)]  # windows that an element is in, in each dimension
    if math.prod(meeting) > _MOST_MET[rank]:
        return NotImplemented if rank == 2 else put(grad, x, indices, rank)
    few = for_gpu(x) and min(math.prod(meeting), math.prod(step)) >= _FEW and not torch.are_deterministic_algorithms_enabled()
    if few and (found := put(grad, x, indices, rank)) is not NotImplemented:
        return found
    sizes, lead = x.shape[-rank:], x.dim() - rank
    own = torch.zeros((), dtype=torch.int64, device=x.device)
    for d, n in enumerate(sizes):
        own = own * n + as_dimension(torch.arange(n, device=x.device), d, rank)
    wide = torch.promote_types(grad.dtype, torch.float32)
    total = torch.zeros((), dtype=wide, device=x.device)
    for back in product(*map(range, meeting)):
        windows = [_window_of(sizes[d], grad.shape[lead + d], step[d], pad[d], back[d], x.device) for d in range(rank)]
        places = [None] * lead + [as_dimension(number, d, rank) for d, (number, _) in enumerate(windows)]
        found = aten.index.Tensor(indices, places) == own
        for d, (_, inside) in enumerate(windows):
            found = found & as_dimension(inside, d, rank)
        total = total + torch.where(found, aten.index.Tensor(grad, places).to(wide), 0.0)
    return total.to(grad.dtype)


def _window_of(size: int, count: int, step: int, pad: int, back: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each place the number of the last window that begins at or before it, less ``back``; and whether there is such a window."""
    number = torch.div(torch.arange(pad, pad + size, device=device), step, rounding_mode="floor") - back
    return number.clamp(0, count - 1), (number >= 0) & (number < count)


def put(grad: Tensor, x: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Each window's gradient is added to the element that it found."""
    if not x.is_floating_point() or any(type(n) is not int or n == 0 for n in (*x.shape, *grad.shape)):
        return NotImplemented
    wide = grad.dtype if for_gpu(x) else torch.promote_types(grad.dtype, torch.float32)  # a GPU's sums of 16-bit floats are rounded once
    rows = math.prod(x.shape[:-rank])
    zeros = torch.zeros(rows, math.prod(x.shape[-rank:]), dtype=wide, device=x.device)
    found = aten.scatter_add.default(zeros, 1, indices.reshape(rows, -1), grad.reshape(rows, -1).to(wide))
    return found.reshape(x.shape).to(grad.dtype)


def _fractional(rank: int) -> Callable:
    def gradient(grad: Tensor, x: Tensor, kernel_size: list[int], output_size: list[int], indices: Tensor) -> Tensor:
        return put(grad, x, indices, rank)

    return gradient


def _each(value: Sequence[int] | int, rank: int) -> list[int]:
    """A number for each dimension."""
    value = [value] if isinstance(value, int) else list(value)
    return value * rank if len(value) == 1 else value


TABLE = {
    aten.max_pool2d_with_indices_backward.default: partial(met, rank=2), aten.max_pool3d_with_indices_backward.default: partial(met, rank=3),
    aten.adaptive_max_pool2d_backward.default: partial(put, rank=2), aten.adaptive_max_pool3d_backward.default: partial(put, rank=3),
    aten.fractional_max_pool2d_backward.default: _fractional(2), aten.fractional_max_pool3d_backward.default: _fractional(3),
}

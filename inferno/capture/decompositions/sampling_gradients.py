"""Gradients of ``grid_sample``: of the grid sums over the channels of what lies around each point, of the image what each point adds to its neighbours.

Of few channels single elements are added.  Of more, rows of all channels of a place are, which a GPU does by vectors, and the image's gradient gets its order
of dimensions behind that: torch's kernel adds element by element.
"""

import functools
import itertools
import operator
from typing import NamedTuple

import torch
from torch import SymInt, Tensor

from inferno.capture.decompositions.resampling import four
from inferno.capture.decompositions.sampling import BORDER, CUBIC, NEAREST, ZEROS, kept, reflected
from inferno.capture.devices import for_gpu
from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

_ROW = 4  # channels from which on rows are added: of fewer there is no kernel that adds rows
_OUTSIDE = 1 << 62  # a place where nothing is put


class _Tap(NamedTuple):
    """A place along one dimension that points read, its weight, how that changes with the points' own place, and whether the place is inside."""

    place: Tensor
    weight: Tensor | float
    change: Tensor | float
    inside: Tensor


def _gradients(
    grad: Tensor, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: list[bool],
) -> tuple[Tensor | None, Tensor]:
    dims = x.dim() - 2
    known = not any(type(n) is int and n == 0 for n in (*x.shape, *grid.shape))
    if not known or not x.is_floating_point() or not x.dtype == grid.dtype == grad.dtype:
        return NotImplemented
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32

    def along(places: Tensor) -> list[list[_Tap]]:
        return [_taps(places[..., dims - 1 - d].to(wide), n, interpolation_mode, padding_mode, align_corners) for d, n in enumerate(x.shape[2:])]

    taps = along(grid)
    of_image = _of_image(grad, x, _any_of(taps), wide) if output_mask[0] else None
    if interpolation_mode == NEAREST:
        return of_image, torch.zeros_like(grid)
    # Expanded over the channels, so that what reads the image computes places.
    each = grid.unsqueeze(1).expand(grid.shape[0], x.shape[1], *grid.shape[1:])
    return of_image, _of_grid(grad, x, _any_of(along(each)), taps, align_corners, wide).to(grid.dtype)


def _taps(place: Tensor, size: int | SymInt, interpolation_mode: int, padding_mode: int, align_corners: bool) -> list[_Tap]:
    """``place``: points' numbers in the grid, from -1 to 1."""
    place = place * _scale(size, align_corners) + (size - 1) * 0.5
    if interpolation_mode == CUBIC:
        first = place.floor()
        rest = place - first
        taps = zip(*four(rest), _four_changes(rest))
        return [_tap(_padded(first + o, size, padding_mode, align_corners)[0], w, change, size) for o, w, change in taps]
    place, change = _padded(place, size, padding_mode, align_corners)
    if interpolation_mode == NEAREST:
        return [_tap(place.round(), 1.0, 0.0, size)]
    first = place.floor()
    return [_tap(first, first + 1 - place, -change, size), _tap(first + 1, place - first, change, size)]


def _scale(size: int | SymInt, align_corners: bool) -> float | torch.SymFloat:
    """Elements that a step of 1 in the grid is."""
    return (size - 1) * 0.5 if align_corners else size * 0.5


def _tap(at: Tensor, weight: Tensor | float, change: Tensor | float, size: int | SymInt) -> _Tap:
    number, _, inside = kept(at, weight, size)
    return _Tap(number, weight, change, inside)


def _four_changes(rest: Tensor) -> list[Tensor]:
    """The derivatives of the weights ``resampling.four``."""
    left = 1 - rest
    return [-0.75 * left * (1 - 3 * rest), rest * (3.75 * rest - 4.5), left * (4.5 - 3.75 * left), -0.75 * rest * (2 - 3 * rest)]


def _padded(place: Tensor, size: int | SymInt, padding_mode: int, align_corners: bool) -> tuple[Tensor, Tensor | float]:
    """The place of what pads an image, and how it changes with the one that was asked for: not at all at the border and beyond, as torch has it."""
    if padding_mode == ZEROS:
        return place, 1.0
    change: Tensor | float = 1.0
    if padding_mode != BORDER:
        place, back = reflected(place, size, align_corners)
        change = torch.where(back, -1.0, 1.0) if isinstance(back, Tensor) else 1.0
    return place.clamp(0, size - 1), torch.where((place > 0) & (place < size - 1), change, 0.0)


def _of_grid(grad: Tensor, x: Tensor, each: list[_Tap], along: list[list[_Tap]], align_corners: bool, wide: torch.dtype) -> Tensor:
    """Of each place sums over the channels, whose weights are the same; ``each``: the places for each channel."""
    dims = len(along)
    numbers = [as_dimension(torch.arange(n, device=x.device), d, dims + 2) for d, n in enumerate(x.shape[:2])]
    read = aten.index.Tensor(x, [*numbers, *(t.place for t in each)])
    sums = torch.where(_all_inside(each), read.to(wide) * grad.to(wide), 0.0).sum(dims + 1)
    found = []
    for d in reversed(range(dims)):  # the grid has the last dimension first
        terms = (sums[which] * _product([t.change if e == d else t.weight for e, t in enumerate(taps)]) for which, taps in _products(along))
        found.append(functools.reduce(operator.add, terms) * _scale(x.shape[d + 2], align_corners))
    return torch.stack(found, -1)


def _of_image(grad: Tensor, x: Tensor, taps: list[_Tap], wide: torch.dtype) -> Tensor:
    """What each point adds to the places that it reads."""
    (batch, channels), sizes, dims = x.shape[:2], x.shape[2:], len(taps)
    pixels = functools.reduce(operator.mul, sizes)
    inside, weight = _all_inside(taps), _product([t.weight for t in taps])
    place = functools.reduce(lambda at, tap: at * tap[1] + tap[0].place.to(torch.int64), zip(taps, sizes), 0)
    image = torch.arange(batch, device=x.device).reshape(batch, *[1] * dims)
    by_rows = type(channels) is int and channels >= _ROW
    if by_rows:
        value, place, total = grad.movedim(1, -1), place + image * pixels, (batch * pixels, channels)
    else:
        channel = as_dimension(torch.arange(channels, device=x.device), 0, dims + 1)
        value, place, total = grad, place.unsqueeze(dims + 1) + (image.unsqueeze(1) * channels + channel) * pixels, (batch * channels * pixels,)
    of_each = -1 if by_rows else dims + 1  # the dimension of channels, of which all have the same weights
    value = torch.where(inside.unsqueeze(of_each), value.to(wide) * (weight if isinstance(weight, float) else weight.unsqueeze(of_each)), 0.0)
    if for_gpu(x):  # which leaves out what goes nowhere; elsewhere there are zeros to add
        place = torch.where(inside if by_rows else inside.unsqueeze(of_each), place, _OUTSIDE)
    found = aten.index_put.default(x.new_zeros(total, dtype=wide), [place.reshape(-1)], value.reshape(-1, *total[1:]), True)
    if by_rows:
        found = found.reshape(batch, *sizes, channels).movedim(-1, 1)
    return found.reshape(x.shape).to(x.dtype).contiguous()


def _any_of(along: list[list[_Tap]]) -> list[_Tap]:
    """Those of each dimension as one that has a leading dimension for their number: all combinations are computed by one operation."""
    dims = len(along)
    rank = dims + along[0][0].place.dim()

    def any_of(values: tuple[Tensor | float, ...], number: Tensor) -> Tensor | float:
        if isinstance(values[0], float):
            return values[0]
        found = values[0][(None,) * dims]
        for i, value in enumerate(values[1:], 1):
            found = torch.where(number == i, value, found)
        return found

    numbers = [as_dimension(torch.arange(len(taps), device=taps[0].place.device), d, rank) for d, taps in enumerate(along)]
    return [_Tap(*(any_of(values, number) for values in zip(*taps))) for taps, number in zip(along, numbers)]


def _products(along: list[list[_Tap]]) -> list[tuple[tuple[int, ...], tuple[_Tap, ...]]]:
    """All combinations of a place along each dimension, by their numbers."""
    return list(zip(itertools.product(*(range(len(taps)) for taps in along)), itertools.product(*along)))


def _all_inside(taps: tuple[_Tap, ...]) -> Tensor:
    return functools.reduce(torch.logical_and, (t.inside for t in taps))


def _product(factors: list[Tensor | float]) -> Tensor | float:
    return functools.reduce(operator.mul, factors)


def _of_cudnn(x: Tensor, grid: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of what torch asks cuDNN for."""
    return _gradients(grad, x, grid, 0, ZEROS, True, [True, True])


TABLE = {
    aten.grid_sampler_2d_backward.default: _gradients, aten.grid_sampler_3d_backward.default: _gradients,
    aten.cudnn_grid_sampler_backward.default: _of_cudnn,
}

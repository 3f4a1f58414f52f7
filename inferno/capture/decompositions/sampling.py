"""Images that are sampled where a grid says (``grid_sample``): the nearest element, or a sum of 2 in each direction, or of 4.

Torch's decomposition makes a float32 image first, and places that may count from the end of a dimension.  Here elements are read as they lie, and places are
kept inside of the image along each dimension by themselves: of a point there are 4 places and 4 weights, not 8 and 4.  The grid is expanded over the channels,
as torch does for CUDA, so that one kernel computes places and reads what is there.  Cubic weights and places are more than one kernel computes, and torch's
decomposition is right for them where the grid is not expanded: bicubic samples of 4x64x128x160 in bf16 move 29 MB, and some 520 with it expanded.
"""

import functools
import itertools
import operator

import torch
from torch import SymInt, Tensor
from torch._decomp.decompositions import _grid_sampler_2d

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

NEAREST, CUBIC = 1, 2  # ATen's numbers of interpolation modes
ZEROS, BORDER = 0, 1  # and of padding modes


def _sampled(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    if any(type(n) is int and n == 0 for n in (*x.shape, *grid.shape)) or not x.is_floating_point() or x.dtype != grid.dtype:
        return NotImplemented
    wide, dims = torch.float64 if x.dtype == torch.float64 else torch.float32, x.dim() - 2
    if interpolation_mode == CUBIC:
        return _grid_sampler_2d(x.to(wide), grid.to(wide), interpolation_mode, padding_mode, align_corners, _expand_grid=False).to(x.dtype)
    (count, channels), sizes = x.shape[:2], x.shape[2:]
    along = []
    for d, size in enumerate(sizes):
        place = grid[..., dims - 1 - d].unsqueeze(1).expand(count, channels, *grid.shape[1:-1]).to(wide)
        place = place * ((size - 1) * 0.5 if align_corners else size * 0.5) + (size - 1) * 0.5
        place = place if padding_mode == ZEROS else _padded(place, size, padding_mode, align_corners)
        along.append([kept(at, weight, size) for at, weight in _taps(place, interpolation_mode)])
    numbers = [as_dimension(torch.arange(n, device=x.device), d, dims + 2) for d, n in enumerate((count, channels))]
    terms = []
    for taps in itertools.product(*along):
        places, weights, insides = zip(*taps)
        gathered, weight = aten.index.Tensor(x, [*numbers, *places]), functools.reduce(operator.mul, weights)
        terms.append(torch.where(functools.reduce(torch.logical_and, insides), gathered.to(wide) * weight, 0.0))  # not times 0: it may be infinite
    return functools.reduce(operator.add, terms).to(x.dtype)


def _taps(place: Tensor, interpolation_mode: int) -> list[tuple[Tensor, Tensor | float]]:
    """Where elements are read along a dimension, as whole floats, and their weights."""
    if interpolation_mode == NEAREST:
        return [(place.round(), 1.0)]
    first = place.floor()
    return [(first, first + 1 - place), (first + 1, place - first)]


def kept(at: Tensor, weight: Tensor | float, size: int | SymInt) -> tuple[Tensor, Tensor | float, Tensor]:
    """A place as a whole number that is inside of a dimension, its weight, and whether it was inside."""
    return at.to(torch.int32).clamp(0, size - 1), weight, torch.logical_and(at >= 0, at < size)


def _padded(place: Tensor, size: int | SymInt, padding_mode: int, align_corners: bool) -> Tensor:
    """The place of what pads an image: its border, or what is reflected at it."""
    place = place if padding_mode == BORDER else reflected(place, size, align_corners)[0]
    return place.clamp(0, size - 1)


def reflected(place: Tensor, size: int | SymInt, align_corners: bool) -> tuple[Tensor, Tensor | bool]:
    """Where a place is that is reflected at both ends until it is between them, and whether that went backwards."""
    if align_corners and type(size) is int and size == 1:
        return torch.zeros_like(place), False
    low, span = (0.0, torch.sym_max(size - 1, 1)) if align_corners else (-0.5, size)
    distance = (place - low).abs()
    flips = torch.floor(distance / span)
    rest = torch.fmod(distance, span)
    odd = flips - 2 * torch.floor(flips / 2) != 0
    return torch.where(odd, span - rest, rest) + low, odd != (place < low)


def _by_cudnn(x: Tensor, grid: Tensor) -> Tensor:
    """What torch asks cuDNN for: float32 and float16 on a GPU, of the modes that this is."""
    return _sampled(x, grid, 0, ZEROS, True)


TABLE = {aten.grid_sampler_2d.default: _sampled, aten.grid_sampler_3d.default: _sampled, aten.cudnn_grid_sampler.default: _by_cudnn}

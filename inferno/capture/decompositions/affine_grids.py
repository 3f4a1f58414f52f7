"""Grids of an affine map (``affine_grid``): a sum of products of the places along each direction, which are computed where they are read.

Torch's decomposition pads the places to vectors, and makes a tensor of its own of the only place of a direction, which is no part of a traced graph.
"""

from collections.abc import Sequence

import torch
from torch import SymInt, Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten


def affine_grid(theta: Tensor, size: Sequence[int | SymInt], align_corners: bool) -> Tensor:
    """``aten.affine_grid_generator``: ``theta`` [N, dims, dims + 1] at the places of an image of ``size`` (N, C, ...) from -1 to 1, as [N, ..., dims]."""
    dims = len(size) - 2
    if dims not in (2, 3) or not theta.is_floating_point():
        return NotImplemented
    wide = theta if theta.dtype == torch.float64 else theta.to(torch.float32)
    columns = [wide[:, :, k].reshape(wide.shape[0], *[1] * dims, dims) for k in range(dims + 1)]
    found = columns[dims]
    for d, count in enumerate(size[2:]):
        found = found + as_dimension(_from_minus_one(count, align_corners, wide), d + 1, dims + 2) * columns[dims - 1 - d]  # the last direction is x
    return found.expand(size[0], *size[2:], dims).to(theta.dtype)


def _from_minus_one(count: int | SymInt, align_corners: bool, like: Tensor) -> Tensor:
    """So many places from -1 to 1, or half a place inside of them; the only one is 0."""
    numbers = torch.arange(count, device=like.device).to(like.dtype)
    return (2 * numbers - (count - 1)) / (torch.sym_max(count - 1, 1) if align_corners else count)


TABLE = {aten.affine_grid_generator.default: affine_grid}

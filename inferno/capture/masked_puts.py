"""``x[mask] = y`` whose gradient is taken: autograd's own for y is what the mask picks of x's gradient, and how much that is no graph knows.

Here every place gets a value by the mask's running count, as without gradients (``decompositions/masks.py``), and the sizes of both gradients are those of
the tensors.
"""

from typing import Any

import torch
from torch import Tensor

from inferno.capture.decompositions.masks import index_put
from inferno.capture.scalar_places import put_at


def put_item(x: Tensor, key: Any, value: Any) -> Any:
    """``x[key] = value`` at a place that a tensor says, or at those of a mask: None, when it is written; NotImplemented for other keys."""
    found = put_at(x, key, value)
    return _put_masked(x, key, value) if found is NotImplemented else found


def _put_masked(x: Tensor, key: Any, value: Any) -> Any:
    """For one mask beside slices, integers and ``...``, and values that may have a gradient."""
    if not isinstance(value, Tensor) or not torch.is_grad_enabled() or not value.is_floating_point() or (value.device, value.dtype) != (x.device, x.dtype):
        return NotImplemented
    entries = list(key) if isinstance(key, tuple) else [key]
    places = [n for n, entry in enumerate(entries) if isinstance(entry, Tensor)]
    if len(places) != 1 or not all(isinstance(e, Tensor) or e is Ellipsis or type(e) in (int, slice) for e in entries):
        return NotImplemented
    place, mask = places[0], entries[places[0]]
    if mask.dtype != torch.bool or not mask.dim():
        return NotImplemented
    if any(type(n) is int and not n for n in value.shape):
        return NotImplemented  # whose gradient is an empty one
    counted = sum(e is not Ellipsis for e in entries) - 1 + mask.dim()
    first = sum(x.dim() - counted if e is Ellipsis else type(e) is not int for e in entries[:place])
    entries[place:place + 1] = [slice(None)] * mask.dim()
    part = x[tuple(entries)]
    found = index_put(part, [*[None] * first, mask], value)
    if found is NotImplemented:
        return NotImplemented
    part.copy_(found)
    return None

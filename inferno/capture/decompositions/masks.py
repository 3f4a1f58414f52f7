"""What a mask selects, where the results' shapes do not depend on how much that is: by the mask's running count."""

import math

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu

aten = torch.ops.aten

_NOWHERE = 1 << 62


def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """x[:, mask] = values: one value is the same everywhere; of several, the k-th goes to the mask's k-th place."""
    masks = [(i, m) for i, m in enumerate(indices) if m is not None]
    if len(masks) != 1 or masks[0][1].dtype not in (torch.bool, torch.uint8):
        return NotImplemented
    first, mask = masks[0]
    if mask.device != x.device:  # torch takes one on the CPU; it is left in eager
        return NotImplemented
    mask = mask.to(torch.bool)
    last = first + mask.dim()
    if any(type(n) is type(m) is int and n != m for n, m in zip(x.shape[first:last], mask.shape)):  # eager says of which shapes
        return NotImplemented
    before, behind = x.shape[:first], x.shape[last:]
    flat = x.reshape(*before, mask.numel(), *behind)
    chosen = mask.reshape(*(1,) * first, -1, *(1,) * len(behind))
    values = values.to(device=x.device, dtype=x.dtype)  # a single value may be on the CPU
    values = values.reshape(*(1,) * (flat.dim() - values.dim()), *values.shape)  # aligned at the back, like every broadcast
    if values.dim() != flat.dim():
        return NotImplemented
    if isinstance(values.shape[first], int) and not values.shape[first]:
        return x.clone()
    if values.shape[first] != 1:
        last = values.shape[first] - 1
        if not isinstance(last, int):  # there may be no value: one more, which goes nowhere
            values, last = torch.cat([values, values.new_zeros(*values.shape[:first], 1, *values.shape[first + 1:])], first), last + 1
        values = values.index_select(first, _running_count(mask).clamp(max=last))
    found = torch.where(chosen, flat + values if accumulate else values.expand_as(flat), flat)
    return found.reshape(x.shape)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The source's elements in order, where the mask is: rows of them, where a mask says the same of all of a row, as of a token's features.

    On a CPU a source of fewer than the mask selects is an index out of range, as it is an error in eager.
    """
    x, mask = torch.broadcast_tensors(x, mask)
    if not source.numel():
        return x.clone()
    width = _row(mask)
    if width > 1 and source.dim() and source.shape[-1] == width:
        rows = source.reshape(-1, width)
        place = _places(mask[..., 0], rows.shape[0])
        return torch.where(mask, rows.index_select(0, place).reshape(x.shape), x)
    place = _places(mask, source.numel())
    return torch.where(mask, source.flatten().index_select(0, place).reshape(x.shape), x)


def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """The gradient of the source: what is where the mask is, in order, and zeros behind."""
    mask = mask.expand(grad.shape)
    count = math.prod(sizes)
    if not all(isinstance(n, int) and n for n in (*grad.shape, *sizes)):
        return NotImplemented
    width = _row(mask)
    width = width if width > 1 and sizes[-1] == width else 1
    chosen, rows = (mask[..., 0] if width > 1 else mask).reshape(-1), count // width
    # What is not chosen goes nowhere: on a CPU to a row of its own, which is cut off.
    nowhere = _NOWHERE if for_gpu(grad) else rows
    place = torch.where(chosen, chosen.to(torch.int64).cumsum(0) - 1, nowhere)
    found = grad.new_zeros(rows if for_gpu(grad) else rows + 1, width)
    return aten.index_put.default(found, [place], grad.reshape(-1, width))[:rows].reshape(sizes)


def _row(mask: Tensor) -> int:
    """How many neighbours a mask says the same of, as far as its last dimension tells."""
    last = mask.shape[-1] if mask.dim() else 1
    return last if isinstance(last, int) and last > 1 and mask.stride(-1) == 0 else 1


def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """[size, dimensions]: where the first ``size`` elements are that are not 0.  The k-th is behind all that count k at most."""
    if not x.dim():
        return NotImplemented
    if not x.numel():
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    counts = (x.flatten() != 0).to(torch.int64).cumsum(0)
    number = torch.arange(size, device=x.device).unsqueeze(-1)
    place = (counts <= number).sum(-1)
    columns = []
    for extent in reversed(x.shape):
        columns.append(place % extent)
        place = place // extent
    found = torch.stack(columns[::-1], -1)
    return torch.where(number < counts[-1], found, fill_value)


def _running_count(mask: Tensor) -> Tensor:
    """How many places of the mask are before each one of its own; 0 before the first."""
    return (mask.flatten().to(torch.int64).cumsum(0) - 1).clamp(min=0)


def _places(mask: Tensor, count: int) -> Tensor:
    """The number of the source's element, of ``count``, that each place of the mask gets; where it gets none, and on a GPU, it is one that is there."""
    place = _running_count(mask)
    return place.clamp(max=count - 1) if for_gpu(mask) else torch.where(mask.flatten(), place, 0)


TABLE = {
    aten.index_put.default: index_put,
    aten._unsafe_index_put.default: index_put,
    aten.masked_scatter.default: masked_scatter,
    aten.masked_scatter_backward.default: masked_scatter_backward,
    aten.nonzero_static.default: nonzero_static,
}

"""What a mask selects, where the results' shapes do not depend on how much that is: by the mask's running count."""

import torch
from torch import Tensor

aten = torch.ops.aten


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
    """The source's elements in order, where the mask is."""
    x, mask = torch.broadcast_tensors(x, mask)
    if not source.numel():
        return x.clone()
    place = _running_count(mask).clamp(max=source.numel() - 1)
    return torch.where(mask, source.flatten().index_select(0, place).reshape(x.shape), x)


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


TABLE = {
    aten.index_put.default: index_put,
    aten._unsafe_index_put.default: index_put,
    aten.masked_scatter.default: masked_scatter,
    aten.nonzero_static.default: nonzero_static,
}

"""The largest or the smallest of what goes to each place, on a GPU, whose memory joins whole numbers so, but no floats."""

import torch
from torch import Tensor

from inferno.capture.decompositions.scattering import placed_elements, placed_rows
from inferno.capture.reduced_rows import reduce_rows

aten = torch.ops.aten

_KEYS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int32, torch.float16: torch.int32}


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Of whole numbers that are in the order of the floats; in any other way each element of the result would look for what goes to it among all."""
    if reduce not in ("amax", "amin") or x.dtype not in _KEYS or x.device.type != "cuda":
        return NotImplemented
    return extremes(x, dim, index, src, reduce, include_self)


def extremes(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """The same of any device's floats."""
    largest, type_ = reduce == "amax", torch.float64 if x.dtype == torch.float64 else torch.float32
    limits = torch.iinfo(_KEYS[type_])
    least = limits.min if largest else limits.max
    rows = placed_rows(x, dim % max(1, x.dim()), index, src)
    if rows is not None:
        flat, place, part = rows
        start = _key(flat.to(type_), largest) if include_self else torch.full(flat.shape, least, dtype=_KEYS[type_], device=x.device)
        found = reduce_rows(start, place, _key(part.to(type_), largest), reduce)
        made = _transposed(found).view(type_).to(x.dtype)
        return (made if include_self else torch.where(found == least, flat, made)).reshape(x.shape)  # (no float has that key)
    placed = placed_elements(x, dim, index, src)
    if placed is None:
        return NotImplemented
    place, part = placed
    start, terms = _key(x.to(type_), largest).reshape(-1), _key(part.to(type_), largest)
    if not include_self:
        start = aten.index_put.default(start, [place], torch.full_like(terms, least))
    found = aten.scatter_reduce.two(start, 0, place, terms, reduce)
    return _transposed(found).view(type_).reshape(x.shape).to(x.dtype)


def _key(values: Tensor, largest: bool) -> Tensor:
    """Whole numbers in the order of floats; what is no number goes before all others."""
    number = _transposed(values.view(_KEYS[values.dtype]))
    limit = torch.iinfo(number.dtype)
    return torch.where(values.isnan(), limit.max if largest else limit.min, number)


def _transposed(number: Tensor) -> Tensor:
    """The bits of floats below 0 grow with their size, unlike those of whole numbers: all but the sign are flipped, there and back."""
    return number ^ ((number >> (8 * number.itemsize - 1)) & torch.iinfo(number.dtype).max)


TABLE = {aten.scatter_reduce.two: scatter_reduce}

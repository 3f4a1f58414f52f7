"""``scatter_reduce`` by amax and amin on a GPU, whose atomic maxima and minima are of integers: floats become integers of the same order, and floats again."""

import torch
from torch import Tensor

from inferno.capture.decompositions.scattering import have_rows, placed_elements, placed_rows
from inferno.capture.devices import for_gpu
from inferno.capture.reduced_rows import reduce_rows

aten = torch.ops.aten

_KEYS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int32, torch.float16: torch.int32}
_WHOLE = {torch.int64: torch.int64, **dict.fromkeys((torch.int8, torch.uint8, torch.int16, torch.int32), torch.int32)}  # as memory joins them
# Elements from which on torch's kernel is the faster one, where they do not go to rows in shared memory: as of those that are added (see ``library_faster``).
_MANY = 1 << 20


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Of whole numbers that are in the order of the floats; in any other way each element of the result would look for what goes to it among all."""
    if reduce not in ("amax", "amin") or (x.dtype not in _KEYS and x.dtype not in _WHOLE) or not for_gpu(x):
        return NotImplemented
    return extremes(x, dim, index, src, reduce, include_self)


def extremes(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """The same of any device's tensors."""
    if not x.dim() or not index.dim():
        return NotImplemented
    dim, largest, floats = dim % x.dim(), reduce == "amax", x.dtype in _KEYS
    type_ = _WHOLE.get(x.dtype) or (torch.float64 if x.dtype == torch.float64 else torch.float32)
    limits = torch.iinfo(_KEYS[type_] if floats else type_)
    least = limits.min if largest else limits.max
    placed = placed_rows(x, dim, index, src)
    if placed is None:
        if all(isinstance(n, int) for n in index.shape) and index.numel() > _MANY and not have_rows(x, dim, index):
            return NotImplemented
        elements = placed_elements(x, dim, index, src)
        placed = (x.reshape(-1), *elements) if elements is not None else None
    if placed is None:
        return NotImplemented
    flat, place, part = placed
    start, terms = (_key(t.to(type_), largest) if floats else t.to(type_) for t in (flat, part))
    if not include_self and floats:
        start = torch.full(flat.shape, least, dtype=start.dtype, device=x.device)
    elif not include_self:
        start = aten.index_put.default(start, [place], torch.full_like(terms, least))
    found = reduce_rows(start, place, terms, reduce)
    made = _transposed(found).view(type_).to(x.dtype) if floats else found.to(x.dtype)
    return (torch.where(found == least, flat, made) if floats and not include_self else made).reshape(x.shape)  # (no float has that key)


def _key(values: Tensor, largest: bool) -> Tensor:
    """Whole numbers in the order of floats; what is no number goes before all others."""
    number = _transposed(values.view(_KEYS[values.dtype]))
    limit = torch.iinfo(number.dtype)
    return torch.where(values.isnan(), limit.max if largest else limit.min, number)


def _transposed(number: Tensor) -> Tensor:
    """The bits of floats below 0 grow with their size, unlike those of whole numbers: all but the sign are flipped, there and back."""
    return number ^ ((number >> (8 * number.itemsize - 1)) & torch.iinfo(number.dtype).max)


TABLE = {aten.scatter_reduce.two: scatter_reduce}

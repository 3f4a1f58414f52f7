"""Products of many complex numbers, and running ones, of their real and imaginary parts: halves are multiplied with each other until one number is left, and
what is multiplied in reaches twice as far with each step (Hillis and Steele, 1986)."""

from math import prod
from typing import Any

import torch
from torch.fx import Node

from inferno.capture.complex_functions import Parts, product_of

aten = torch.ops.aten


def along(split: Any, x: Node, dim: int, keepdim: bool = False, dtype: torch.dtype | None = None) -> Parts | None:
    """The product along a dimension."""
    value = x.meta["val"]
    if dtype not in (None, value.dtype) or not value.dim() or not _is_known(value):
        return None
    found = _product(split, split.of(x), dim % value.dim())
    return found if keepdim else tuple(split.call(aten.squeeze.dim, p, dim % value.dim()) for p in found)


def of_all(split: Any, x: Node, dtype: torch.dtype | None = None) -> Parts | None:
    """The product of all elements."""
    value = x.meta["val"]
    if dtype not in (None, value.dtype) or not _is_known(value):
        return None
    flat = tuple(split.call(aten.reshape.default, p, [prod(value.shape)]) for p in split.of(x))
    return tuple(split.call(aten.squeeze.dim, p, 0) for p in _product(split, flat, 0))


def _product(split: Any, found: Parts, dim: int) -> Parts:
    """With a dimension of one element in the place of ``dim``; of an odd number of elements the last one waits for the next halves."""
    while (left := found[0].meta["val"].shape[dim]) > 1:
        half = left // 2
        joined = product_of(split, *(_part(split, found, dim, n * half, (n + 1) * half) for n in (0, 1)))
        found = joined if left % 2 == 0 else _joined(split, [joined, _part(split, found, dim, left - 1, left)], dim)
    return found


def running(split: Any, x: Node, dim: int, *, dtype: torch.dtype | None = None) -> Parts | None:
    """The products of the elements up to each one."""
    value = x.meta["val"]
    if dtype not in (None, value.dtype) or not _is_known(value):
        return None
    if not value.dim():
        return split.of(x)
    dim, found, step = dim % value.dim(), split.of(x), 1
    count = value.shape[dim]
    while step < count:
        behind = product_of(split, _part(split, found, dim, step, count), _part(split, found, dim, 0, count - step))
        found, step = _joined(split, [_part(split, found, dim, 0, step), behind], dim), 2 * step
    return found


def _is_known(value: torch.Tensor) -> bool:
    """Whether there are elements, and how many."""
    return all(type(n) is int and n for n in value.shape)


def _part(split: Any, x: Parts, dim: int, begin: int, end: int) -> Parts:
    return tuple(split.call(aten.slice.Tensor, p, dim, begin, end) for p in x)


def _joined(split: Any, found: list[Parts], dim: int) -> Parts:
    return tuple(split.call(aten.cat.default, list(parts), dim) for parts in zip(*found))


RULES = {aten.prod.dim_int: along, aten.prod.default: of_all, aten.cumprod.default: running}

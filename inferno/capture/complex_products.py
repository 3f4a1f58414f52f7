"""Products of many complex numbers, and short running ones, of their real and imaginary parts: halves are multiplied with each other until one is left."""

from math import prod
from typing import Any

import torch
from torch.fx import Node

from inferno.capture.complex_functions import REAL, Parts, product_of

aten, prims = torch.ops.aten, torch.ops.prims

_MOST = 128  # elements of a running product, which for each of them multiplies as many (no measurement chose it)


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
    """With a dimension of one element in the place of ``dim``, in float64 until it is rounded, as torch has it on a CPU: each factor would add an error.
    Of an odd number of elements the last one waits for the next halves."""
    narrow = found[0].meta["val"].dtype
    found = _converted(split, found, torch.float64)
    while (left := found[0].meta["val"].shape[dim]) > 1:
        half = left // 2
        joined = product_of(split, *(_part(split, found, dim, n * half, (n + 1) * half) for n in (0, 1)))
        found = joined if left % 2 == 0 else _joined(split, [joined, _part(split, found, dim, left - 1, left)], dim)
    return _converted(split, found, narrow)


def _converted(split: Any, x: Parts, dtype: torch.dtype) -> Parts:
    return x if x[0].meta["val"].dtype == dtype else tuple(split.call(prims.convert_element_type.default, p, dtype) for p in x)


def running(split: Any, x: Node, dim: int, *, dtype: torch.dtype | None = None) -> Parts | None:
    """The products of the elements up to each one.  (In steps that reach twice as far each, the compiler would write out what each step is made of.)"""
    value = x.meta["val"]
    if dtype not in (None, value.dtype) or not _is_known(value):
        return None
    if not value.dim():
        return split.of(x)
    dim, count = dim % value.dim(), value.shape[dim % value.dim()]
    if count > _MOST:
        return None
    # Of the elements in front of each one and itself; the others are 1.
    places = {"dtype": torch.int64, "device": value.device}
    numbers = [split.call(aten.arange.start_step, 0, count, 1, **places) for _ in (0, 1)]
    shape = [count, count, *[1] * (value.dim() - 1 - dim)]
    own, other = (split.call(aten.view.default, n, [count if d == i else 1 for d in range(len(shape))]) for i, n in enumerate(numbers))
    before = split.call(aten.le.Tensor, other, own)
    ones = [split.call(aten.scalar_tensor.default, v, dtype=REAL[value.dtype], device=value.device) for v in (1.0, 0.0)]
    terms = tuple(split.call(aten.where.self, before, split.call(aten.unsqueeze.default, p, dim), one) for p, one in zip(split.of(x), ones))
    return tuple(split.call(aten.squeeze.dim, p, dim + 1) for p in _product(split, terms, dim + 1))


def _is_known(value: torch.Tensor) -> bool:
    """Whether there are elements, and how many."""
    return all(type(n) is int and n for n in value.shape)


def _part(split: Any, x: Parts, dim: int, begin: int, end: int) -> Parts:
    return tuple(split.call(aten.slice.Tensor, p, dim, begin, end) for p in x)


def _joined(split: Any, found: list[Parts], dim: int) -> Parts:
    return tuple(split.call(aten.cat.default, list(parts), dim) for parts in zip(*found))


RULES = {aten.prod.dim_int: along, aten.prod.default: of_all, aten.cumprod.default: running}

"""The order of a tensor's dimensions in memory: kernels know row-major buffers alone, so a tensor in another order is permuted."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from sympy import expand
from torch.utils._sympy.functions import Max


def dense_order(value: torch.Tensor) -> tuple[int, ...] | None:
    """The order of dimensions, outermost first, in which a tensor is dense; None if it has gaps or overlaps.

    Of sizes that vary only what is known of all of them counts; torch learns no guard from being asked."""
    sizes, strides = value.shape, value.stride()
    if not any(isinstance(n, torch.SymInt) for n in (*sizes, *strides)) and value.is_contiguous():
        return tuple(range(len(sizes)))
    order = sorted(range(len(sizes)), key=lambda i: (-example(strides[i]), i))
    step: Any = 1
    for i in reversed(order):
        size, stride = expression(sizes[i]), step_expression(strides[i])
        if size != 1 and not are_equal(stride, step):
            return None
        step = step * size
    return tuple(order)


def permuted_order(value: Any) -> tuple[int, ...] | None:
    """The order in which a tensor is dense where it is not row-major; None for one that is, that has gaps, and for a number."""
    order = dense_order(value) if isinstance(value, torch.Tensor) else None
    return None if order is None or order == tuple(range(len(order))) else order


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that takes ``order`` back."""
    return [order.index(i) for i in range(len(order))]


def pixel_order(rank: int) -> list[int]:
    """The order in which an image's channels, or a sequence's, are neighbours."""
    return [0, *range(2, rank), 1]


def example(size: int | torch.SymInt) -> int:
    """What a size was in the example."""
    return size if isinstance(size, int) else int(size.node.hint or 0)


def example_bytes(value: torch.Tensor) -> int:
    """The bytes of a tensor's elements in the example."""
    return math.prod(map(example, value.shape)) * value.dtype.itemsize


def step_expression(step: int | torch.SymInt) -> Any:
    """A stride as ``expression`` has a size, but for sizes of 0, which torch counts as 1 there: no elements are any number apart."""
    found = expression(step)
    if isinstance(found, int) or not found.has(Max):
        return found
    return found.replace(lambda e: isinstance(e, Max) and 1 in e.args, lambda e: Max(*(a for a in e.args if a != 1)))


def are_equal(one: Any, other: Any) -> bool:
    """Whether two sizes or strides, as ``expression`` has them, are equal for all values of their symbols: ``(n + 1) * m`` is ``n * m + m``."""
    return one == other or (not (isinstance(one, int) and isinstance(other, int)) and expand(one - other) == 0)


def expression(size: int | torch.SymInt) -> Any:
    """A size as what can be compared: of a ``SymInt`` torch would learn a guard."""
    return size if isinstance(size, int) else size.node.expr

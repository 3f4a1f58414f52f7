"""Views of tensors that lie in memory otherwise than in eager, where torch would refuse them.

A decomposition may make its result in another order of dimensions than the operation that it stands for; a view that was possible
of the one is not of the other.  In a graph of values it is a reshape all the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from inferno.capture.orders import are_equal, step_expression
from inferno.errors import CaptureError

aten = torch.ops.aten
_asks_torch = ContextVar("asks_torch", default=False)


@contextmanager
def results_as_views() -> Iterator[None]:
    """Results that are views in eager are views here too, where torch may learn guards of sizes to say so."""
    before = _asks_torch.set(True)
    try:
        yield
    finally:
        _asks_torch.reset(before)


def view(x: Tensor, size: list[int]) -> Tensor:
    """A reshape where it is no view; a copy there costs nothing, since no tensor of the compiler's has strides."""
    if _is_view(x, size):
        return NotImplemented
    copy = aten.clone.default(x, memory_format=torch.contiguous_format)
    if not _is_view(copy, size):
        raise CaptureError(f"a tensor of sizes {tuple(x.shape)} and strides {x.stride()} is not known to have the sizes {tuple(size)}")
    return aten.view.default(copy, size)


def _is_view(x: Tensor, size: list[int]) -> bool:
    """Whether torch can give the view.  A result that is one of an input has to be one here too: whoever calls gets it of that input."""
    if any(type(n) is int and n == 0 for n in x.shape):
        return True
    numbers = (*x.shape, *x.stride(), *size)
    if not all(type(n) is int for n in numbers):
        if _is_view_of_sizes(*([step_expression(n) for n in each] for each in (x.shape, x.stride(), size))):
            return True
        with _disable_current_modes():
            return _asks_torch.get() and _gives_view(x, size)
    with _disable_current_modes():
        return _gives_view(torch.empty_strided(x.shape, x.stride(), device="meta"), size)


def _gives_view(x: Tensor, size: list[int]) -> bool:
    try:
        x.view(size)
    except RuntimeError:
        return False
    return True


def _is_view_of_sizes(shape: list[Any], strides: list[Any], size: list[Any]) -> bool:
    """The same of sizes that vary, as expressions, as far as that is known: every run of dimensions in which each goes on where the next ends is some of the
    new ones.  Of a dense tensor, which is one run, it is known of any."""
    place, number, step = len(size), 1, 1
    for d in reversed(range(len(shape))):
        if number == 1:
            step = strides[d]
        number = number * shape[d]
        if d and (shape[d - 1] == 1 or are_equal(strides[d - 1], number * step)):
            continue
        if not d and place == len(size) and step == 1:
            return True
        new = 1
        while place and (size[place - 1] == 1 or not are_equal(new, number)):
            place, new = place - 1, new * size[place - 1]
        if not are_equal(new, number):
            return False
        number = 1
    return place == 0


TABLE = {aten.view.default: view}

"""Views of tensors that lie in memory otherwise than in eager, where torch would refuse them.

A decomposition may make its result in another order of dimensions than the operation that it stands for; a view that was possible
of the one is not of the other.  In a graph of values it is a reshape all the same.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from inferno.capture.orders import step_expression
from inferno.errors import CaptureError

aten = torch.ops.aten


def view(x: Tensor, size: list[int]) -> Tensor:
    """A reshape where it is no view; a copy there costs nothing, since no tensor of the compiler's has strides."""
    if _is_view(x, size):
        return NotImplemented
    copy = aten.clone.default(x, memory_format=torch.contiguous_format)
    if not _is_view(copy, size):
        raise CaptureError(f"a tensor of sizes {tuple(x.shape)} and strides {x.stride()} is not known to have the sizes {tuple(size)}")
    return aten.view.default(copy, size)


def _is_view(x: Tensor, size: list[int]) -> bool:
    """Whether torch can give the view; of sizes that vary only a dense row-major tensor is sure to have it."""
    if any(type(n) is int and n == 0 for n in x.shape):
        return True
    numbers = (*x.shape, *x.stride(), *size)
    if not all(type(n) is int for n in numbers):
        step = 1
        for n, stride in zip(reversed(x.shape), reversed(x.stride())):
            if step_expression(stride) != step and step_expression(n) != 1:
                return False
            step = step * step_expression(n)
        return True
    with _disable_current_modes():
        try:
            torch.empty_strided(x.shape, x.stride(), device="meta").view(size)
        except RuntimeError:
            return False
    return True


TABLE = {aten.view.default: view}

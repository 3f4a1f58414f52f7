"""Results of a plan that are memory of its arguments, or of other results."""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import torch
from torch import Tensor


def as_laid(tensor: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A dense tensor's memory as a plan has it: its elements in the order in which they lie, whatever the order of its dimensions."""
    if tensor.dtype.itemsize != dtype.itemsize:  # complex numbers, and pairs of their parts
        return tensor.as_strided((tensor.numel(),), (1,)).view(dtype).view(shape)
    if tensor.is_contiguous():
        return tensor.view(shape).view(dtype)
    steps = tuple(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]
    return tensor.as_strided(shape, steps).view(dtype)

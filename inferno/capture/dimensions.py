"""Vectors and numbers beside tensors."""

import torch
from torch import Tensor


def as_dimension(values: Tensor, dim: int, rank: int) -> Tensor:
    """A vector as the dimension ``dim`` of so many, beside those of one element: it is broadcast over the others."""
    return values.reshape([-1 if d == dim else 1 for d in range(rank)])


def number_like(value: float, like: Tensor) -> Tensor:
    """A number as a tensor without dimensions, of the type and on the device of ``like``."""
    return torch.full((), value, dtype=like.dtype, device=like.device)

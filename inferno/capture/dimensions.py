"""Vectors beside tensors."""

from torch import Tensor


def as_dimension(values: Tensor, dim: int, rank: int) -> Tensor:
    """A vector as the dimension ``dim`` of so many, beside those of one element: it is broadcast over the others."""
    return values.reshape([-1 if d == dim else 1 for d in range(rank)])

"""Gradients of whatever results a function has."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves


def gradients_of(results: Any, wanted: Sequence[Tensor]) -> list[Tensor] | None:
    """Of the sum of all results, each element with a weight of its own; None where nothing depends on what is ``wanted``."""
    made = [t.to_dense() if t.layout != torch.strided else t for t in tree_leaves(results) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted or not made:
        return None
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64, device=made[0].device)
    for result in made:
        parts = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
        weights = torch.rand(parts.shape, generator=generator, dtype=torch.float64) + 0.5
        total = total + (parts.double() * weights.to(parts.device)).sum()
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    return [torch.zeros_like(t, requires_grad=False) if g is None else g for t, g in zip(wanted, found)]

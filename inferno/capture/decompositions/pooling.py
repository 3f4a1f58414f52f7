"""Poolings in the form that is lowered upstream: with a batch, and sizes for each dimension."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inferno.capture.decompositions.rounded_averages import round_up

aten = torch.ops.aten


def _batched(operator: Any, rank: int) -> Callable:
    """``operator`` on an input of ``rank``, for one that lacks the batch; its results lose it again."""

    def decomposition(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dim() != rank - 1:
            return NotImplemented
        found = operator(x.unsqueeze(0), *args, **kwargs)
        return found.squeeze(0) if isinstance(found, Tensor) else tuple(t.squeeze(0) for t in found)

    return decomposition


def _average(operator: Any, rank: int) -> Callable:
    """An average pooling with its window, steps and padding spelled out; no steps are those of the window."""
    batched, dims = _batched(operator, rank), rank - 2

    def spell(sizes: Any) -> list[int]:
        sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        return sizes * dims if len(sizes) == 1 else sizes

    def decomposition(
        x: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, include: bool = True, divisor: int | None = None,
    ) -> Any:
        short = [v for v in (kernel_size, stride, padding) if isinstance(v, (list, tuple)) and len(v) < dims]
        spelled = [spell(kernel_size), spell(stride) or spell(kernel_size), spell(padding)]
        if ceil_mode and any(not isinstance(n, int) for n in x.shape[-dims:]):
            return round_up(x, *spelled, include, divisor)
        return (operator if short else batched)(x, *spelled, ceil_mode, include, divisor)

    return decomposition


TABLE = {
    operator: _batched(operator, rank) for operator, rank in (
        (aten.max_pool2d_with_indices.default, 4), (aten.max_pool3d_with_indices.default, 5), (aten._adaptive_avg_pool3d.default, 5),
        (aten.adaptive_max_pool2d.default, 4), (aten.adaptive_max_pool3d.default, 5),
    )
}
TABLE.update({operator: _average(operator, rank) for operator, rank in ((aten.avg_pool2d.default, 4), (aten.avg_pool3d.default, 5))})

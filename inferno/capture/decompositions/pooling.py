"""Poolings of unbatched inputs, in the batched form that is lowered upstream."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _batched(operator: Any, rank: int) -> Callable:
    """``operator`` on an input of ``rank``, for one that lacks the batch; its results lose it again."""

    def decomposition(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dim() != rank - 1:
            return NotImplemented
        found = operator(x.unsqueeze(0), *args, **kwargs)
        return found.squeeze(0) if isinstance(found, Tensor) else tuple(t.squeeze(0) for t in found)

    return decomposition


TABLE = {
    operator: _batched(operator, rank) for operator, rank in (
        (aten.max_pool2d_with_indices.default, 4), (aten.max_pool3d_with_indices.default, 5), (aten.avg_pool2d.default, 4),
        (aten.avg_pool3d.default, 5), (aten._adaptive_avg_pool3d.default, 5), (aten.adaptive_max_pool2d.default, 4),
        (aten.adaptive_max_pool3d.default, 5),
    )
}

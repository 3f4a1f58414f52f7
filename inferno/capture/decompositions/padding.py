"""Padding by negative widths, which cut off: a slice, then padding by what is left.

MLIR folds a pad that keeps the shape to its input, also one that cuts off on one side what it adds on the other.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def constant_pad_nd(x: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    if not any(isinstance(w, int) and w < 0 for w in pad):
        return NotImplemented
    kept = x
    for i in range(len(pad) // 2):
        dim, low, high = x.dim() - 1 - i, pad[2 * i], pad[2 * i + 1]
        kept = aten.slice.Tensor(kept, dim, max(0, -low), x.shape[dim] - max(0, -high))
    widths = [max(0, w) for w in pad]
    return aten.constant_pad_nd.default(kept, widths, value) if any(widths) else kept.clone()


TABLE = {aten.constant_pad_nd.default: constant_pad_nd}

"""Operations that add up many elements or divide by their number: of 16-bit floats torch computes them in float32.

The import would compute them in the operands' own type, where a count beyond 65504 is infinite in float16, and so is many a
sum that is divided afterwards.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

aten = torch.ops.aten

NARROW = (torch.float16, torch.bfloat16)


def _in_float32(operator: Any) -> Callable:
    """``operator`` on float32 in place of 16-bit floats; its results are rounded to the type that they would have had."""

    def decomposition(x: Tensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        narrow = dtype or x.dtype
        if narrow not in NARROW:
            return NotImplemented
        wide = tree_map(_widened, (x.to(narrow), *args))
        found = operator(*wide, **tree_map(_widened, kwargs))
        return tree_map(lambda t: t.to(narrow) if isinstance(t, Tensor) and t.dtype == torch.float32 else t, found)

    return decomposition


def _widened(value: Any) -> Any:
    return value.to(torch.float32) if isinstance(value, Tensor) and value.dtype in NARROW else value


TABLE = {
    operator: _in_float32(operator) for operator in (
        aten.mean.default, aten.mean.dim, aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim,
        aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default, aten.adaptive_avg_pool1d.default,
        aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.nll_loss_forward.default, aten.nll_loss2d_forward.default,
    )
}

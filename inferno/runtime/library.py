"""The library functions that a plan can call, by the name that ``inferno.library`` has for them."""

from typing import Any

import torch
from torch import Tensor


def matmul(options: dict[str, Any], a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` on strided views: ``sizes`` is (batch, m, n, k), ``lhs``, ``rhs`` and ``result`` are strides in elements
    for (batch, m, k), (batch, k, n) and (batch, m, n)."""
    batch, m, n, k = options["sizes"]
    left = torch.as_strided(a, (batch, m, k), options["lhs"])
    right = torch.as_strided(b, (batch, k, n), options["rhs"])
    result = torch.as_strided(out, (batch, m, n), options["result"])
    if left.dtype != result.dtype:
        left, right = left.to(result.dtype), right.to(result.dtype)
    if batch == 1:
        torch.mm(left[0], right[0], out=result[0])
    else:
        torch.bmm(left, right, out=result)


FUNCTIONS = {"matmul": matmul}

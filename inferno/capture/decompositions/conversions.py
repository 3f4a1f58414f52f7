"""Conversions between types that the import gets wrong."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten, prims = torch.ops.aten, torch.ops.prims


def convert(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Of a boolean the import would make a complex number as of a signed bit: true would be -1."""
    if x.dtype != torch.bool or not dtype.is_complex:
        return NotImplemented
    return prims.convert_element_type.default(x.to(torch.float64 if dtype == torch.complex128 else torch.float32), dtype)


def _compared(operator: Any) -> Callable:
    """Booleans with integers as integers: the import would compare all as numbers without a sign."""

    def decomposition(x: Tensor, y: Tensor) -> Tensor:
        if not isinstance(y, Tensor) or x.dtype != torch.bool or y.dtype == torch.bool or y.is_floating_point() or y.is_complex():
            return NotImplemented
        return operator(x.to(y.dtype), y)

    return decomposition


TABLE = {prims.convert_element_type.default: convert}
TABLE.update({c: _compared(c) for c in (aten.gt.Tensor, aten.ge.Tensor, aten.lt.Tensor, aten.le.Tensor)})

"""Conversions between types that the import gets wrong."""

import torch
from torch import Tensor

prims = torch.ops.prims


def convert(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Of a boolean the import would make a complex number as of a signed bit: true would be -1."""
    if x.dtype != torch.bool or not dtype.is_complex:
        return NotImplemented
    return prims.convert_element_type.default(x.to(torch.float64 if dtype == torch.complex128 else torch.float32), dtype)


TABLE = {prims.convert_element_type.default: convert}

"""Conversions between types that the import gets wrong."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
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

# What is a cast by another name.
_CASTS = (aten.type_as.default, aten.copy.default)
_inside: ContextVar[bool] = ContextVar("inside of a decomposition", default=False)


def keep_casts(table: dict[Any, Callable]) -> dict[Any, Callable]:
    """The decompositions of ``table``, but casts to 16-bit floats that the program itself asks for stay ``_to_copy``, which is imported as a rounding;
    those inside of a decomposition are ``convert_element_type``, as all casts are."""
    casts = table[aten._to_copy.default]

    def cast(x: Tensor, **options: Any) -> Tensor:
        if isinstance(x, Tensor) and not _inside.get() and _rounds(x.dtype, options.get("dtype")):
            return NotImplemented
        return casts(x, **options)

    within = {op: functools.wraps(function)(_within(function)) for op, function in table.items() if op not in _CASTS}
    return {**table, **within, aten._to_copy.default: cast}


def _within(function: Callable) -> Callable:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        token = _inside.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _inside.reset(token)

    return decomposition


def _rounds(source: torch.dtype, target: torch.dtype | None) -> bool:
    return target in (torch.bfloat16, torch.float16) and source != target and source in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
    )

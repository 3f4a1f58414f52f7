"""Operations on uint8 in int32: the import would take the bytes from 128 on for negative numbers.  So are those on int8 that it has not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from inferno.capture.decompositions.promotion import tensor_of

aten = torch.ops.aten


_BY_NUMBER = {
    aten.eq.Scalar, aten.ne.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar, aten.remainder.Scalar, aten.fmod.Scalar,
    aten.div.Tensor_mode, aten.div.Scalar_mode,
}


def _in_int32(operator: Any, narrow: torch.dtype = torch.uint8) -> Callable:
    """``operator`` on int32 in place of ``narrow``; what it makes of that becomes ``narrow`` again."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        dtypes = {v.dtype for v in tree_leaves((args, kwargs)) if isinstance(v, Tensor)}
        # With other types beside bytes and what indices have, the result is not bytes.
        if narrow not in dtypes or dtypes - {narrow, torch.bool, torch.int64} or any(isinstance(v, float) for v in args):
            return NotImplemented
        if narrow == torch.uint8 and operator in _BY_NUMBER and type(args[1]) is int:
            args = args[0], args[1] % 256  # as torch takes a number beside bytes: -1 is 255
        wide = tree_map(lambda v: v.to(torch.int32) if isinstance(v, Tensor) and v.dtype == narrow else v, (args, kwargs))
        found = operator(*wide[0], **wide[1])
        return tree_map(lambda t: t.to(narrow) if isinstance(t, Tensor) and t.dtype == torch.int32 else t, found)

    return decomposition


def _scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Of means the sums are bytes, as torch's, which begin again behind 255."""
    if reduce == "mean":
        return NotImplemented
    return _in_int32(aten.scatter_reduce.two)(x, dim, index, src, reduce, include_self=include_self)


def _added_up(operator: Any) -> Callable:
    """A sum or product of bytes, which is int64 unless it is told otherwise, and one of others that is to be bytes: the import adds in the result's type."""

    def decomposition(x: Tensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Tensor:
        if x.dtype != torch.uint8 and dtype not in (torch.uint8, torch.int8):
            return NotImplemented
        each = x if x.dtype == torch.uint8 else x.to(dtype)
        return operator(each.to(torch.int64), *args, **kwargs).to(dtype or torch.int64)

    return decomposition


def _whether(operator: Any) -> Callable:
    """Whether any or all are not 0, as bytes."""

    def decomposition(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return operator(x != 0, *args, **kwargs).to(torch.uint8) if x.dtype == torch.uint8 else NotImplemented

    return decomposition


def _extremum(operator: Any) -> Callable:
    """Of all bytes, with a sign or without."""
    return lambda x: operator(x, list(range(x.dim()))) if x.dtype in (torch.uint8, torch.int8) else NotImplemented


def _itself(x: Tensor) -> Tensor:
    """What integers are rounded to."""
    return NotImplemented if x.is_floating_point() or x.is_complex() else x.clone()


def _with_number(operator: Any) -> Callable:
    """``operator`` of two tensors, for a tensor and a number."""

    def decomposition(x: Tensor, number: int) -> Tensor:
        return operator(x, tensor_of(number, torch.result_type(x, number), x.device))

    return decomposition


def _of_number(operator: Any) -> Callable:
    """The same of a number and a tensor."""
    return lambda number, x: _with_number(operator)(x, number)


def _full_like(x: Tensor, number: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    """The import folds bytes without a sign to ones with it, which do not fit."""
    if (dtype or x.dtype) != torch.uint8:
        return NotImplemented
    return torch.full_like(x, number, dtype=torch.int32, **options).to(torch.uint8)


def _remainder(x: Tensor, number: Any) -> Any:
    """Of bytes, and of int8, for which the import has none by a number."""
    return _in_int32(aten.remainder.Scalar, x.dtype)(x, number) if x.dtype in (torch.uint8, torch.int8) else NotImplemented


TABLE: dict[Any, Callable] = {
    operator: _in_int32(operator) for operator in (
        aten.eq.Scalar, aten.eq.Tensor, aten.ne.Scalar, aten.ne.Tensor, aten.lt.Scalar, aten.lt.Tensor, aten.le.Scalar, aten.le.Tensor,
        aten.gt.Scalar, aten.gt.Tensor, aten.ge.Scalar, aten.ge.Tensor, aten.abs.default, aten.sign.default,
        aten.div.Tensor, aten.div.Scalar, aten.div.Tensor_mode, aten.div.Scalar_mode, aten.remainder.Tensor,
        aten.fmod.Tensor, aten.fmod.Scalar, aten.bitwise_right_shift.Tensor, aten.cummax.default, aten.cummin.default,
        aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.__lshift__.Scalar, aten.__lshift__.Tensor, aten.pow.Scalar,
        aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_left_shift.Tensor_Scalar,
        aten.bitwise_left_shift.Scalar_Tensor, aten.bitwise_right_shift.Scalar_Tensor, aten.pow.Tensor_Tensor, aten.gcd.default, aten.lcm.default,
    )
}
TABLE.update({
    operator: _added_up(operator) for operator in (
        aten.sum.default, aten.sum.dim_IntList, aten.prod.default, aten.prod.dim_int, aten.cumsum.default, aten.cumprod.default,
    )
})
TABLE.update({aten.max.default: _extremum(aten.amax.default), aten.min.default: _extremum(aten.amin.default)})
TABLE.update({operator: _itself for operator in (aten.floor.default, aten.ceil.default, aten.round.default, aten.trunc.default)})
TABLE.update({operator: _whether(operator) for operator in (aten.any.default, aten.any.dim, aten.all.default, aten.all.dim)})
TABLE.update({
    aten.isnan.default: lambda x: NotImplemented if x.is_floating_point() or x.is_complex() else torch.zeros_like(x, dtype=torch.bool),
    aten.remainder.Scalar: _remainder, aten.full_like.default: _full_like, aten.scatter_reduce.two: _scatter_reduce,
    aten.bitwise_or.Scalar: _with_number(aten.bitwise_or.Tensor), aten.bitwise_and.Scalar: _with_number(aten.bitwise_and.Tensor),
    aten.bitwise_xor.Scalar: _with_number(aten.bitwise_xor.Tensor), aten.bitwise_xor.Scalar_Tensor: _of_number(aten.bitwise_xor.Tensor),
    aten.bitwise_or.Scalar_Tensor: _of_number(aten.bitwise_or.Tensor), aten.bitwise_and.Scalar_Tensor: _of_number(aten.bitwise_and.Tensor),
})

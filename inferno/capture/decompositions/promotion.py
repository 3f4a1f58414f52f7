"""Operands of several types are of the type that they are computed in before the operation: the import takes bytes for signed numbers where the result has
more bits, compares the two 16-bit floats as one of them, and has no bytes of booleans; remainders of floats and integers lose the sign of one, what
integers become by a float alone is not known there, numbers of more bits than the integers beside them keep these, and integers beside 16-bit floats are
not rounded."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten

_SHORT = {torch.float16, torch.bfloat16}
_BYTES = {torch.int8, torch.uint8}


def float_type(x: Tensor) -> torch.dtype:
    """The type that torch gives a function of ``x`` which is no whole number."""
    return x.dtype if x.is_floating_point() else torch.get_default_dtype()


def _is_mixed(dtypes: set[torch.dtype], wanted: torch.dtype, always: bool) -> bool:
    if dtypes == {wanted}:
        return False
    bytes = wanted in _BYTES and torch.bool in dtypes
    narrowed = _is_integer(wanted) and any(d.itemsize > wanted.itemsize for d in dtypes)
    return always or bytes or narrowed or (torch.uint8 in dtypes and wanted != torch.uint8) or dtypes >= _SHORT


def _rounds(dtypes: set[torch.dtype], wanted: torch.dtype) -> bool:
    """Whether integers are rounded to 16 bits before they are computed with: 2049 is 2048 in float16."""
    return wanted in _SHORT and any(_is_integer(d) and d.itemsize > 1 for d in dtypes)


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _in_type(number: Any, dtype: torch.dtype) -> Any:
    """A number beside integers, as one of their type: of the bits that it has too many torch keeps the low ones, so that 300 is 44 in int8."""
    if type(number) is not int or not _is_integer(dtype):
        return number
    lowest = torch.iinfo(dtype).min
    return (number - lowest) % (1 << torch.iinfo(dtype).bits) + lowest


def tensor_of(number: complex, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The number as torch takes it beside a tensor's elements of that type, without dimensions."""
    return torch.full((), _in_type(number, dtype), dtype=dtype, device=device)


def _promoted(operator: Any, first: int = 0, kind: KIND = KIND.NO_OPMATH, always: bool = False) -> Callable:
    """``operator``, whose arguments from the ``first`` on are of one type; with ``always`` whatever types they are of, else where the import needs it."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        dtypes = {v.dtype for v in tree_leaves(args[first:]) if isinstance(v, Tensor)}
        if len(dtypes) < 2 and torch.uint8 not in dtypes and not always and operator not in _BY_NUMBER:
            return NotImplemented
        numbers = [v for v in tree_leaves((args[first:], kwargs.get("min"), kwargs.get("max"))) if isinstance(v, Tensor | bool | int | float | complex)]
        wanted = elementwise_dtypes(*numbers, type_promotion_kind=kind)[1]
        given = [_in_type(v, wanted) for v in args] if operator in _BY_NUMBER else list(args)
        wide = any(type(v) is int and v != w for v, w in zip(args, given))
        if not wide and not _is_mixed(dtypes, wanted, always or _rounds(dtypes, wanted)):
            return NotImplemented
        alike = tree_map(lambda v: v.to(wanted) if isinstance(v, Tensor) else v, given[first:])
        return operator(*args[:first], *alike, **kwargs)

    return decomposition


def _joined(tensors: list[Tensor], dim: int = 0) -> Tensor:
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) < 2:
        return NotImplemented
    wanted = elementwise_dtypes(*tensors, type_promotion_kind=KIND.NO_OPMATH)[1]
    return aten.cat.default([t.to(wanted) for t in tensors], dim) if _is_mixed(dtypes, wanted, False) else NotImplemented


_PLAIN = (
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.rsub.Tensor, aten.rsub.Scalar,
    aten.maximum.default, aten.minimum.default, aten.fmax.default, aten.fmin.default, aten.div.Tensor_mode, aten.div.Scalar_mode,
    aten.floor_divide.default, aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor, aten.fmod.Scalar, aten.remainder.Scalar,
    aten.lerp.Scalar, aten.lerp.Tensor, aten.addcmul.default,
    *(getattr(getattr(aten, c), of) for c in ("eq", "ne", "lt", "le", "gt", "ge") for of in ("Tensor", "Scalar")),
)
_BY_NUMBER = {  # whose result's low bits are not those of the numbers' low bits alone
    aten.remainder.Scalar, aten.fmod.Scalar, aten.div.Scalar_mode, aten.floor_divide.default,
    *(getattr(aten, c).Scalar for c in ("eq", "ne", "lt", "le", "gt", "ge")),
}
_TO_FLOAT = (
    aten.div.Tensor, aten.div.Scalar, aten.atan2.default, aten.hypot.default, aten.copysign.Tensor, aten.copysign.Scalar, aten.xlogy.Tensor,
    aten.logaddexp.default, aten.addcdiv.default, aten.exp.default, aten.exp2.default, aten.expm1.default, aten.log.default, aten.log1p.default,
    aten.log2.default, aten.log10.default, aten.sqrt.default, aten.rsqrt.default, aten.reciprocal.default, aten.sin.default, aten.cos.default,
    aten.tan.default, aten.tanh.default, aten.atan.default, aten.sigmoid.default, aten.erf.default,
)
_ALWAYS = (
    aten.fmod.Tensor, aten.remainder.Tensor, aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar, aten.clamp.default, aten.clamp.Tensor,
    aten.clamp_min.default, aten.clamp_min.Tensor, aten.clamp_max.default, aten.clamp_max.Tensor,
)
TABLE: dict[Any, Callable] = {operator: _promoted(operator) for operator in _PLAIN}
TABLE.update({operator: _promoted(operator, kind=KIND.INT_TO_FLOAT) for operator in _TO_FLOAT})
TABLE.update({operator: _promoted(operator, always=True) for operator in _ALWAYS})
TABLE.update({aten.where.self: _promoted(aten.where.self, first=1), aten.cat.default: _joined})

"""Operations that torch traces without a word, and that are an error when they run: what is compiled would give numbers there.

A number that is put in a tensor's place has to be one of its type, by the rules of ``c10::overflows``; beside a tensor's elements the low bits of
one are taken (``promotion``).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

# The arguments that torch converts to the type of the result before it computes.
_NUMBERS: dict[Any, tuple[str, ...]] = {
    aten.full.default: ("fill_value",), aten.full_like.default: ("fill_value",), aten.new_full.default: ("fill_value",), aten.scalar_tensor.default: ("s",),
    aten.fill.Scalar: ("value",), aten.masked_fill.Scalar: ("value",), aten.index_fill.int_Scalar: ("value",), aten.constant_pad_nd.default: ("value",),
    aten.scatter.value: ("value",), aten.scatter.value_reduce: ("value",), aten.clamp.default: ("min", "max"), aten.clamp_min.default: ("min",),
    aten.clamp_max.default: ("max",), aten.hardtanh.default: ("min_val", "max_val"), aten.threshold.default: ("threshold", "value"),
    aten.hardshrink.default: ("lambd",), aten.add.Tensor: ("alpha",), aten.add.Scalar: ("alpha",), aten.sub.Tensor: ("alpha",), aten.sub.Scalar: ("alpha",),
    aten.rsub.Tensor: ("alpha",), aten.rsub.Scalar: ("alpha",), aten.addmm.default: ("alpha", "beta"), aten.baddbmm.default: ("alpha", "beta"),
    aten.pow.Tensor_Scalar: ("exponent",),
}
_PROMOTED = {  # whose numbers, where they are no factors, decide on that type, too
    aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.pow.Tensor_Scalar, aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor,
    aten.sub.Scalar, aten.rsub.Tensor, aten.rsub.Scalar, aten.addcmul.default,
}
_OF_INTEGERS = {aten.addcmul.default: ("value",)}  # 16-bit floats are multiplied by a float32 number

_FLOATS = "it takes floating-point numbers alone"
_NO_BOOLEANS = "it takes no booleans"
_SPREADS = (aten.var, aten.std, aten.var_mean, aten.std_mean)
_TYPES: dict[Any, str] = {  # by packets: what their first tensor may be
    **dict.fromkeys((*_SPREADS, aten.frac, aten.avg_pool1d, aten.avg_pool2d, aten.avg_pool3d), _FLOATS),
    **dict.fromkeys((aten.rsub, aten.argmax, aten.argmin, aten.abs, aten.mm, aten.bmm), _NO_BOOLEANS),
}
_LOSSES = (aten.nll_loss_forward, aten.nll_loss2d_forward)
_ADDS = (aten.index_add,)
_MEANS = (aten.scatter_reduce, aten.index_reduce)  # where they are means, for which eager divides by numbers of elements


def may_raise(target: Any) -> bool:
    """Whether there are arguments for which ``error`` gives a reason."""
    packet = getattr(target, "overloadpacket", None)
    return target in _NUMBERS or target in _OF_INTEGERS or packet in _TYPES or packet in (*_LOSSES, *_ADDS, *_MEANS)


def error(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why eager ends the operation in an error, as far as types and numbers say; arguments are tensors, or nodes that have one as their value."""
    if not may_raise(target):
        return None
    packet = target.overloadpacket
    first = _tensor(args[0]) if args else None
    if packet in _LOSSES:
        labels = _tensor(args[1])
        return "its labels are neither of int64 nor bytes" if labels is not None and labels.dtype not in (torch.int64, torch.uint8) else None
    if packet in _ADDS:
        source = _tensor(args[3])
        return "what is added has other dimensions" if None not in (first, source) and first.dim() != source.dim() else None
    if packet in _MEANS and first is not None and first.dtype == torch.bool and "mean" in (*args[4:5], kwargs.get("reduce")):
        return _NO_BOOLEANS
    if packet in _TYPES and first is not None:
        wrong = first.dtype == torch.bool if _TYPES[packet] is _NO_BOOLEANS else not (first.dtype.is_floating_point or first.dtype.is_complex)
        if wrong:
            return _TYPES[packet]
    numbers = _numbers(target, args, kwargs)
    dtype = _computed_in(target, args, kwargs) if numbers else None
    misfit = next((n for n in numbers if dtype is not None and not fits(n, dtype)), None)
    return None if misfit is None else f"{misfit} is no number of {str(dtype).removeprefix('torch.')}"


def fits(number: complex, dtype: torch.dtype) -> bool:
    """Whether torch makes an element of ``dtype`` of a number of Python's, or raises ("value cannot be converted to type int8_t without overflow")."""
    if dtype == torch.bool or isinstance(number, bool):
        return True
    if isinstance(number, complex):
        parts = (number.real, number.imag) if dtype.is_complex else (number.real,)
        return (dtype.is_complex or number.imag == 0) and all(fits(p, dtype) for p in parts)
    if dtype.is_floating_point or dtype.is_complex:
        return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    lowest = -limits.max if isinstance(number, int) and not limits.min else limits.min  # integers below zero wrap around where there is no sign
    return lowest <= number <= limits.max


def _numbers(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    names = (*_NUMBERS.get(target, ()), *_OF_INTEGERS.get(target, ()))
    given = {a.name: kwargs.get(a.name, args[i] if i < len(args) else None) for i, a in enumerate(target._schema.arguments)} if names else {}
    return [n for n in (given[name] for name in names) if isinstance(n, (bool, int, float, complex))]


def _computed_in(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.dtype | None:
    """The type that a number is converted to; None where it is not known, or minds none."""
    if isinstance(kwargs.get("dtype"), torch.dtype):
        dtype = kwargs["dtype"]
        single = target is aten.scalar_tensor.default or (target is aten.full.default and math.prod(args[0]) == 1)
        return None if single and dtype.is_floating_point else dtype  # one element torch fills in another way, by which a float may be infinite
    operands = [t for t in map(_tensor, args) if t is not None]
    if not operands:
        return None
    dtype = operands[0].dtype
    if target in _PROMOTED:
        numbers = [n for n in args if isinstance(n, (bool, int, float, complex))]
        for operand in (*operands[1:], *numbers):
            dtype = torch.result_type(torch.empty((1,), dtype=dtype, device="meta"), operand)
    return None if target in _OF_INTEGERS and dtype.is_floating_point else dtype


def _tensor(value: Any) -> torch.Tensor | None:
    value = value.meta.get("val") if isinstance(value, Node) else value
    return value if isinstance(value, torch.Tensor) else None

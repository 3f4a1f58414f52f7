"""Remainders and rounded quotients, as exact as torch's: a quotient that is rounded before its floor is taken is off by one where
it should have been just below a whole number."""

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import tensor_of

aten = torch.ops.aten


def fmod(x: Tensor, y: Tensor) -> Tensor:
    """The remainder with the sign of ``x``; remainders of what is positive have that sign anyway."""
    if not _is_float(x, y):
        return NotImplemented
    found = torch.remainder(x.abs(), y.abs())
    return torch.copysign(found, x).to(found.dtype)


def fmod_scalar(x: Tensor, y: float) -> Tensor:
    return NotImplemented if x.is_complex() else torch.fmod(x, _full(x, y)).to(torch.result_type(x, y))


def floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """The whole number that x - fmod(x, y) is a multiple of y by, one less where the remainder points the other way."""
    dtype = torch.result_type(x, y)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    x, y = x.to(wide), y.to(wide)
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    whole = torch.floor(quotient)
    whole = torch.where(quotient - whole > 0.5, whole + 1, whole)
    plain = x / y
    found = torch.where(quotient == 0, torch.copysign(torch.zeros_like(whole), plain), whole)
    return torch.where(y == 0, plain, found).to(dtype)


def floor_divide_integers(x: Tensor, y: Tensor) -> Tensor:
    """In integers: a quotient of floating-point numbers, which the import would take, is off beyond 2**53."""
    dtype = torch.result_type(x, y)
    x, y = x.to(dtype), y.to(dtype)
    quotient = torch.div(x, y, rounding_mode="trunc")
    rest = x - quotient * y
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient).to(dtype)


def divide(x: Tensor | float, y: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """``aten.div`` rounded down, of tensors that meet as torch broadcasts them; NotImplemented where the import's own is as exact."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):  # torch.div(512, 256, rounding_mode="trunc"), a number of chunks
        return torch.div(torch.full((), x), y, rounding_mode=rounding_mode)
    if not isinstance(y, Tensor):
        return divide_scalar(x, y, rounding_mode=rounding_mode)
    if not isinstance(x, Tensor):  # 1.0 // y, as autograd has it
        found = divide(_full(y, x), y, rounding_mode=rounding_mode)
        return found if found is NotImplemented else found.to(torch.result_type(x, y))
    if rounding_mode != "floor" or x.is_complex() or y.is_complex():
        return NotImplemented
    if _is_float(x, y):
        return floor_divide(x, y)
    return floor_divide_integers(x, y) if _is_signed(torch.result_type(x, y)) else NotImplemented


def divide_scalar(x: Tensor, y: float, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "trunc" and x.dtype == torch.int8 and type(y) is int:  # which the import knows by a tensor alone
        return torch.div(x, _full(x, y), rounding_mode="trunc")
    if rounding_mode != "floor" or x.is_complex():
        return NotImplemented
    if not x.is_floating_point() and not isinstance(y, float):
        return floor_divide_integers(x, _full(x, y)) if _is_signed(torch.result_type(x, y)) else NotImplemented
    found = floor_divide(x if x.is_floating_point() else x.to(torch.get_default_dtype()), _full(x, y))
    return found.to(torch.result_type(x, y))  # which is not the tensors' where both have no dimensions


def remainder_of_number(x: float, y: Tensor) -> Tensor:
    return NotImplemented if y.is_complex() else torch.remainder(tensor_of(x, torch.result_type(x, y), y.device), y)


def _full(x: Tensor, y: float) -> Tensor:
    """The number as a tensor in the type that it is taken in: where 16 bits do not hold it, float32."""
    dtype = torch.result_type(x, y)
    return tensor_of(y, torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype, x.device)


def _is_float(x: Tensor, y: Tensor) -> bool:
    return (x.is_floating_point() or y.is_floating_point()) and not (x.is_complex() or y.is_complex())


def _is_signed(dtype: torch.dtype) -> bool:
    return dtype not in (torch.bool, torch.uint8)


TABLE = {
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod_scalar,
    aten.remainder.Scalar_Tensor: remainder_of_number,
    aten.floor_divide.default: lambda x, y: divide(x, y, rounding_mode="floor"),
    aten.div.Tensor_mode: divide,
    aten.div.Scalar_mode: divide_scalar,
}

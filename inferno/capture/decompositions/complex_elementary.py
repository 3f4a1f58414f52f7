"""Elementary functions of complex numbers, and what is asked of them, by their real and imaginary parts.

``capture/complex_numbers`` then finds nothing but parts.  Where a part is infinite or the number is 0 the results are those of C's functions, as torch's.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_FLAT = 11.0  # a tanh beyond it is 1 in float32, and its derivative exp(-2x) is what is left; torch's 22 is float64's


def _of_complex(function: Callable) -> Callable:
    """A decomposition of complex tensors alone."""
    def decomposition(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(x, *args, **kwargs) if isinstance(x, Tensor) and x.is_complex() else NotImplemented

    return decomposition


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    pairs = torch.view_as_real(x.resolve_conj())
    return pairs[..., 0], pairs[..., 1]


def _turned(x: Tensor, sign: int) -> Tensor:
    """``x`` times i or -i, without roundings."""
    a, b = _parts(x)
    return torch.complex(-b, a) if sign > 0 else torch.complex(b, -a)


def log(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.complex(torch.log(x.abs()), torch.atan2(b, a))


def sqrt(x: Tensor) -> Tensor:
    """The larger part by a root, the other one by a quotient, which does not cancel."""
    a, b = _parts(x)
    large = torch.sqrt(0.5 * a.abs() + 0.5 * x.abs())
    small = 0.5 * b.abs() / large
    real, imaginary = torch.where(a >= 0, large, small), torch.where(a >= 0, small, large)
    nothing, endless = large == 0, b.abs() == math.inf
    real = torch.where(endless, math.inf, real)
    imaginary = torch.where(endless, math.inf, torch.where(nothing, 0.0, imaginary))
    return torch.complex(real, torch.copysign(imaginary, b))


def sin(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.complex(torch.sin(a) * torch.cosh(b), torch.cos(a) * torch.sinh(b))


def cos(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.complex(torch.cos(a) * torch.cosh(b), -torch.sin(a) * torch.sinh(b))


def sinh(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.complex(torch.sinh(a) * torch.cos(b), torch.cosh(a) * torch.sin(b))


def cosh(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.complex(torch.cosh(a) * torch.cos(b), torch.sinh(a) * torch.sin(b))


def tanh(x: Tensor) -> Tensor:
    """By sinh of the real part and tan of the other (W. Kahan); where the real part is large, by what its exponential leaves."""
    a, b = _parts(x)
    far = a.abs() > (_FLAT if a.dtype == torch.float32 else 2 * _FLAT)
    near = torch.where(far, torch.zeros((), dtype=a.dtype, device=a.device), a)
    tangent, sine = torch.tan(b), torch.sinh(near)
    slope, length = 1 + tangent * tangent, torch.sqrt(1 + sine * sine)
    below = 1 + slope * sine * sine
    left = 4 * torch.sin(b) * torch.cos(b) * torch.exp(-2 * a.abs())
    one = torch.copysign(torch.ones_like(a), a)
    return torch.complex(torch.where(far, one, slope * length * sine / below), torch.where(far, left, tangent / below))


def power(x: Tensor | complex, y: Tensor | complex) -> Tensor:
    """By small whole exponents and halves as torch; else by logarithms, of which a real exponent has the size's power."""
    if not isinstance(x, Tensor):
        return _of_number(x, y)
    if not any(v.is_complex() if isinstance(v, Tensor) else isinstance(v, complex) for v in (x, y)):
        return NotImplemented
    dtype = torch.result_type(x, y)
    y = y.real if isinstance(y, complex) and not y.imag else y
    if isinstance(y, (int, float)) and abs(y) in _ROOTS:
        found = _ROOTS[abs(y)](x)
        return torch.reciprocal(found) if y < 0 else found
    x = x.to(dtype)
    size, angle = x.abs(), torch.atan2(*_parts(x)[::-1])
    if isinstance(y, complex) or (isinstance(y, Tensor) and y.is_complex()):
        c, d = _parts(y.to(dtype)) if isinstance(y, Tensor) else (y.real, y.imag)
        logarithm, zero = torch.log(size), torch.zeros((), dtype=size.dtype, device=x.device)
        unit = ((c == 0) & (d == 0)).to(size.dtype) if isinstance(y, Tensor) else zero
        size = torch.where(x == 0, unit, torch.exp(c * logarithm - d * angle))
        angle = torch.where(x == 0, zero, d * logarithm + c * angle)
    else:
        y = y.to(size.dtype) if isinstance(y, Tensor) else y
        size, angle = torch.pow(size, y), angle * y
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


_ROOTS = {0.5: lambda x: torch.sqrt(x), 1: lambda x: x.clone(), 2: lambda x: x * x, 3: lambda x: x * x * x}


def _of_number(x: complex, y: Tensor) -> Tensor:
    """A power of a number."""
    if not (y.is_complex() or isinstance(x, complex)) or x == 0:
        return NotImplemented
    return torch.exp(y * cmath.log(x)) if isinstance(x, complex) or x < 0 else torch.exp(y * math.log(x))


def isnan(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return torch.isnan(a) | torch.isnan(b)


def isinf(x: Tensor) -> Tensor:
    a, b = _parts(x)
    return (a.abs() == math.inf) | (b.abs() == math.inf)


def var(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    a, b = _parts(x)
    return sum(aten.var.correction(p, dim, correction=correction, keepdim=keepdim) for p in (a, b))


def vector_norm(x: Tensor, order: float = 2, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is not None:
        return NotImplemented
    if order != 2:
        return torch.linalg.vector_norm(x.abs(), order, dim, keepdim)
    squares = sum(p * p for p in _parts(x))
    return torch.sqrt(squares.sum(list(range(x.dim())) if dim is None else dim, keepdim))


def _whether(operator: Callable) -> Callable:
    return _of_complex(lambda x, *args, **kwargs: operator(x != 0, *args, **kwargs))


TABLE = {
    **{operator: _of_complex(function) for operator, function in {
        aten.log.default: log,
        aten.log2.default: lambda x: log(x) * (1 / math.log(2)),
        aten.log10.default: lambda x: log(x) * (1 / math.log(10)),
        aten.sqrt.default: sqrt,
        aten.rsqrt.default: lambda x: torch.reciprocal(sqrt(x)),
        aten.sin.default: sin,
        aten.cos.default: cos,
        aten.tan.default: lambda x: _turned(tanh(_turned(x, 1)), -1),
        aten.sinh.default: sinh,
        aten.cosh.default: cosh,
        aten.tanh.default: tanh,
        aten.sigmoid.default: lambda x: torch.reciprocal(1 + torch.exp(-x)),
        aten.isnan.default: isnan,
        aten.isinf.default: isinf,
        aten.var.correction: var,
        aten.linalg_vector_norm.default: vector_norm,
        aten.logical_not.default: lambda x: x == 0,
    }.items()},
    **{operator: _whether(operator) for operator in (aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.all.dims)},
    aten.pow.Tensor_Scalar: power,
    aten.pow.Tensor_Tensor: power,
    aten.pow.Scalar: power,
}

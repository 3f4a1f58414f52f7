"""Pointwise operations and products whose lowering upstream is missing, or loses digits."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from inferno.capture.decompositions.promotion import float_type

aten = torch.ops.aten


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """The tanh form with its constants exact: torch-mlir's sqrt(2 / pi) is off in the fourth digit."""
    if approximate != "tanh":
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide))
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A matmul in the operands' own type; torch's decomposition would convert them to float32 first."""
    return _add_product(c, torch.mm(a, b), beta, alpha)


def addmv(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _add_product(c, torch.mv(a, b), beta, alpha)


def addbmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The products' sum as one product: the batch is part of what is added up."""
    rows, columns = a.transpose(0, 1).flatten(1), b.flatten(0, 1)
    return _add_product(c, torch.mm(rows, columns), beta, alpha)


def rsub(x: Tensor, other: float, alpha: float = 1) -> Tensor:
    """A size that varies minus elements: the import wants the tensor first."""
    if isinstance(other, (int, float, complex)):
        return NotImplemented
    if isinstance(other, torch.SymFloat) and not (x.is_floating_point() or x.is_complex()):
        x = x.to(torch.get_default_dtype())  # whole numbers of few bits, or without a sign, have no negatives of their own
    return torch.neg(x * alpha if alpha != 1 else x) + other


def _add_product(c: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if not c.is_floating_point() and not c.is_complex():
        beta, alpha = int(beta), int(alpha)  # as torch converts them
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


def cosh(x: Tensor) -> Tensor:
    """In a type whose exponential is finite wherever the result is."""
    if x.is_complex() or x.dtype == torch.float64:
        return NotImplemented
    dtype = float_type(x)
    grown = torch.exp(x.to(torch.float64).abs())
    return (0.5 * (grown + 1 / grown)).to(dtype)


def sinh(x: Tensor) -> Tensor:
    """As cosh, and by its series where the exponentials cancel."""
    if x.is_complex() or x.dtype == torch.float64:
        return NotImplemented
    dtype = float_type(x)
    wide = x.to(torch.float64)
    grown = torch.exp(wide)
    return torch.where(wide.abs() < 1e-3, wide + wide * wide * wide / 6, 0.5 * (grown - 1 / grown)).to(dtype)


def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """By expm1: near 0 an exponential less 1 would keep no digits."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    return torch.where(wide <= 0, torch.expm1(wide * input_scale) * (alpha * scale), wide * scale).to(x.dtype)


def isfinite(x: Tensor) -> Tensor:
    if x.is_complex():
        return NotImplemented
    return x.abs() < math.inf if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)


def signbit(x: Tensor) -> Tensor:
    """Of its bits, as an integer: that of -0 and of a NaN, too."""
    if not x.is_floating_point():
        return x < 0
    return x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]) < 0


def trunc(x: Tensor) -> Tensor:
    """The import multiplies by a sign that is 0 for both zeros, and -0 became 0."""
    return torch.copysign(torch.floor(x.abs()), x) if x.is_floating_point() else NotImplemented


def copysign(x: Tensor, y: Tensor) -> Tensor:
    dtype = torch.result_type(x, y) if x.is_floating_point() or y.is_floating_point() else torch.get_default_dtype()
    size = x.to(dtype).abs()
    return torch.where(signbit(y), -size, size)


def copysign_scalar(x: Tensor, y: float) -> Tensor:
    size = (x if x.is_floating_point() else x.to(torch.get_default_dtype())).abs()
    return -size if math.copysign(1.0, y) < 0 else size


def hypot(x: Tensor, y: Tensor) -> Tensor:
    """The larger is factored out: squares overflow long before the result does."""
    x, y = torch.broadcast_tensors(x.abs(), y.abs())
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = small / large
    found = large * torch.sqrt(1 + ratio * ratio)
    found = torch.where((small == 0) | (large == 0), large, found)
    return torch.where((x == math.inf) | (y == math.inf), math.inf, found)


def isclose(x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Equal, or finitely far from each other and no farther than allowed; a NaN is not, unless both are and ``equal_nan``."""
    if x.is_complex():
        return NotImplemented
    close = x == y
    if equal_nan and x.is_floating_point():
        close = close | (torch.isnan(x) & torch.isnan(y))
    if rtol == 0 and atol == 0:
        return close
    x, y = (t if t.is_floating_point() else t.to(torch.get_default_dtype()) for t in (x, y))
    apart = (x - y).abs()
    return close | ((apart < math.inf) & (apart <= atol + (rtol * y).abs()))


def angle(x: Tensor) -> Tensor:
    """0 or pi, and NaN of NaN.  Those of complex numbers lie one after the other, whatever they are of."""
    if x.is_complex():
        parts = torch.view_as_real(x)
        return torch.atan2(parts[..., 1], parts[..., 0]).contiguous()
    wide = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    straight = torch.full((), math.pi, dtype=wide.dtype, device=x.device)  # of two numbers alone ``where`` would make float32
    return torch.where(torch.isnan(wide), wide, torch.where(wide < 0, straight, 0.0))


def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Of complex numbers, part by part."""
    return torch.view_as_complex(torch.nan_to_num(torch.view_as_real(x), nan, posinf, neginf)) if x.is_complex() else NotImplemented


def polar(size: Tensor, angle: Tensor) -> Tensor:
    size, angle = torch.broadcast_tensors(size, angle)
    return torch.view_as_complex(torch.stack([size * torch.cos(angle), size * torch.sin(angle)], -1))


def rrelu_backward(gradient: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool) -> Tensor:
    """Outside of training, and where there is one slope, that of a leaky ReLU: upstream takes the noise, which is then nothing."""
    if training and upper - lower > 1e-6:  # as torch's kernels
        return gradient * noise
    return torch.where(x > 0, gradient, gradient * ((lower + upper) / 2))


def multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """As it is computed in eager: the product is rounded."""
    return a * b + c


def round_to_places(x: Tensor, *, decimals: int) -> Tensor:
    """To tens or hundreds by a quotient, as torch does: the import multiplies by their reciprocal, which is rounded, and 0.5 may end above 0.5."""
    if decimals >= 0 or not x.is_floating_point():
        return NotImplemented
    unit, wide = 10.0 ** -decimals, x.to(torch.float32) if x.dtype.itemsize < 4 else x
    return (torch.round(wide / unit) * unit).to(x.dtype)


def of_inductor() -> dict[torch._ops.OpOverload, Callable]:
    """What Dynamo writes for ``addcmul_``, ``addcdiv_`` and ``lerp_`` with tensors as factors, as optimizers have them; Inductor, which takes a second to
    import, defines it."""
    return {torch.ops.prims.fma.default: multiply_add} if hasattr(torch.ops.prims, "fma") else {}


TABLE = {
    aten.gelu.default: gelu,
    aten.addmm.default: addmm,
    aten.addmv.default: addmv,
    aten.addbmm.default: addbmm,
    aten.rsub.Scalar: rsub,
    aten.cosh.default: cosh,
    aten.sinh.default: sinh,
    aten.elu.default: elu,
    aten.isfinite.default: isfinite,
    aten.signbit.default: signbit,
    aten.trunc.default: trunc,
    aten.round.decimals: round_to_places,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign_scalar,
    aten.angle.default: angle,
    aten.nan_to_num.default: nan_to_num,
    aten.polar.default: polar,
    aten.hypot.default: hypot,
    aten.isclose.default: isclose,
    aten.rrelu_with_noise_backward.default: rrelu_backward,
}

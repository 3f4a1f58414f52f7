"""Resizing: with antialiasing each direction is a product with a matrix of the filter's weights; without, a sum of 2 or 4 elements.

Places are computed in float64: torch's decomposition has them in float32, and is off by a few units where eager is by one.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

# Ratios of whole numbers up to here are found in floats; and places in the input times a ratio's denominator stay below this.
_DENOMINATOR, _WHOLE = 1 << 14, 1 << 30
_MOST_DOUBLED = 16  # powers of 2 that sizes are tried for
_ROUNDED = 4e-16  # of what a float64 of a quotient, or of one over it, is off


def _resize(kernel: Callable[[Tensor], Tensor], reach: float) -> Callable:
    """The operator whose filter is ``kernel``, 0 beyond ``reach``."""

    def decomposition(x: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Tensor:
        if x.dim() != 4 or not x.is_floating_point():
            return NotImplemented
        wide = x if x.dtype == torch.float64 else x.to(torch.float32)
        rows = _weights(x.shape[2], output_size[0], align_corners, scales_h, kernel, reach, wide)
        columns = _weights(x.shape[3], output_size[1], align_corners, scales_w, kernel, reach, wide)
        return torch.matmul(rows, torch.matmul(wide, columns.t())).to(x.dtype)

    return decomposition


def _resize_gradient(kernel: Callable[[Tensor], Tensor], reach: float) -> Callable:
    """Its gradient: the products with the same matrices, transposed."""

    def gradient(
        grad: Tensor, output_size: list[int], input_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None,
    ) -> Tensor:
        if not grad.is_floating_point() or any(not isinstance(n, int) for n in (*output_size, *input_size)):
            return NotImplemented
        wide = grad if grad.dtype == torch.float64 else grad.to(torch.float32)
        rows = _weights(input_size[2], output_size[0], align_corners, scales_h, kernel, reach, wide)
        columns = _weights(input_size[3], output_size[1], align_corners, scales_w, kernel, reach, wide)
        return torch.matmul(rows.t(), torch.matmul(wide, columns)).to(grad.dtype)

    return gradient


def _weights(
    size: int, count: int, align_corners: bool, scale: float | None, kernel: Callable[[Tensor], Tensor], reach: float, like: Tensor,
) -> Tensor:
    """[count, size]: how much of each input is in each output.  Rows add up to 1; the filter is widened where it shrinks."""
    step = _step(size, count, align_corners, scale)
    widening = max(step, 1.0)
    number = torch.arange(count, device=like.device).to(torch.float64)
    centre = (step * (number + 0.5)).unsqueeze(-1)
    place = torch.arange(size, device=like.device).to(torch.float64)
    support = reach * widening
    begin = torch.trunc(centre - support + 0.5).clamp(min=0)
    end = torch.trunc(centre + support + 0.5).clamp(max=size)
    weight = kernel(((place + 0.5 - centre) / widening).abs())
    weight = torch.where((place >= begin) & (place < end), weight, 0.0)
    return (weight / weight.sum(-1, keepdim=True)).to(like.dtype)


def _step(size: int, count: int, align_corners: bool, scale: float | None) -> float:
    """Elements of the input between two of the result."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else size / count


def ratio(size: int, count: int, align_corners: bool, scale: float | None) -> Fraction | None:
    """``_step`` as a ratio of small numbers, where it is one."""
    step = _step(size, count, align_corners, scale)
    found = Fraction(step).limit_denominator(_DENOMINATOR)
    return found if math.isclose(float(found), step, rel_tol=_ROUNDED) else None


def _interpolate(taps: Callable[[Tensor], tuple[range, list[Tensor]]], clamped: bool) -> Callable:
    """The operator that takes, along each dimension, the elements at ``taps`` around a place, each with its weight.  ``clamped``: places
    are not below 0."""

    def decomposition(x: Tensor, output_size: list[int] | None, align_corners: bool, *scales: Any, scale_factors: Any = None) -> Tensor:
        dims, scales = x.dim() - 2, scales if scale_factors is None else (scale_factors,)
        if output_size is None:
            scales = tuple(scales[0])
            output_size = [_scaled(n, s) for n, s in zip(x.shape[2:], scales)]
        elif not scales or scales[0] is None or isinstance(scales[0], (list, tuple)):
            scales = (None,) * dims
        if not x.is_floating_point() or any(statically_known_true(n == 0) for n in x.shape):
            return NotImplemented
        if all(_is_kept(*each, align_corners) for each in zip(x.shape[2:], output_size, scales)):
            return x.clone(memory_format=suggest_memory_format(x))  # as eager does
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        along = []
        for d, (size, count, scale) in enumerate(zip(x.shape[2:], output_size, scales)):
            first, rest = _places(size, count, align_corners, scale, clamped, wide, x.device)
            reach, weights = taps(rest)
            along.append([(as_dimension((first + o).clamp(0, size - 1), d, dims), as_dimension(w.to(wide), d, dims)) for o, w in zip(reach, weights)])
        return gathered(x, dims, lambda gather: _weighted(gather, along, (), wide).to(x.dtype))

    return decomposition


def _scaled(size: int, scale: float) -> int:
    """How many elements there are of ``size``: by whole numbers where a factor is one, since torch says of a size that varies that it is a float's floor."""
    return size * int(scale) if scale == int(scale) else math.floor(size * scale)


def _is_kept(size: int, count: int, scale: float | None, align_corners: bool) -> bool:
    """Whether each place is that of an element, as eager asks."""
    if not statically_known_true(size == count):
        return False
    return align_corners or not scale or scale == 1.0 or statically_known_true(count == 1)


def gathered(x: Tensor, dims: int, compute: Callable[[Callable[[list[Tensor]], Tensor]], Tensor]) -> Tensor:
    """What is computed of elements of ``x``, at places along its last ``dims`` dimensions, in the order in which its own lie: channels last or first."""
    if suggest_memory_format(x) == torch.contiguous_format:
        return compute(lambda places: aten.index.Tensor(x, [None, None, *places])).contiguous()
    transposed = x.permute(0, *range(2, dims + 2), 1)
    found = compute(lambda places: aten.index.Tensor(transposed, [None, *places]).permute(0, dims + 1, *range(1, dims + 1)))
    return found.contiguous(memory_format=suggest_memory_format(x))


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:
    """torch.nn.functional.interpolate, in the modes that take sums, and where elements that are trained are repeated."""
    if mode in ("nearest", "nearest-exact") and not antialias and align_corners is None:
        return _spread(input, size, scale_factor)
    dims = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}.get(mode)
    if dims is None or antialias or input.dim() != dims + 2 or (size is None) == (scale_factor is None):
        return NotImplemented
    given = size if size is not None else scale_factor
    given = list(given) if isinstance(given, (list, tuple)) else [given] * dims
    if size is None and recompute_scale_factor:
        size, given = given, [math.floor(n * s) for n, s in zip(input.shape[2:], given)]
    scales = [None] * dims if size is not None else [float(s) for s in given]
    counts = given if size is not None else [math.floor(n * s) for n, s in zip(input.shape[2:], given)]
    known = all(isinstance(n, int) for n in (*input.shape, *counts))  # of torch's gradients no sizes that vary are known
    if not input.requires_grad or not known or list(counts) == list(input.shape[2:]) or torch.are_deterministic_algorithms_enabled():
        return _resized(input, mode, counts, bool(align_corners), scales)
    return _Resized.apply(input, mode, counts, bool(align_corners), scales)


def _spread(x: Tensor, size: Any, scale_factor: Any) -> Tensor:
    """Each element so many times, as one that stands for all of them, whose gradient is their sum: the one of what is gathered by places would be a scatter."""
    dims, given = x.dim() - 2, size if size is not None else scale_factor
    given = list(given) if isinstance(given, (list, tuple)) else [given] * dims
    known = x.requires_grad and dims in (1, 2, 3) and len(given) == dims and (size is None) != (scale_factor is None)
    if not known or not all(isinstance(n, int) and n for n in x.shape) or not all(isinstance(n, (int, float)) for n in given):
        return NotImplemented
    factors = [n / own if size is not None else float(n) for n, own in zip(given, x.shape[2:])]
    if any(f < 1 or f != int(f) or int(f) & (int(f) - 1) for f in factors) or set(factors) == {1.0}:
        return NotImplemented  # (as in ``_repeated``)
    apart = x.reshape(*x.shape[:2], *(n for own in x.shape[2:] for n in (own, 1)))
    spread = apart.expand(*x.shape[:2], *(n for own, f in zip(x.shape[2:], factors) for n in (own, int(f))))
    found = spread.reshape(*x.shape[:2], *(own * int(f) for own, f in zip(x.shape[2:], factors)))
    return found.contiguous(memory_format=suggest_memory_format(x))


def _resized(x: Tensor, mode: str, counts: list[int], align_corners: bool, scales: list[float | None]) -> Tensor:
    function = bicubic if mode == "bicubic" else linearly
    return function(x, counts, align_corners) if scales[0] is None else function(x, None, align_corners, scales)


class _Resized(torch.autograd.Function):
    """Whose gradient is torch's operation (see ``resize_gradients``): that of what is gathered would be put by several scatters of the whole result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, mode: str, counts: list[int], align_corners: bool, scales: list[float | None]) -> Tensor:
        found = _resized(x, mode, counts, align_corners, scales)
        return torch.nn.functional.interpolate(x, counts, mode=mode, align_corners=align_corners) if found is NotImplemented else found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x, mode, counts, align_corners, scales = inputs
        ctx.how = (_GRADIENTS[mode], list(counts), list(x.shape), align_corners, scales)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        operator_, counts, shape, align_corners, scales = ctx.how
        return operator_(gradient, counts, shape, align_corners, *scales), None, None, None, None


_GRADIENTS = {
    "linear": aten.upsample_linear1d_backward.default, "bilinear": aten.upsample_bilinear2d_backward.default,
    "trilinear": aten.upsample_trilinear3d_backward.default, "bicubic": aten.upsample_bicubic2d_backward.default,
}


def _places(
    size: int, count: int, align_corners: bool, scale: float | None, clamped: bool, wide: torch.dtype, device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Of each element of the result the element of the input at or before its place, and how far that is behind it.

    In whole numbers where the distance of two places is a ratio of small ones: arithmetic in float64 took longer than what is read and written.  So are
    places between sizes that vary, whose ratio is no number here."""
    if not (isinstance(size, int) and isinstance(count, int)) and (align_corners or not scale):
        number, wider = torch.arange(count, device=device), torch.float64 if wide == torch.float64 else torch.float32
        above, below = (size - 1, torch.sym_max(count - 1, 1)) if align_corners else (2 * size, 2 * count)
        place = number * above if align_corners else number * above + (size + count)  # one behind: none is negative
        first = torch.div(place, below, rounding_mode="trunc")
        rest = (place - first * below).to(wider) / below
        if align_corners:
            return first, rest
        return ((first - 1).clamp(min=0), torch.where(first < 1, 0.0, rest)) if clamped else (first - 1, rest)
    step = _step(size, count, align_corners, scale)
    between = ratio(size, count, align_corners, scale)
    if between is not None and statically_known_true(2 * count * between.numerator < _WHOLE):
        number = torch.arange(count, device=device, dtype=torch.int32)
        if align_corners:
            return _divided(number * between.numerator, between.denominator, wide)
        unit = 2 * between.denominator
        first, rest = _divided(number * (2 * between.numerator) + (between.numerator + between.denominator), unit, wide)  # one behind: none is negative
        first = first - 1
        return (first.clamp(min=0), torch.where(first < 0, 0.0, rest)) if clamped else (first, rest)
    number = torch.arange(count, device=device).to(torch.float64)
    place = number * step if align_corners else (number + 0.5) * step - 0.5
    place = place.clamp(min=0) if clamped and not align_corners else place
    first = torch.floor(place)
    return first.to(torch.int64), place - first


def _divided(number: Tensor, unit: int, wide: torch.dtype) -> tuple[Tensor, Tensor]:
    """The quotient of a number that is not negative, and what is left as a part of a unit: by its last bits where that can be, of which a kernel knows that
    neighbours of a row have the same ones in every thread."""
    first = torch.div(number, unit, rounding_mode="trunc")
    rest = number - first * unit if unit & (unit - 1) else torch.bitwise_and(number, unit - 1)
    return first, rest.to(wide) * (1 / unit)


def _weighted(gathered: Callable[[list[Tensor]], Tensor], along: Sequence, chosen: tuple, wide: torch.dtype) -> Tensor:
    """The sum over the taps of the dimensions that are left, the last one outermost: what a column comes to is the same for neighbours of a row."""
    if len(chosen) == len(along):
        return gathered(list(chosen)).to(wide)
    terms = (_weighted(gathered, along, (place, *chosen), wide) * weight for place, weight in along[-1 - len(chosen)])
    return functools.reduce(operator.add, terms)


def _repeated(dims: int) -> Callable:
    """Each element so many times: where the factors are powers of 2, no rounding of a place can tell it from the nearest one."""

    def decomposition(x: Tensor, output_size: list[int] | None, *scales: Any, scale_factors: Any = None) -> Tensor:
        scales = scales if scale_factors is None else (scale_factors,)
        given = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales
        given = [*given, *[None] * dims][:dims]
        if output_size is None:
            output_size = [n if s is None else _scaled(n, s) for n, s in zip(x.shape[2:], given)]
        if x.dim() != dims + 2 or any(statically_known_true(n == 0) for n in x.shape):
            return NotImplemented
        factors = [_factor(size, count) for size, count in zip(x.shape[2:], output_size)]
        if None in factors or any(scale not in (None, factor) for scale, factor in zip(given, factors)):
            return NotImplemented
        if set(factors) == {1}:
            return x.clone(memory_format=suggest_memory_format(x))
        places = []
        for d, (count, factor) in enumerate(zip(output_size, factors)):
            number = torch.div(torch.arange(count, device=x.device), factor, rounding_mode="trunc")
            places.append(as_dimension(number, d, dims))
        return gathered(x, dims, lambda gather: gather(places))

    return decomposition


def _factor(size: int, count: int) -> int | None:
    """The power of 2 by which a count is larger than a size, of which either may vary."""
    return next((1 << n for n in range(_MOST_DOUBLED) if statically_known_true(count == size * (1 << n))), None)


def _two(rest: Tensor) -> tuple[range, list[Tensor]]:
    return range(2), [1 - rest, rest]


def four(rest: Tensor) -> tuple[range, list[Tensor]]:
    """Keys' cubic convolution with a = -0.75, as products, which lose no digits where a weight is small."""
    left = 1 - rest

    def near(x: Tensor, y: Tensor) -> Tensor:
        return y * (1 + x - 1.25 * x * x)

    return range(-1, 3), [-0.75 * rest * left * left, near(rest, left), near(left, rest), -0.75 * rest * rest * left]


def _linear(x: Tensor) -> Tensor:
    return torch.where(x < 1, 1 - x, 0.0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' cubic convolution with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


linearly, bicubic = _interpolate(_two, True), _interpolate(four, False)
TABLE = {
    aten._upsample_bilinear2d_aa.default: _resize(_linear, 1.0), aten._upsample_bicubic2d_aa.default: _resize(_cubic, 2.0),
    aten._upsample_bilinear2d_aa_backward.default: _resize_gradient(_linear, 1.0),
    aten._upsample_bicubic2d_aa_backward.default: _resize_gradient(_cubic, 2.0),
}
for _packet, _function in (
    (aten.upsample_linear1d, linearly), (aten.upsample_bilinear2d, linearly), (aten.upsample_trilinear3d, linearly), (aten.upsample_bicubic2d, bicubic),
):
    TABLE.update({_packet.default: _function, _packet.vec: _function})
for _number in (1, 2, 3):
    for _kind in ("nearest", "nearest_exact"):
        _packet = getattr(aten, f"{'_' if _kind == 'nearest_exact' else ''}upsample_{_kind}{_number}d")
        TABLE.update({_packet.default: _repeated(_number), _packet.vec: _repeated(_number)})

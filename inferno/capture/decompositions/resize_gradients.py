"""Gradients of resizing: each element of the input is in a few elements of the result, which are known from sizes alone, so nothing is scattered.

torch's kernel adds every element of the result to 4 of the input by atomics: of 2x256 planes of 33x33 that came of one element each 1354 us on an H200 in bf16,
where memory takes 1.
"""

import ctypes
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from inferno.capture.decompositions import resampling
from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

# Terms that one kernel adds, each of which is read at a place of its own: 16 are the 4 x 4 of an image of twice the size.  More are added along one dimension
# after the other, which writes and reads what is between them; and more than these along one are a product with a matrix, of few columns then.
_TOGETHER, _MOST = 16, 8
_WHOLE = 1 << 30  # places in units of a ratio's denominator stay below this


class _Line(NamedTuple):
    """One dimension: its elements in the input and in the result, where result j lies at (``step`` j + ``begin``) / ``unit``, and how far a filter reaches."""

    size: int
    count: int
    step: int
    begin: int
    unit: int
    reach: int

    @property
    def terms(self) -> int:
        """Elements of the result that one of the input can be in."""
        return min(self.count, -(-2 * self.reach * self.unit // self.step)) if self.step else self.count


def _line(size: int, count: int, align_corners: bool, scale: float | None, reach: int) -> _Line | None:
    """None where places are no ratio of small numbers, or the result goes beyond the input."""
    ratio = resampling.ratio(size, count, align_corners, scale)
    if ratio is None:
        return None
    step, unit = ratio.numerator, ratio.denominator
    line = _Line(size, count, step, 0, unit, reach) if align_corners else _Line(size, count, 2 * step, step - unit, 2 * unit, reach)
    last = (count - 1) * line.step + line.begin
    within = last < (size - 1 + reach) * line.unit and max(last, (size + 2 * reach) * line.unit) < _WHOLE
    return line if within else None


def _first(line: _Line, place: Tensor) -> Tensor:
    """The first element of the result that each of these of the input can be in; it may be negative."""
    if line.terms == line.count:
        return torch.zeros_like(place)
    behind = -line.reach * line.unit - line.begin
    if line.unit % line.step == 0:
        return place * (line.unit // line.step) + (behind // line.step + 1)
    more = max(0, -(behind // line.step))  # so that what is divided is not negative
    return torch.div(place * line.unit + (behind + more * line.step), line.step, rounding_mode="trunc") + (1 - more)


def _linear_weight(line: _Line, at: Tensor, place: Tensor) -> Tensor:
    """How much of ``place`` is in the result's element ``at``: in whole numbers but for the last step."""
    inside = (at * line.step + line.begin).clamp(0, (line.size - 1) * line.unit)
    return (line.unit - (inside - place * line.unit).abs()).clamp(min=0).to(torch.float32) * (1 / line.unit)


def _cubic_weight(line: _Line, at: Tensor, place: Tensor) -> Tensor:
    """The sum of the weights of those of 4 neighbours that are ``place`` once they are kept inside of the input."""
    behind = at * line.step + (line.begin + line.reach * line.unit)
    first = torch.div(behind, line.unit, rounding_mode="trunc")
    rest = (behind - first * line.unit).to(torch.float32) * (1 / line.unit)
    reach, weights = resampling.four(rest)
    first = first - line.reach
    terms = (torch.where((first + o).clamp(0, line.size - 1) == place, w, 0.0) for o, w in zip(reach, weights))
    return functools.reduce(operator.add, terms)


def _nearest_weight(line: _Line, at: Tensor, place: Tensor) -> Tensor:
    """Whether the result's element ``at`` is ``place``."""
    inside = (at * line.step + line.begin).clamp(min=0)
    return torch.div(inside, line.unit, rounding_mode="trunc").clamp(max=line.size - 1) == place


def _along(grad: Tensor, lines: Sequence[_Line], dims: Sequence[int], rank: int, weigh: Callable) -> Tensor:
    """The sum over ``dims`` of the last ``rank`` ones, of which each has its line."""
    terms = []
    for line, d in zip(lines, dims):
        place = torch.arange(line.size, device=grad.device, dtype=torch.int32)
        first, ways = _first(line, place), []
        for t in range(line.terms):
            at = first + t
            inside, weight = (at >= 0) & (at < line.count), weigh(line, at, place)
            if weight.dtype == torch.bool:
                inside, weight = inside & weight, None
            ways.append([x if x is None else as_dimension(x, d, rank) for x in (at.clamp(0, line.count - 1), weight, inside)])
        terms.append(ways)
    whole = {d: as_dimension(torch.arange(grad.shape[d - rank], device=grad.device, dtype=torch.int32), d, rank) for d in range(rank) if d not in dims}

    def compute(gathered: Callable[[list[Tensor]], Tensor]) -> Tensor:
        def nested(chosen: tuple) -> Tensor:
            if len(chosen) == len(dims):
                places = {**whole, **dict(zip(reversed(dims), chosen))}
                return gathered([places[d] for d in range(rank)]).to(torch.float32)
            ways = terms[-1 - len(chosen)]
            found = ((nested((*chosen, at)), w, inside) for at, w, inside in ways)
            return functools.reduce(operator.add, (torch.where(inside, x if w is None else x * w, 0.0) for x, w, inside in found))

        return nested(())

    return resampling.gathered(grad, rank, compute)


def _multiplied(grad: Tensor, line: _Line, dim: int, rank: int, weigh: Callable) -> Tensor:
    """The product along one dimension with the matrix of its weights."""
    place = torch.arange(line.size, device=grad.device, dtype=torch.int32).unsqueeze(1)
    at = torch.arange(line.count, device=grad.device, dtype=torch.int32)
    weights = weigh(line, at, place).to(grad.dtype)
    if dim == rank - 1:
        return torch.matmul(grad, weights.t())
    if dim == rank - 2:
        return torch.matmul(weights, grad)
    return torch.matmul(weights, grad.flatten(dim - rank + 1)).unflatten(-1, grad.shape[dim - rank + 1:])


def _filtered(rank: int, reach: int, weigh: Callable) -> Callable:
    def gradient(grad: Tensor, output_size: list[int], input_size: list[int], align_corners: bool, *scales: float | None) -> Tensor:
        lead = len(input_size) - rank
        known = all(isinstance(n, int) and n for n in (*grad.shape, *input_size, *output_size))
        if lead != 2 or not known or grad.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return NotImplemented
        scales = (*scales, *[None] * rank)[:rank]
        lines = [_line(n, m, align_corners, s, reach) for n, m, s in zip(input_size[2:], output_size, scales)]
        if any(line is None for d, line in enumerate(lines) if input_size[2 + d] > 1):
            return NotImplemented
        return _summed(grad, lines, input_size[2:], weigh)

    return gradient


def _summed(grad: Tensor, lines: Sequence[_Line | None], sizes: Sequence[int], weigh: Callable) -> Tensor:
    """Along dimensions of one element each, then what is left: the most first, some together where one kernel adds few terms."""
    rank, found = len(sizes), grad
    same = [d for d in range(rank) if sizes[d] == grad.shape[d - rank] and _is_same(lines[d])]
    ones = [d for d in range(rank) if sizes[d] == 1 and d not in same]
    if ones:
        found = found.to(torch.float32).sum([d - rank for d in ones], keepdim=True)
    left = [d for d in range(rank) if d not in (*ones, *same)]
    while left:
        for few in range(len(left), 0, -1):
            groups = [g for g in itertools.combinations(left, few) if math.prod(lines[d].terms for d in g) <= (_TOGETHER if few > 1 else _MOST)]
            if groups:
                break
        else:
            groups = [(d,) for d in left]
        chosen = min(groups, key=lambda g: math.prod(Fraction(lines[d].size, lines[d].count) for d in g))
        if len(chosen) > 1 or lines[chosen[0]].terms <= _MOST:
            found = _along(found, [lines[d] for d in chosen], chosen, rank, weigh)
        else:
            found = _multiplied(found.to(torch.float32), lines[chosen[0]], chosen[0], rank, weigh)
        left = [d for d in left if d not in chosen]
    format_ = resampling.suggest_memory_format(grad)
    return found.to(grad.dtype).contiguous(memory_format=format_)


def _is_same(line: _Line | None) -> bool:
    """Whether each element of the result is one of the input."""
    return line is not None and line.count == line.size and line.step == line.unit and line.begin == 0


def _nearest(rank: int, exact: bool) -> Callable:
    """Elements that took one element of the input are neighbours."""

    def gradient(grad: Tensor, output_size: list[int], input_size: list[int], *scales: float | None) -> Tensor:
        known = all(isinstance(n, int) and n for n in (*grad.shape, *input_size, *output_size))
        if len(input_size) != rank + 2 or not known or grad.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return NotImplemented
        scales = (*scales, *[None] * rank)[:rank]
        begins = [_begins(n, m, s, exact) for n, m, s in zip(input_size[2:], output_size, scales)]
        factors = [m // n if m % n == 0 and b == [m // n * i for i in range(n + 1)] else 0 for n, m, b in zip(input_size[2:], output_size, begins)]
        if all(factors):
            apart = grad.reshape(*grad.shape[:2], *(n for size, f in zip(input_size[2:], factors) for n in (size, f)))
            found = apart.to(torch.float32).sum([2 * d + 3 for d in range(rank)])
            return found.to(grad.dtype).contiguous(memory_format=resampling.suggest_memory_format(grad))
        lines = [_line(n, m, False, s, 1) for n, m, s in zip(input_size[2:], output_size, scales)]
        # Places of nearest-exact lie half an element behind those that filters start from, and the others' at the beginning of one.
        lines = [line and line._replace(begin=line.step // 2 if exact else 0) for line in lines]
        # (Where torch's places in float32 are others than those of the sizes' ratio, its kernel is kept.)
        if any(line is None or b != _exactly(line) for b, line in zip(begins, lines)):
            return NotImplemented
        return _summed(grad, lines, input_size[2:], _nearest_weight)

    return gradient


def _begins(size: int, count: int, scale: float | None, exact: bool) -> list[int]:
    """The first element of the result that takes each of the input, as torch's float32 has it, and the end of the last one's."""
    step = _float32(1 / scale if scale else _float32(size / count))
    places = [min(int(_float32((j + 0.5 if exact else j) * step)), size - 1) for j in range(count)]
    found, j = [], 0
    for i in range(size):
        while j < count and places[j] < i:
            j += 1
        found.append(j)
    return [*found, count]


def _float32(x: float) -> float:
    return ctypes.c_float(x).value


def _exactly(line: _Line) -> list[int]:
    """``_begins`` of the sizes' ratio."""
    return [*(-(-(i * line.unit - line.begin) // line.step) if i else 0 for i in range(line.size)), line.count]


TABLE: dict[Any, Callable] = {
    aten.upsample_linear1d_backward.default: _filtered(1, 1, _linear_weight), aten.upsample_bilinear2d_backward.default: _filtered(2, 1, _linear_weight),
    aten.upsample_trilinear3d_backward.default: _filtered(3, 1, _linear_weight), aten.upsample_bicubic2d_backward.default: _filtered(2, 2, _cubic_weight),
}
for _number in (1, 2, 3):
    TABLE[getattr(aten, f"upsample_nearest{_number}d_backward").default] = _nearest(_number, False)
    TABLE[getattr(aten, f"_upsample_nearest_exact{_number}d_backward").default] = _nearest(_number, True)

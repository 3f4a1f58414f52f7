"""Ranges of floating-point numbers, and of narrow integers where sizes vary: torch-mlir would count their elements in the result's type, which in 16 bits is
some other number.

Evenly spaced integers are left to torch: where a number falls on an integer, what is below depends on how the processor's vectors lie.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

aten = torch.ops.aten
_Number = int | float


def arange(start: _Number, end: _Number, step: _Number = 1, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: object) -> Tensor:
    """start + i * step, rounded once; [ceil((end - start) / step)], counted in float64 as torch does."""
    given = (start, end, step)
    whole = all(isinstance(n, (int, torch.SymInt)) for n in given)
    if dtype is None:
        dtype = torch.int64 if whole else torch.get_default_dtype()
    varies = any(isinstance(n, torch.SymInt) for n in given)
    numbers = tuple(int(n) if varies and isinstance(n, float) and n.is_integer() else n for n in given)
    integers = all(isinstance(n, (int, torch.SymInt)) for n in numbers)
    down = varies and integers and isinstance(numbers[2], int) and numbers[2] < 0  # the import divides by it, which says nothing of the quotient's sign
    counted = varies and integers and (not whole or down or dtype not in (torch.int64, torch.bool))
    counted = counted or dtype in (torch.int8, torch.uint8)  # of which the import makes none
    if not (dtype.is_floating_point or counted) or not (integers or all(type(n) in (int, float) for n in numbers)) or not step:
        return NotImplemented
    if down:
        first, last, back = numbers[0], numbers[1], -numbers[2]
        return (first - back * torch.arange((first - last + back - 1) // back, device=device)).to(dtype)
    if integers:
        return torch.arange(*numbers, dtype=torch.int64, device=device).to(dtype)
    count = math.ceil((end - start) / step)
    return (torch.arange(max(count, 0), device=device).to(torch.float64) * step + start).to(dtype)


def arange_from(start: _Number, end: _Number, **options: object) -> Tensor:
    return arange(start, end, 1, **options)


def arange_to(end: _Number, **options: object) -> Tensor:
    return arange(0, end, 1, **options)


def sized_linspace(
    start: _Number, end: _Number, steps: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **options: object,
) -> Tensor:
    """torch.linspace of a number of steps that varies, for which its operation takes a known one: from both ends to the middle, as torch counts."""
    dtype = dtype or torch.get_default_dtype()
    if not isinstance(steps, torch.SymInt) or any(type(n) not in (int, float) for n in (start, end)) or not dtype.is_floating_point or any(options.values()):
        return NotImplemented
    place = torch.arange(steps, device=device)
    last = steps - 1
    step = (float(end) - float(start)) / torch.sym_max(last, 1)
    found = torch.where(place < torch.sym_max(steps // 2, 1), place.to(torch.float64) * step + start, end - (last - place).to(torch.float64) * step)
    return found.to(dtype)


def _of_floats(function: Callable) -> Callable:
    @functools.wraps(function)
    def decompose(*args: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            return NotImplemented
        return function(*args, dtype=dtype, **options)

    return decompose


def _frequencies(halved: bool) -> Callable:
    """``torch.fft.fftfreq``, whose second half are the negative ones, or of ``halved`` ones ``rfftfreq``: whole numbers, by the ``n`` samples' time."""
    def decomposition(
        n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, layout: torch.layout | None = None, device: torch.device | None = None,
        pin_memory: bool | None = None,
    ) -> Tensor:
        dtype = dtype or torch.get_default_dtype()
        none = (isinstance(n, int) and n < 1) or not isinstance(d, int | float) or not d
        if none or dtype not in (torch.float32, torch.float64) or layout not in (None, torch.strided) or pin_memory:
            return NotImplemented
        if halved:
            number = torch.arange(n // 2 + 1, device=device)
        else:
            place = torch.arange(n, device=device)
            number = torch.where(place < (n + 1) // 2, place, place - n)
        return number.to(dtype) * (1 / (n * d))

    return decomposition


SPACES = {op: _of_floats(function) for op, function in get_decompositions([aten.linspace, aten.logspace]).items()}
TABLE = {aten.arange.default: arange_to, aten.arange.start: arange_from, aten.arange.start_step: arange, **SPACES,
         aten.fft_fftfreq.default: _frequencies(False), aten.fft_rfftfreq.default: _frequencies(True)}

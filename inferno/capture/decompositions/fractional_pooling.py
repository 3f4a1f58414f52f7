"""Maxima of windows that begin where random numbers say (``fractional_max_pool2d`` and ``3d``): elements are read at places, and compared."""

import ctypes
import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu
from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

_MOST_COMPARED = 32  # elements of a window that one kernel compares (as ``max_pooling`` has it)


def _maxima(rank: int) -> Callable:
    def pooling(x: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor) -> tuple[Tensor, Tensor]:
        """Of what is equal the first one is found, and the last NaN, as torch has it."""
        kernel, counts, sizes = list(kernel_size), list(output_size), x.shape[-rank:]
        if len(kernel) != rank or len(counts) != rank or any(type(n) is not int or n == 0 for n in (*x.shape, *counts)):
            return NotImplemented
        narrow = x.dtype not in (torch.float32, torch.float64)
        if not x.is_floating_point() or math.prod(kernel) > _MOST_COMPARED or random_samples.dtype != x.dtype or (narrow and not for_gpu(x)):
            return NotImplemented  # (on a CPU torch computes begins in narrow numbers)
        whole = x if x.dim() == rank + 2 else x.unsqueeze(0)
        # Of an image the first number is for columns, of a volume the last one.
        numbers = random_samples.flip(-1) if rank == 2 else random_samples
        begins = [_begins(numbers[..., d], sizes[d], counts[d], kernel[d], d, rank) for d in range(rank)]
        lead = [as_dimension(torch.arange(n, device=x.device), d, rank + 2) for d, n in enumerate(whole.shape[:2])]
        best = torch.full((), -math.inf, dtype=x.dtype, device=x.device)
        place = _number(begins, sizes)
        for offsets in product(*map(range, kernel)):
            at = [begin + o for begin, o in zip(begins, offsets)]
            value = aten.index.Tensor(whole, [*lead, *at])
            larger = (value > best) | torch.isnan(value)
            best, place = torch.where(larger, value, best), torch.where(larger, _number(at, sizes), place)
        result = [*x.shape[:-rank], *counts]
        return best.reshape(result), place.to(torch.int64).reshape(result)

    return pooling


def _begins(sample: Tensor, size: int, count: int, kernel: int, dim: int, rank: int) -> Tensor:
    """Where windows begin along a dimension, [batch, channels, 1, ..., count, ..., 1], by torch's arithmetic: the last one ends with the image."""
    sample = sample.to(torch.promote_types(sample.dtype, torch.float32)).reshape(*sample.shape, *[1] * rank)
    number = as_dimension(torch.arange(count, device=sample.device), dim, rank)
    step = (size - kernel) / (count - 1) if count > 1 else 0.0
    step = step if sample.dtype == torch.float64 else ctypes.c_float(step).value
    begin = ((number + sample) * step).to(torch.int32) - (sample * step).to(torch.int32)
    return torch.where(number == count - 1, size - kernel, begin)


def _number(places: list[Tensor], sizes: torch.Size) -> Tensor:
    """The number of an element in its image or volume."""
    number = places[0]
    for place, size in zip(places[1:], sizes[1:]):
        number = number * size + place
    return number


TABLE = {aten.fractional_max_pool2d.default: _maxima(2), aten.fractional_max_pool3d.default: _maxima(3)}

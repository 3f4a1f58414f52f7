"""Window functions (Hamming, Blackman, Bartlett, Kaiser) as what is computed of a range, as torch computes them; a Hann window the import knows.

A periodic window of N is the first N of one of N + 1.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

aten = torch.ops.aten


def _window(function: Callable) -> Callable:
    """``function(places, last, *numbers)`` of the places 0 to ``last`` in float32 or float64."""
    def decomposition(length: int, periodic: bool = True, *numbers: float, dtype: torch.dtype | None = None, device: torch.device | None = None,
                      layout: torch.layout | None = None, pin_memory: bool | None = None) -> Tensor:
        dtype = dtype or torch.get_default_dtype()
        if not isinstance(length, int) or length < 0 or not dtype.is_floating_point or layout not in (None, torch.strided) or pin_memory:
            return NotImplemented
        if length < 2:
            return torch.ones(length, dtype=dtype, device=device)
        places = torch.arange(length, dtype=torch.float64 if dtype == torch.float64 else torch.float32, device=device)
        found = function(places, length if periodic else length - 1, *numbers)
        return found if found is NotImplemented else found.to(dtype)

    return decomposition


def hamming(places: Tensor, last: int, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return alpha - beta * torch.cos(places * (2 * math.pi / last))


def blackman(places: Tensor, last: int) -> Tensor:
    turned = places * (math.pi / last)
    return torch.cos(turned * 4) * 0.08 - torch.cos(turned * 2) * 0.5 + 0.42


def bartlett(places: Tensor, last: int) -> Tensor:
    """Up to the middle, and down."""
    grown = places * (2 / last)
    return torch.where(places <= last // 2, grown, 2 - grown)


def kaiser(places: Tensor, last: int, beta: float = 12.0) -> Tensor:
    """NotImplemented in float64, in which there is no Bessel function."""
    if places.dtype == torch.float64:
        return NotImplemented
    from_middle = places * (2 / last) - 1
    whole = torch.special.i0(torch.full((), beta, dtype=places.dtype, device=places.device))
    return torch.special.i0(beta * torch.sqrt((1 - from_middle * from_middle).clamp(min=0))) / whole


TABLE = {operator: _window(function) for function, operators in (
    (hamming, (
        aten.hamming_window.default, aten.hamming_window.periodic, aten.hamming_window.periodic_alpha, aten.hamming_window.periodic_alpha_beta,
    )),
    (blackman, (aten.blackman_window.default, aten.blackman_window.periodic)),
    (bartlett, (aten.bartlett_window.default, aten.bartlett_window.periodic)),
    (kaiser, (aten.kaiser_window.default, aten.kaiser_window.periodic, aten.kaiser_window.beta)),
) for operator in operators}

"""What one call of a kernel should give: its PyTorch program (see ``inferno.targets.torch_source``) run once as it stands, for what eager
would have computed, and once in float64, for the reference."""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.runtime.check.comparison import Comparison, compare_leaf, relative_error
from inferno.runtime.check.perturbation import FLOAT64_TO_FLOAT32, run_perturbed
from inferno.runtime.elements import DTYPES

_NARROW = ("f32", "f16", "bf16")
_TF32 = 2.0**-10  # of TF32's mantissa of 10 bits the last


class Expected:
    """The results of the function ``name`` of a program in PyTorch, for its inputs ``given`` and destinations like ``results``.

    ``roundings``: the floating-point types that it rounds to on its way; ``tf32``: whether its float32 products may be TF32.  Raises what
    the program raises: RuntimeError, IndexError, ZeroDivisionError or TypeError where torch does not run it.
    """

    def __init__(
        self, text: str, name: str, roundings: Sequence[str], tf32: bool, given: Sequence[Tensor], results: Sequence[Tensor], device: torch.device,
    ) -> None:
        self._given = [t.view(torch.int8) if t.dtype is torch.uint8 else t for t in given]
        self._like, self._device = [torch.empty_like(r, device="meta") for r in results], device
        self._own = scope(text, wide=False)[name]
        self._units = [torch.finfo(DTYPES[n]).eps for n in roundings] + ([_TF32] if tf32 else [])
        self._eager = self._call(self._own, self._given)
        self._exact = self._call(scope(text, wide=True)[name], [widen(t) for t in self._given])
        self._own_errors: dict[int, float] = {}

    def compare(self, results: Sequence[Tensor]) -> Comparison:
        """The worst of these results, or the first that is wrong."""
        worst = Comparison(0.0, 0.0, 0.0)
        for i, (a, b, c) in enumerate(zip(results, self._eager, self._exact, strict=True)):
            label = f"result {i}" if len(results) > 1 else "its result"
            found = compare_leaf(label, a, b, c, self._unit(b.dtype))
            if not found.right and b.is_floating_point() and found.error < float("inf"):
                found = compare_leaf(label, a, b, c, self._unit(b.dtype), self._own_error(i))
            elif not found.right and not b.is_floating_point() and torch.equal(a, c):
                found = Comparison(0.0, 0.0, 0.0)  # a rounding decided, and eager's decided otherwise than float64's
            if not found.right:
                return found
            worst = found if found.error >= worst.error else worst
        return worst

    def _own_error(self, i: int) -> float:
        """Eager's error beyond luck (see ``perturbation``)."""
        if i not in self._own_errors:
            eager, exact = self._eager[i], self._exact[i]
            runs = run_perturbed(lambda: self._call(self._own, self._given))
            found = max(relative_error(run[i], eager, exact) for run in runs)
            if eager.dtype is torch.float64:
                half = [t.float() if t.dtype is torch.float64 else t for t in self._given]
                function = types.FunctionType(self._own.__code__, {**self._own.__globals__, "f64": torch.float32})
                found = max(found, relative_error(self._call(function, half)[i], eager, exact) * FLOAT64_TO_FLOAT32)
            self._own_errors[i] = found
        return self._own_errors[i]

    def _call(self, function: Callable, given: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad(), torch.device(self._device):
            made = function(*given, *(torch.empty_like(r, device=self._device) for r in self._like))
        return [made] if isinstance(made, Tensor) else list(made)

    def _unit(self, dtype: torch.dtype) -> float | None:
        """The rounding unit of a result: of the coarsest type that the kernel rounds to on its way."""
        return max([torch.finfo(dtype).eps, *self._units]) if dtype.is_floating_point else None


@functools.lru_cache(maxsize=8)
def scope(text: str, wide: bool) -> dict[str, Any]:
    """The functions of a program in PyTorch; ``wide``: with float64 in the place of every floating-point type."""
    found: dict[str, Any] = {}
    exec(compile(text, "<kernels in PyTorch>", "exec"), found)
    if wide:
        found.update(dict.fromkeys(_NARROW, torch.float64))
    return found


def widen(tensor: Tensor) -> Tensor:
    """A tensor of floats in float64; any other as it is."""
    return tensor.double() if tensor.is_floating_point() else tensor

"""Eager's own error beyond luck: operations with their roundings perturbed.

A result of few numbers may be exact in eager by chance, and a right implementation that adds up in another order is then "worse".
Where a result fails the rule, eager runs again with every rounding off by up to half a unit in the last place, at random,
which is what another order of the same operations does; the largest error of some such runs is eager's too.

Results in float64 are their own reference, so that eager's error shows as 0.  It is what float32 makes of the same operations,
times the ratio of the two rounding units; and a result within 1.5 times that of the truth is within 2.5 times of such a reference.
There a sum of n terms is also off by the square root of n units: for how it is off in float32 is luck too.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from inferno.runtime.check.higher_order import run_higher_order

# Eager's error in float64 as the rule is to see it, from its error in float32.
FLOAT64_TO_FLOAT32 = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps * 2.5 / 1.5

# Operations that move, select or make numbers, and compute none: their results are exact.
_EXACT = (
    "view", "_unsafe_view", "expand", "permute", "transpose", "slice", "select", "clone", "copy", "_to_copy", "cat", "index", "gather", "as_strided",
    "detach", "relu", "where", "clamp", "max", "min", "amax", "amin", "unsqueeze", "squeeze", "alias", "full", "zeros", "ones", "empty", "fill",
    "new_", "neg", "abs", "split", "stack", "constant_pad_nd", "flip", "roll", "sort", "topk", "arange", "diagonal", "unfold", "triu", "tril",
    "scalar_tensor", "lift", "repeat", "masked_fill", "unbind",
)
# Operations that sum up rows of an operand without being smaller than it.
_ROWS = ("softmax", "norm", "mm", "attention")


class Perturbed(TorchDispatchMode):
    """Every floating-point result of an operation that computes is off by up to half a unit in the last place, at random."""

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function: Any, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(function, HigherOrderOperator):
            return run_higher_order(self, function, args, kwargs or {})
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.split("::")[1]
        if function._schema.is_mutable or name == "t" or name.startswith(_EXACT):
            return result
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        rows = max((a.shape[-1] for a in tensors if a.dim()), default=1) if any(n in name for n in _ROWS) else 1
        read = max((a.numel() for a in tensors), default=0)
        return tree_map(lambda value: self._off(value, read, rows), result)

    def _off(self, value: Any, read: int, rows: int) -> Any:
        if isinstance(value, Tensor) and value.is_complex():
            return torch.view_as_complex(self._off(torch.view_as_real(value.resolve_conj()), 2 * read, rows))
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        noise = torch.rand(value.shape, generator=self._generator, dtype=torch.float64).to(value.device) - 0.5
        if value.dtype is torch.float64:
            noise *= 2 * math.sqrt(max(rows, read / max(1, value.numel())))  # functions are good to a unit, not half of one
        return (value.double() * (1 + torch.finfo(value.dtype).eps * noise)).to(value.dtype)


def run_perturbed(function: Callable[[], Any], seeds: Iterable[int] = range(3)) -> list[Any]:
    """The results of perturbed runs, one for each seed."""
    found = []
    for seed in seeds:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"), Perturbed(seed):
            found.append(function())
    return found

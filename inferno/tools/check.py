"""Is a compiled model right?  Its results against eager's and against float64."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from inferno.runtime.check.comparison import Comparison, compare
from inferno.runtime.check.isolation import run_isolated

_LARGE = 1 << 30  # bytes of parameters; a copy in float64 has four times as many in bfloat16

__all__ = ["Comparison", "compare", "reference", "to_float64"]


def to_float64(value: Any) -> Any:
    """A copy of a module, tensor or nest of tensors in float64; what is not floating point stays."""
    if isinstance(value, torch.nn.Module):
        module = copy.deepcopy(value).double()
        if hasattr(module, "set_experts_implementation"):
            module.set_experts_implementation("eager")  # transformers' default, a grouped matmul, has no float64
        return module
    def convert(leaf: Any) -> Any:
        return leaf.detach().double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
    return tree_map(convert, value)


def reference(model: Callable, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
    """The model's result computed in float64; of a large model operation by operation, without a copy of it."""
    if isinstance(model, torch.nn.Module) and sum(t.nbytes for t in model.parameters()) > _LARGE:
        device = next(model.parameters()).device
        return run_isolated(lambda given: model(*tree_map(given, args), **tree_map(given, kwargs or {})), [device], torch.float64)[0]
    with torch.no_grad():
        return to_float64(model)(*to_float64(args), **to_float64(kwargs or {}))

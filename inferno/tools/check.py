"""Is a compiled model right?  Its results against eager's and against float64."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from inferno.runtime.comparison import Comparison, compare

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
    """The model's result computed in float64."""
    with torch.no_grad():
        return to_float64(model)(*to_float64(args), **to_float64(kwargs or {}))

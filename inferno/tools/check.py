"""A model's results in float64, which its compiled results are compared with (``runtime/check/comparison.py``)."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from inferno.runtime.check.comparison import widened
from inferno.runtime.check.isolation import run_isolated

_LARGE = 1 << 30  # bytes of parameters; a copy in float64 has four times as many in bfloat16


def to_float64(value: Any) -> Any:
    """A copy of a module, tensor or nest of tensors in float64, complex numbers as two of these; what is neither stays."""
    if isinstance(value, torch.nn.Module):
        module = copy.deepcopy(value).double()
        for held in (*module.parameters(), *module.buffers()):
            if held.is_complex():
                held.data = held.data.to(torch.complex128)
        if hasattr(module, "set_experts_implementation"):
            module.set_experts_implementation("eager")  # transformers' default, a grouped matmul, has no float64
        return module
    def convert(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            return leaf.detach().to(torch.complex128 if leaf.is_complex() else torch.float64)
        return leaf
    return tree_map(convert, value)


def reference(model: Callable, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
    """The model's result computed in float64.

    Of a large model operation by operation, without a copy of it; so also of one that names types itself, whose copy in float64 fails, or has infinities
    that it itself has not: the least number of float64, for a mask, in what the model has made float32.
    """
    kwargs = kwargs or {}
    narrower = any(isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 for x in tree_leaves((args, kwargs)))
    with torch.no_grad(), _EpsilonOfFloat32() if narrower else nullcontext():
        if isinstance(model, torch.nn.Module) and sum(t.nbytes for t in model.parameters()) > _LARGE:
            return _by_operations(model, args, kwargs)
        try:
            copied = to_float64(model)(*to_float64(args), **to_float64(kwargs))
        except (RuntimeError, TypeError, ValueError):
            return _by_operations(model, args, kwargs, held=True)
        lost = _not_finite(copied)
        if not lost:
            return copied
        try:
            found = _by_operations(model, args, kwargs, held=True)
        except (RuntimeError, TypeError, ValueError):
            return copied
        return found if _not_finite(found) < lost else copied


def _by_operations(model: Callable, args: tuple, kwargs: dict[str, Any], held: bool = False) -> Any:
    """``held``: a module's tensors are in float64 from the beginning, for what asks for types."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    tables = [(table, key) for m in modules for table in (m._parameters, m._buffers) for key, value in table.items() if value is not None]
    tensors = [t for t in (*tree_leaves((args, kwargs)), *(table[key] for table, key in tables)) if isinstance(t, torch.Tensor)]
    devices = list({t.device for t in tensors})
    return run_isolated(lambda given: model(*tree_map(given, args), **tree_map(given, kwargs)), devices, torch.float64, tables if held else ())[0]


def _not_finite(results: Any) -> int:
    """How many numbers of the results are NaN or infinite."""
    floats = (t for t in tree_leaves(results) if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()))
    return sum(int((~widened(t).isfinite()).sum()) for t in floats)


class _EpsilonOfFloat32(TorchFunctionMode):
    """``rms_norm`` without an epsilon takes its type's: the reference is that of what is float32 or narrower, a norm of one row of which would be off by half
    of float32's epsilon everywhere."""

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if function in (torch.rms_norm, torch.nn.functional.rms_norm) and (args[3] if len(args) > 3 else kwargs.get("eps")) is None:
            return torch.rms_norm(*args[:3], **{**kwargs, "eps": torch.finfo(torch.float32).eps})
        return function(*args, **kwargs)

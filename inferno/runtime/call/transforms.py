"""Calls that are not about numbers alone: under torch.func's transforms, in forward mode of autograd, traced, or of tensors of other classes.

Compiled kernels know addresses.  What vmap, grad, jvp or FakeTensorMode make of an operation, and what a tracer writes down of it, torch does
where it dispatches the operation, so such a call runs the model itself.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from inferno.errors import InputError

log = logging.getLogger(__name__)

level = torch._C._functorch.maybe_current_level
modes = torch._C._len_torch_dispatch_stack
tracing = torch._C._get_tracing_state
forward_levels = forward_ad.__dict__  # the number of the current one, -1 outside, is its "_current_level"

_PLAIN = {torch.Tensor, Parameter, torch.nn.Buffer}


def why_traced(args: Iterable[Any] = ()) -> str | None:
    """Why not even Dynamo may compile a call with these arguments; None where it may."""
    if modes():
        return f"a {type(_get_current_dispatch_mode_stack()[-1]).__name__} is active"
    if tracing() is not None:
        return "torch.jit.trace records it"
    if level() is not None and _interpreter() == "functionalize":
        return _transform()
    return "an argument is a FakeTensor" if FakeTensor in map(type, args) else None


def why_eager(leaves: Iterable[Any] = ()) -> str | None:
    """Why a call with these arguments has to run the model itself; None where compiled kernels may."""
    if (reason := why_traced()) is not None:
        return reason
    if level() is not None:
        return _transform()
    dual = forward_levels["_current_level"] >= 0
    leaves = list(leaves)
    if not dual and _PLAIN.issuperset(map(type, leaves)):
        return None
    for leaf in leaves:
        kind = type(leaf)
        if kind is torch.fx.Proxy:
            return "torch.fx traces it"
        if kind not in _PLAIN and isinstance(leaf, torch.Tensor):
            return f"an argument is a {kind.__name__}"
        if has_tangent((leaf,)):
            return "an argument has a tangent"
    return None


def has_tangent(leaves: Iterable[Any]) -> bool:
    """Whether one of a call's arguments has a tangent at the current level of forward-mode differentiation."""
    return forward_levels["_current_level"] >= 0 and any(isinstance(v, torch.Tensor) and forward_ad.unpack_dual(v).tangent is not None for v in leaves)


def is_about_numbers(leaves: Iterable[Any]) -> bool:
    """Whether a call that Dynamo has compiled, under a mode or at a level of forward-mode differentiation, is one that kernels know all of."""
    return not has_tangent(leaves) and not any(isinstance(m, FakeTensorMode) for m in _get_current_dispatch_mode_stack())


def _transform() -> str:
    return f"a transform of torch.func, {_interpreter()}, is active"


def _interpreter() -> str:
    return torch._C._functorch.peek_interpreter_stack().key().name.lower()


def in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its numbers at an address that kernels may read: 16-byte aligned, contiguous where it was.  What is negated or conjugated
    only when it is read, and zeros of which there are none in memory, are written out.  InputError for a tensor without data."""
    if type(tensor) is FakeTensor:
        raise InputError("a FakeTensor came where compiled kernels run: it has no data; call under its mode, or call the original model")
    if tensor._is_zerotensor() or tensor.is_neg() or tensor.is_conj():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def run_model(face: Any, reason: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of the model that ``face`` was compiled of, in eager.  InputError where eager is not allowed, or the model is not there."""
    recipe, model = face._recipe, face._model
    if recipe is None or not recipe.options["fallback"]:
        why = "it was compiled with fallback=False" if recipe is not None else "a package has no model"
        raise InputError(f"the call cannot run compiled kernels: {reason}; nor can it run the model in eager: {why}. Call the original model there")
    name = type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", type(model).__name__)
    if reason not in (said := face.__dict__.setdefault("_said", set())):
        said.add(reason)
        log.warning("%s runs in eager: %s", name, reason)
    return run_plain(model, args, kwargs)


def run_plain(model: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The model's own call, in eager."""
    return _plain(model)(*args, **kwargs)


def _plain(model: Any) -> Callable:
    """What computes the model, without its hooks, which have run."""
    if isinstance(model, torch.export.ExportedProgram):
        return model.module()
    return model.forward if isinstance(model, torch.nn.Module) else model

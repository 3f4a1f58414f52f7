"""A user's model as an nn.Module, and the names and sizes of its arguments as the user has them."""

import inspect
import itertools
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from inferno.capture.python_state import walk
from inferno.capture.signature import names_of
from inferno.errors import InputError


def of_parameters(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any) -> Any:
    """``dynamic_shapes`` as the module's ``forward`` has its parameters: that of a function takes ``*args, **kwargs``."""
    if dynamic_shapes is None or not isinstance(module, Function):
        return dynamic_shapes
    if isinstance(dynamic_shapes, dict):
        names = list(inspect.signature(module.function).parameters)
        positional = tuple(dynamic_shapes.get(name) for name in names[: len(args)])
        named = {name: dynamic_shapes.get(name) for name in kwargs}
    else:
        positional, named = tuple(dynamic_shapes)[: len(args)], dict(zip(kwargs, tuple(dynamic_shapes)[len(args) :]))
    return {"args": positional, "kwargs": named} if kwargs else {"args": positional}


class Function(torch.nn.Module):
    """A plain function as a module; modules that it closes over, names, or holds otherwise are submodules, so their parameters are found."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = _as_forward(function)
        self.tensors: dict[str, torch.Tensor] = {}
        for name, value in _held_by(function):
            if isinstance(value, torch.nn.Module):
                self.add_module(_unused(name.replace(".", "_"), self._modules), value)  # torch has no dots in a part's name
            else:
                self.tensors[_unused(name, self.tensors)] = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def modules_of(function: Callable) -> dict[str, torch.nn.Module]:
    """The modules that a function may read, by their names as parts of it."""
    return dict(Function(function).named_children())


def _held_by(function: Callable) -> Iterator[tuple[str, torch.nn.Module | torch.Tensor]]:
    """The modules and tensors that a function may read: what it closes over and names, the object whose method it is, and what these hold in turn."""
    for name, value, _ in walk({"self": function}, into_modules=False):
        if isinstance(value, (torch.nn.Module, torch.Tensor)):
            yield name, value


def _unused(name: str, used: Collection[str]) -> str:
    return next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if n not in used)


def _as_forward(function: Callable) -> Callable:
    """The function under the name that torch.export records lines for: it keeps the frames called ``forward`` alone."""
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    same = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    same.__kwdefaults__ = function.__kwdefaults__
    return same


def as_module(model: Any) -> torch.nn.Module:
    """The model as an nn.Module; InputError for what is none and cannot be called."""
    if isinstance(model, torch.nn.Module):
        return model
    if not callable(model):
        raise InputError(f"model: expected an nn.Module, a function or an ExportedProgram, got {type(model).__name__}")
    return Function(model)


def parameters(model: Any) -> inspect.Signature | None:
    """How the user calls the model; None where Python does not know."""
    if isinstance(model, ExportedProgram):
        return None
    try:
        return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    except (TypeError, ValueError):
        return None


def leaf_names(model: Any, args: tuple, kwargs: dict[str, Any], count: int) -> list[str]:
    """A name for each leaf of the inputs, as the user would write it: ``x``, ``batch['ids']``."""
    names = names_of(parameters(model), args, kwargs)
    return names if len(names) == count else [f"input {i}" for i in range(count)]

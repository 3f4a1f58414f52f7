"""Can the model be called with the example inputs?  A model that torch.export cannot trace is left to Dynamo, which would fail at the first call only."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from inferno.errors import InputError


def check_examples(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """InputError where there are too many arguments, too few, or ones of other names.  What the model makes of their values is found at the capture."""
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise InputError(f"kwargs: expected a dict of keyword arguments by their names, got {type(kwargs).__name__} {kwargs!r:.100}")
    parameters = _parameters(model)
    try:
        if parameters is not None:
            parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the example inputs do not fit the model's signature {parameters}: {error}; pass what the model is called with") from error


def _parameters(model: Any) -> inspect.Signature | None:
    """What a call takes; None where that is not known: hooks may change it, and so may a ``__call__`` of a class's own."""
    if isinstance(model, torch.export.ExportedProgram):
        return None
    if isinstance(model, torch.nn.Module):
        if model._forward_pre_hooks or type(model).__call__ is not torch.nn.Module.__call__:
            return None
        model = model.forward
    try:
        return inspect.signature(model, follow_wrapped=False)  # a decorator may take more than what it wraps
    except (TypeError, ValueError):
        return None

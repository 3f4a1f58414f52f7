"""Are the sizes that a user lets vary sizes of the example?  What torch.export would refuse, by the argument's name and before anything is traced: a model
that it refuses is captured in several graphs, whose sizes are the example's."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from inferno.errors import OptionError


def check_dynamic_shapes(model: Any, args: tuple, kwargs: Mapping[str, Any], given: Any) -> None:
    """OptionError for what does not fit the example; what torch alone can tell of is left to it."""
    if given is None or isinstance(model, torch.export.ExportedProgram):
        return
    if not isinstance(given, (dict, tuple, list)):
        raise _misfit("", "a dict by the arguments' names, or a tuple with an entry for each argument", type(given).__name__)
    parameters = _parameters(model)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][: len(args)]
    values = {**dict(zip(names, args)), **kwargs}
    if len(values) < len(args) + len(kwargs):  # (``*args``, which have no names)
        return
    if isinstance(given, dict):
        for name in given:
            if name not in values and all(name != p.name for p in parameters):
                raise _misfit("", f"names of the arguments, {', '.join(values)}", repr(name))
    elif len(given) < len(values) or any(entry is not None for entry in given[len(values):]):
        raise _misfit("", f"an entry for each of the {len(values)} arguments, None where nothing varies", f"{len(given)} entries")
    for name, entry in given.items() if isinstance(given, dict) else zip(values, given):
        if name in values:
            _check(name, values[name], entry)


def _parameters(model: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).parameters.values())
    except (TypeError, ValueError):
        return []


def _check(name: str, value: Any, entry: Any) -> None:
    if isinstance(value, dict) and isinstance(entry, dict):
        for key in value.keys() & entry.keys():
            _check(f"{name}[{key!r}]", value[key], entry[key])
    elif isinstance(value, (tuple, list)) and isinstance(entry, (tuple, list)) and len(value) == len(entry):
        for number, (part, inner) in enumerate(zip(value, entry)):
            _check(f"{name}[{number}]", part, inner)
    if entry is None or not isinstance(value, torch.Tensor):
        return
    if not isinstance(entry, (dict, tuple, list)):
        raise _misfit(name, "a dict of dimensions, as {0: torch.export.Dim('batch')}, or None", repr(entry))
    if not isinstance(entry, dict) and len(entry) != value.dim():
        raise _misfit(name, f"an entry for each of its {value.dim()} dimensions", f"{len(entry)} entries")
    for dim, size in entry.items() if isinstance(entry, dict) else enumerate(entry):
        if not isinstance(dim, int) or not -value.dim() <= dim < value.dim():
            raise _misfit(name, f"numbers of its {value.dim()} dimensions", repr(dim))
        if isinstance(size, (str, float, dict, tuple, list)):
            raise _misfit(name, f"torch.export.Dim('batch'), a number or None for dimension {dim}", repr(size))
        actual = value.shape[dim]
        low, high = (size, size) if isinstance(size, int) else (getattr(size, "min", None), getattr(size, "max", None))
        if isinstance(low, int) and isinstance(high, int) and not low <= actual <= high:
            raise _misfit(name, f"a range of dimension {dim} with the example's size, {actual}, in it", str(low) if low == high else f"{low} to {high}")


def _misfit(name: str, expected: str, got: str) -> OptionError:
    return OptionError(f"dynamic_shapes{f' of {name}' if name else ''}: expected {expected}, got {got}")

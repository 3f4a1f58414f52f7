"""What a model's ``forward`` changes in Python: attributes, lists and dictionaries of its modules and of the objects that they hold.

A graph has tensors alone, so its program would leave a counter as it was, and read the tensor that a call has left behind as that of the
example.  So a forward that is traced is watched: what it has changed is named, for another way of capturing, and put back, since compiling
changes no model.  A value that is equal to the one before is no change, and a table that the first call makes of no input is none either:
the program makes it at each call.
"""

import collections
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from inferno.capture.nodes import is_library

# What torch keeps in a module: tensors, which the graph has, and hooks.
_OF_TORCH = frozenset((*torch.nn.Module().__dict__, "_flat_weights", "_flat_weight_refs")) - {"training"}
_EQUAL = (
    bool, int, float, complex, str, bytes, type(None), type, range, slice, frozenset, torch.dtype, torch.device, torch.layout, torch.memory_format,
    types.BuiltinFunctionType, types.ModuleType, types.FunctionType, types.MethodType,
)
_LISTS, _DICTIONARIES = (list, collections.deque), (dict, collections.OrderedDict, collections.defaultdict)  # these alone: others' are their own
_FOREIGN = (sys.stdlib_module_names - {"types"}) | {"torch", "numpy", "functorch"}  # packages whose objects are no state of a model's
_MOST = 100_000  # what is looked at: a model that holds more holds data
_DEEP = 8  # containers in each other that are compared; deeper ones count as different
_ABSENT, _BUFFER = object(), object()
_IN_PLACE = {"__setitem__", *(f"__i{o}__" for o in "add sub mul matmul truediv div floordiv mod pow lshift rshift and xor or".split())}
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")  # those that a call runs
FORWARD_HOOKS, _BACKWARD_HOOKS = ([k for k in torch.nn.Module().__dict__ if k.startswith(way) and "hooks" in k] for way in ("_forward", "_backward"))


@dataclass(frozen=True, eq=False)
class _Globals:
    """The global names of a function's module that it reads or sets."""

    names: dict[str, Any]
    read: frozenset[str]


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parameters, buffers or submodules of a module.  Another tensor for a buffer is a result of the graph."""

    names: dict[str, Any]
    buffers: bool


@dataclass(frozen=True, eq=False)
class Change:
    """Another ``value`` of what a user calls ``name``: that of ``key`` in ``holder``."""

    name: str
    holder: Any
    key: Any
    value: Any

    @property
    def is_number(self) -> bool:
        """Whether it is a number, text, or several of them, of which a program has no more than what its graph says."""
        return all(isinstance(v, _EQUAL) for v in tree_leaves(self.value)) and _names(self.holder) is not None

    @property
    def falls_out(self) -> bool:
        """Whether it is of a queue of limited length, of which Dynamo keeps what falls out (torch 2.13, with any backend)."""
        return any(isinstance(v, collections.deque) and v.maxlen is not None for v in (self.holder, self.value))

    def within(self, holder: Any, other: Any) -> "Change":
        """The same of ``other`` where it is one of ``holder``."""
        return replace(self, holder=other) if self.holder is holder else self

    def make(self) -> None:
        _names(self.holder)[self.key] = self.value


def walk(roots: dict[str, Any], into_modules: bool = True) -> Iterator[tuple[str, Any, Any]]:
    """All that ``roots`` hold, once each, in the order in which it is met: the name that a user knows it by, it, and what it holds in turn (see ``_held``)."""
    seen: dict[int, Any] = {}
    todo = list(reversed(roots.items()))
    while todo and len(seen) < _MOST:
        name, value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        held = _held(value)
        yield name, value, held
        if into_modules or not isinstance(value, torch.nn.Module):
            todo.extend(reversed(list(_within(name, value, held))))


class PythonState:
    """What ``roots``, by the names that a user knows them by, hold when this is made."""

    def __init__(self, roots: dict[str, Any]) -> None:
        self._held: list[tuple[str, Any, Any]] = []
        self._hooks: list[tuple[dict[int, Any], dict[int, Any]]] = []
        for name, value, held in walk(roots):
            if held is not None:
                self._held.append((name, value, held))
            if isinstance(value, torch.nn.Module):
                self._hooks += [(table, dict(table)) for table in map(value.__dict__.get, (*FORWARD_HOOKS, *_BACKWARD_HOOKS)) if table is not None]

    def changes(self, computed: Callable[[Tensor], bool]) -> list[Change]:
        """What is otherwise now; ``computed``: whether a tensor is made of what a call is given or the model holds."""
        return [c for name, holder, before in self._held for c in _differences(name, holder, before, _held(holder), computed)]

    def restore(self) -> None:
        for table, before in self._hooks:
            if table != before:
                table.clear()
                table.update(before)
        for _, holder, before in self._held:
            names = _names(holder)
            if names is not None:
                for key in _held(holder).keys() - before.keys():
                    del names[key]
                names.update({k: v for k, v in before.items() if not _is_of_torch(holder, v) and names.get(k, _ABSENT) is not v})
            elif isinstance(holder, types.CellType):
                holder.cell_contents = before[0]
            elif type(holder) is set:
                holder ^= holder ^ before
            elif len(holder) != len(before) or any(a is not b for a, b in zip(holder, before)):
                holder.clear()
                holder.extend(before)


class Computed:
    """Which tensors are computed from others than constants: by their memory, of all calls that are noted, which are looked at when it is asked."""

    def __init__(self, *tensors: Any) -> None:
        self._memory: dict[int, Any] = {}
        self._calls: list[tuple[Callable, tuple, dict[str, Any], Any]] = []
        self._given = tensors

    def note(self, function: Callable, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Note a call of a function of torch's."""
        self._calls.append((function, args, kwargs, result))

    def __call__(self, tensor: Tensor) -> bool:
        self._add(self._given)
        for function, args, kwargs, result in self._calls:
            if any(map(self._is_in, tensors_of((args, kwargs)))) or "rand" in getattr(function, "__name__", ""):
                self._add(result)
                self._add(written_by(function, args, kwargs))
        self._calls, self._given = [], ()
        return self._is_in(tensor)

    def _add(self, values: Any) -> None:
        for tensor in tensors_of((values,)):
            if tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                self._memory[storage._cdata] = storage  # held, so that nothing else comes to lie there

    def _is_in(self, tensor: Tensor) -> bool:
        return tensor.layout is not torch.strided or tensor.untyped_storage()._cdata in self._memory


def tensors_of(values: Iterable[Any]) -> Iterator[Tensor]:
    """Those among a call's arguments or results: a walk over all kinds of nests takes four times as long."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, dict):
            yield from tensors_of(value.values())


def written_by(function: Callable, args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that a call of a function of torch's writes to, by its name."""
    name = getattr(function, "__name__", "")
    in_place = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return list(tensors_of((args[0] if in_place and args else None, kwargs.get("out"))))


def _held(value: Any) -> Any:
    """A copy of what a holder holds, one level deep; None for what holds nothing that may change."""
    if isinstance(value, torch.nn.Module):
        return None if _is_foreign(value) else {k: v for k, v in value.__dict__.items() if k not in _OF_TORCH}
    if isinstance(value, _Globals):
        return {k: value.names[k] for k in value.read if k in value.names}
    if isinstance(value, _Parts):
        return {k: _BUFFER if value.buffers and v is not None else v for k, v in value.names.items()}
    if isinstance(value, types.CellType):
        try:
            return [value.cell_contents]
        except ValueError:  # nothing is bound yet
            return None
    if type(value) in _DICTIONARIES:
        return dict(value)
    if type(value) in _LISTS:
        return list(value)
    if type(value) is set:
        return set(value)
    if isinstance(value, (*_EQUAL, Tensor, tuple)) or _is_foreign(value):
        return None
    attributes = getattr(value, "__dict__", None)
    return dict(attributes) if isinstance(attributes, dict) else None


def _names(holder: Any) -> dict[Any, Any] | None:
    """The dictionary of what a holder holds by names; None for others."""
    if type(holder) in _DICTIONARIES:
        return holder
    if isinstance(holder, (_Globals, _Parts)):
        return holder.names
    return None if type(holder) in (*_LISTS, set, types.CellType) else holder.__dict__


def _is_of_torch(holder: Any, value: Any) -> bool:
    """Whether torch.export puts it back itself: meanwhile others are in the place of a module's tensors."""
    return isinstance(holder, _Parts) and (value is _BUFFER or isinstance(value, Tensor))


def _is_foreign(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _FOREIGN


def _within(name: str, value: Any, held: Any) -> Iterator[tuple[str, Any]]:
    """What may hold state in turn, with the names of it."""
    if isinstance(value, torch.nn.Module):
        yield from ((name, _Parts(table, table is value._buffers)) for table in (value._parameters, value._buffers, value._modules))
        yield name, type(value).forward
        yield from ((f"a hook of {name}", hook) for table in map(value.__dict__.get, _HOOKS) for hook in (table or {}).values())
    if isinstance(value, types.MethodType):
        yield name, value.__self__
        yield name, value.__func__
    if isinstance(value, types.FunctionType) and is_library(value.__code__.co_filename):
        yield name, getattr(value, "__wrapped__", None)  # a user's, that torch.no_grad or functools.wraps decorates
    elif isinstance(value, types.FunctionType):
        yield from zip(value.__code__.co_freevars, value.__closure__ or ())
        yield "", _Globals(value.__globals__, frozenset(_names_in(value.__code__)))
    if isinstance(value, functools.partial):
        yield name, value.func
        yield from zip((f"argument {i} of a partial" for i in range(len(value.args))), value.args)
        yield from value.keywords.items()
    if isinstance(value, tuple):
        held = list(value)
    if isinstance(held, dict):
        yield from ((f"{name}{_part(value, k)}", v) for k, v in held.items())
    elif isinstance(held, list):
        yield from ((name if isinstance(value, types.CellType) else f"{name}[{i}]", v) for i, v in enumerate(held))


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names that a function and those within it read or set."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


def _part(holder: Any, key: Any) -> str:
    return f"[{key!r}]" if type(holder) in _DICTIONARIES else str(key) if isinstance(holder, _Globals) else f".{key}"


def _differences(name: str, holder: Any, before: Any, now: Any, computed: Callable[[Tensor], bool]) -> Iterator[Change]:
    if isinstance(before, dict):
        for key in dict.fromkeys((*before, *now)):
            value = now.get(key, _ABSENT)
            if not _same(before.get(key, _ABSENT), value, computed):
                yield Change(f"{name}{_part(holder, key)}", holder, key, value)
    elif isinstance(before, list) and len(before) == len(now):
        for i, (a, b) in enumerate(zip(before, now)):
            if not _same(a, b, computed):
                yield Change(name if isinstance(holder, types.CellType) else f"{name}[{i}]", holder, i, b)
    elif before != now:
        yield Change(name, holder, None, _ABSENT)


def _same(a: Any, b: Any, computed: Callable[[Tensor], bool], depth: int = 0) -> bool:
    if a is b:
        return True
    if isinstance(b, Tensor):
        return (a is None or a is _ABSENT) and not computed(b)
    if a is _ABSENT and isinstance(b, (types.FunctionType, types.MethodType)):
        return True
    if type(a) is not type(b) or depth > _DEEP:
        return False
    if isinstance(a, _EQUAL):
        return a == b or (a != a and b != b)
    if isinstance(a, tuple) or type(a) in _LISTS:
        return len(a) == len(b) and all(_same(x, y, computed, depth + 1) for x, y in zip(a, b))
    x, y = _held(a), _held(b)
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(_same(v, y[k], computed, depth + 1) for k, v in x.items())
    return x is not None and isinstance(x, set) and x == y


def same_programs(a: ExportedProgram, b: ExportedProgram) -> bool:
    """Whether two programs compute the same."""
    same = a.constants.keys() == b.constants.keys() and all(
        isinstance(v, Tensor) and isinstance(w := b.constants[k], Tensor) and v.dtype == w.dtype and torch.equal(v, w) for k, v in a.constants.items()
    )
    return same and str(a.graph) == str(b.graph) and str(a.graph_signature) == str(b.graph_signature)

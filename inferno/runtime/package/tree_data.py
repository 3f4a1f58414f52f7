"""Nests of containers, and the constants in them, as plain data.

Containers are tuples, lists, dictionaries (of str and int keys, ordered or not), named tuples, and classes with fields: a
dataclass that torch knows, a Hugging Face ModelOutput.  A file cannot bring its classes along, so where a nest is read back a
named tuple is one of the same name and fields, made anew, and a class with fields is a ``Record``.
"""

import collections
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, register_pytree_node, tree_structure

from inferno.errors import PackageError

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_KINDS = {"float": float, "dtype": torch.dtype, "device": torch.device, "layout": torch.layout, "memory_format": torch.memory_format}


class Record(dict):
    """Values by field: ``r.logits``, ``r["logits"]`` or ``r[0]``; fields that are absent are None as attributes."""

    absent: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in self.absent:
            return None
        raise AttributeError(f"no field {name!r}; the fields are {', '.join(self)}")

    def __getitem__(self, key: Any) -> Any:
        return self.to_tuple()[key] if isinstance(key, (int, slice)) else super().__getitem__(key)

    def to_tuple(self) -> tuple:
        """The values, in order."""
        return tuple(self.values())


def _make_record(values: Sequence[Any], context: tuple[tuple[str, ...], tuple[str, ...]]) -> Record:
    record = Record(zip(context[0], values))
    record.__dict__["absent"] = context[1]
    return record


register_pytree_node(
    Record, lambda r: (list(r.values()), (tuple(r), r.absent)), _make_record, serialized_type_name="inferno.runtime.package.tree_data.Record",
)


def encode_tree(spec: TreeSpec, what: str) -> Any:
    """A structure as data: None for a leaf, else its kind, names and parts.  PackageError names a type that has no such form."""
    if spec.is_leaf():
        return None
    children = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    parts = [encode_tree(c, what) for c in children]
    type_, context = spec.type, spec.context
    if type_ is collections.namedtuple:
        type_ = context
    if type_ in (tuple, list):
        return {"kind": type_.__name__, "parts": parts}
    if type_ in (dict, collections.OrderedDict):
        if any(type(k) not in (str, int) for k in context):
            raise PackageError(f"{what}: a dictionary with keys {list(context)!r:.100}; a package keeps str and int keys alone")
        return {"kind": "dict" if type_ is dict else "ordered", "names": list(context), "parts": parts}
    if type_ is Record:
        return {"kind": "record", "names": list(context[0]), "absent": list(context[1]), "parts": parts}
    names = _field_names(type_, context, len(parts))
    if names is None:
        raise PackageError(
            f"{what}: a {getattr(type_, '__module__', '')}.{getattr(type_, '__qualname__', type_)} has no form in a package; "
            f"use tuples, lists, dictionaries, named tuples or dataclasses, or compile a function that unpacks it"
        )
    if issubclass(type_, tuple):
        return {"kind": "named", "name": type_.__name__, "names": names[0], "parts": parts}
    return {"kind": "record", "names": names[0], "absent": names[1], "parts": parts}


def _field_names(type_: Any, context: Any, count: int) -> tuple[list[str], list[str]] | None:
    """(names of the parts, names of fields that hold nothing) of a class with fields; None if it is none."""
    if not isinstance(type_, type):
        return None
    if issubclass(type_, tuple):
        names, absent = getattr(type_, "_fields", None) or getattr(type_, "__match_args__", ()), []
        if not hasattr(type_, "_fields"):  # torch.return_types are of C, and may have fields that are no sequence's items
            names = names[:count]
    elif hasattr(type_, "__dataclass_fields__"):
        every = list(type_.__dataclass_fields__)
        if issubclass(type_, dict):  # a ModelOutput: its context is its keys
            names = context
        else:  # torch.export.register_dataclass: its context is (names, names of those that are None)
            names = context[0] if isinstance(context, (tuple, list)) and len(context) == 2 else ()
        absent = [n for n in every if n not in names] if isinstance(names, (list, tuple)) else []
    else:
        return None
    fits = isinstance(names, (list, tuple)) and len(names) == count and all(isinstance(n, str) for n in names)
    return (list(names), absent) if fits else None


def decode_tree(data: Any, plain: bool = False) -> TreeSpec:
    """The structure of ``encode_tree``; with ``plain`` named tuples are tuples and records dictionaries, as inputs are given."""
    return tree_structure(_nest(data, plain, 50))


def _nest(data: Any, plain: bool, depth: int) -> Any:
    """An object of the structure, whose leaves are all 0."""
    if data is None:
        return 0
    if depth == 0:
        raise PackageError("a nest is too deep")
    if type(data) is not dict or type(data.get("parts")) is not list:
        raise PackageError(f"a nest holds {data!r:.60}")
    kind, names = data.get("kind"), data.get("names")
    if kind not in ("tuple", "list", "dict", "ordered", "named", "record"):
        raise PackageError(f"a nest has a container of kind {kind!r:.60}")
    parts = [_nest(p, plain, depth - 1) for p in data["parts"]]
    if kind in ("tuple", "list"):
        return tuple(parts) if kind == "tuple" else parts
    if type(names) is not list or len(names) != len(parts) or any(type(n) not in (str, int) for n in names) or len(set(names)) != len(names):
        raise PackageError(f"a nest has the names {names!r:.100} for {len(parts)} parts")
    if kind in ("dict", "ordered"):
        return dict(zip(names, parts)) if kind == "dict" else collections.OrderedDict(zip(names, parts))
    absent = data.get("absent", [])
    if not all(type(n) is str and _NAME.fullmatch(n) for n in [*names, *absent, data.get("name", "name")]):
        raise PackageError(f"a nest has fields {names!r:.100}, which are no names")
    if kind == "named":
        return tuple(parts) if plain else _named(data["name"], tuple(names))(*parts)
    return dict(zip(names, parts)) if plain else _make_record(parts, (tuple(names), tuple(absent)))


def _named(name: str, fields: tuple[str, ...]) -> Callable[..., tuple]:
    try:
        return collections.namedtuple(name, fields)
    except ValueError as error:
        raise PackageError(f"a named tuple {name} of {', '.join(fields)}: {error}") from error


def encode_constant(value: Any, what: str) -> Any:
    """A constant as data; PackageError names one that has no such form."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex() if math.isfinite(value) else repr(value)}
    for kind, type_ in _KINDS.items():
        if type(value) is type_:
            return {kind: str(value).removeprefix("torch.")}
    raise PackageError(f"{what}: the program was compiled for {value!r:.80}, and a {type(value).__name__} has no form in a package")


def decode_constant(data: Any) -> Any:
    """The constant of ``encode_constant``."""
    if data is None or type(data) in (bool, int, str):
        return data
    if type(data) is dict and len(data) == 1:
        (kind, text), = data.items()
        try:
            if kind == "float":
                return float.fromhex(text) if "0x" in text else float(text)
            if kind == "device":
                return torch.device(text)
            value = getattr(torch, text)
            if kind in _KINDS and type(value) is _KINDS[kind]:
                return value
        except (ValueError, TypeError, AttributeError, RuntimeError):
            pass
    raise PackageError(f"a constant is {data!r:.60}")

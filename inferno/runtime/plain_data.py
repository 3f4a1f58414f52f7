"""Frozen dataclasses as plain data, such as JSON has, and back, led by the fields' type annotations.

Each is a dictionary with its class's name under ``is``, without the fields that have their default value.  Only the classes
that the annotations name are ever made, and a field of another type is an error.  Annotations may be dataclasses, tuples,
unions, ``dict[str, Any]`` of plain data, int, str, bool, float and None.
"""

import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from inferno.errors import PlanError
from inferno.symbolic import Apply, Size, Symbol

KIND = "is"
_HUGE = 2**63  # beyond int64, which a plan's numbers are
_DEEPEST = 20  # of nested lists in options
_SYMBOL = re.compile(r"s\d+", re.ASCII)


def to_data(value: Any) -> Any:
    """A plan, or a part of one, as dictionaries, lists, numbers, strings, booleans and None."""
    if is_dataclass(value):
        found = {KIND: type(value).__name__}
        for f in fields(value):
            part = getattr(value, f.name)
            if f.default is MISSING or part != f.default:
                found[f.name] = to_data(part)
        return found
    if isinstance(value, (tuple, list)):
        return [to_data(v) for v in value]
    if isinstance(value, dict):
        return {k: to_data(v) for k, v in value.items()}
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise PlanError(f"a plan holds a {type(value).__name__}, which is no plain data")


Reader = Callable[[Any, str], Any]


@cache
def reader(type_: Any) -> Reader:
    """The function (data, where) -> value for an annotation: a dataclass, a tuple, a union, ``dict[str, Any]``, int, str, ..."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if is_dataclass(type_):
        return _dataclass_reader(type_)
    if origin in (types.UnionType, typing.Union):
        return _union_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is dict and arguments == (str, Any):
        return _read_options
    if type_ in (int, str, bool, float, type(None)):
        return _scalar_reader(type_)
    raise TypeError(f"{type_} has no form as plain data")


def _dataclass_reader(class_: type) -> Reader:
    hints = typing.get_type_hints(class_, localns={"Size": Size})
    own = [f for f in fields(class_) if f.init]
    readers: dict[str, Reader] = {}  # made at the first use, since a class may hold itself
    needed = {f.name for f in own if f.default is MISSING and f.default_factory is MISSING}

    def read(data: Any, where: str) -> Any:
        if type(data) is not dict or data.get(KIND) != class_.__name__:
            raise PlanError(f"{where}: expected a {class_.__name__}, got {_short(data)}")
        if not readers:
            readers.update({f.name: reader(hints[f.name]) for f in own})
        values = {}
        for name, part in data.items():
            if name in readers:
                values[name] = readers[name](part, f"{where}.{name}")
            elif name != KIND:
                raise PlanError(f"{where}: unknown field {name!r} of a {class_.__name__}")
        missing = needed - values.keys()
        if missing:
            raise PlanError(f"{where}: a {class_.__name__} without {', '.join(sorted(missing))}")
        made = class_(**values)
        if isinstance(made, (Symbol, Apply)):
            _check_symbol(made, where)
        return made

    return read


def _check_symbol(part: Symbol | Apply, where: str) -> None:
    """Sizes become text of programs: their names must be names."""
    if isinstance(part, Symbol) and not _SYMBOL.fullmatch(part.name):
        raise PlanError(f"{where}: a symbol is called {part.name!r:.60}")
    if isinstance(part, Symbol) and not (0 <= part.low <= part.high and part.divisor >= 1):
        raise PlanError(f"{where}: symbol {part.name} is from {part.low} to {part.high} by {part.divisor}")
    if isinstance(part, Apply) and part.kind not in ("floordiv", "min", "max"):
        raise PlanError(f"{where}: a size is made by {part.kind!r:.60}")


def _union_reader(arguments: tuple) -> Reader:
    classes = {a.__name__: a for a in arguments if is_dataclass(a)}
    scalars = {a: reader(a) for a in arguments if not is_dataclass(a) and typing.get_origin(a) is None}
    tuples = [a for a in arguments if typing.get_origin(a) is tuple]
    if len(classes) + len(scalars) + len(tuples) != len(arguments) or len(tuples) > 1:
        raise TypeError(f"a union of {arguments} has no form as plain data")

    def read(data: Any, where: str) -> Any:
        if type(data) is dict and data.get(KIND) in classes:
            return reader(classes[data[KIND]])(data, where)
        if type(data) in scalars:
            return scalars[type(data)](data, where)
        if tuples and type(data) is list:
            return reader(tuples[0])(data, where)
        raise PlanError(f"{where}: expected {' or '.join(getattr(a, '__name__', str(a)) for a in arguments)}, got {_short(data)}")

    return read


def _tuple_reader(arguments: tuple) -> Reader:
    count = None if len(arguments) == 2 and arguments[1] is ... else len(arguments)
    parts: list[Reader] = []
    numbers = all(a is ... or a is int or int in typing.get_args(a) for a in arguments)

    def read(data: Any, where: str) -> tuple:
        if type(data) is not list or (count is not None and len(data) != count):
            raise PlanError(f"{where}: expected a list{'' if count is None else f' of {count}'}, got {_short(data)}")
        if numbers and {*map(type, data)} <= {int} and all(-_HUGE <= v < _HUGE for v in data):
            return tuple(data)  # nearly all there is in a plan
        if not parts:
            parts.extend(reader(a) for a in arguments if a is not ...)
        if count is None:
            part = parts[0]
            return tuple([part(v, where) for v in data])
        return tuple([part(v, where) for part, v in zip(parts, data)])

    return read


def _scalar_reader(type_: type) -> Reader:
    def read(data: Any, where: str) -> Any:
        if type(data) is type_ and (type_ is not int or -_HUGE <= data < _HUGE):
            return data
        raise PlanError(f"{where}: expected {type_.__name__}, got {_short(data)}")

    return read


def _read_options(data: Any, where: str) -> dict[str, Any]:
    if type(data) is not dict:
        raise PlanError(f"{where}: expected options by name, got {_short(data)}")
    return _plain(data, where, _DEEPEST)


def _plain(data: Any, where: str, depth: int) -> Any:
    if depth == 0:
        raise PlanError(f"{where}: it is nested too deeply")
    if type(data) is dict and data.get(KIND) == Size.__name__:  # a number that varies
        return reader(Size)(data, where)
    if type(data) is dict and all(type(k) is str for k in data):
        return {k: _plain(v, where, depth - 1) for k, v in data.items()}
    if type(data) is list:
        return [_plain(v, where, depth - 1) for v in data]
    if data is None or type(data) in (int, float, str, bool):
        return data
    raise PlanError(f"{where}: expected plain data, got {_short(data)}")


def _short(data: Any) -> str:
    if type(data) is dict:
        return f"a {data.get(KIND)}" if isinstance(data.get(KIND), str) else "a dictionary"
    return f"a list of {len(data)}" if type(data) is list else f"{data!r:.60}"

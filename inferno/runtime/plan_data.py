"""A launch plan as plain data, such as JSON has, and back; and what must be true of a plan that comes from a file.

The form follows the plan's dataclasses: each is a dictionary with its class's name under ``is``, without the fields that
have their default value.  Reading is led by the fields' type annotations, so only the classes that ``Plan`` can hold are
ever made, and a field of another type is an error.  ``check_plan`` then holds the numbers against each other.
"""

import math
import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any

from inferno.errors import PlanError
from inferno.runtime.plan import Buffer, Launch, Plan, TensorMap, at_sizes
from inferno.symbolic import Apply, Size, Symbol

KIND = "is"
ELEMENT_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui64": 8, "ui32": 4, "ui16": 2, "ui8": 1, "si8": 1,
    "i1": 1, "index": 8, "f8E4M3FN": 1, "f8E5M2": 1, "complex<f32>": 8, "complex<f64>": 16,
}
# What CUtensorMapDataType, the swizzles and promotions to L2 can be; bytes by element.
MAP_ELEMENTS = {
    "i8": 1, "ui8": 1, "ui16": 2, "ui32": 4, "i32": 4, "ui64": 8, "i64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2, "f32_ftz": 4, "tf32": 4,
}
MAP_SWIZZLES, MAP_PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)
# From the CUDA programming guide's table of limits; a cluster of more than 8 blocks is not portable, 16 is the most there is.
_MOST_GRID, _MOST_BLOCK, _MOST_THREADS, _MOST_CLUSTER = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024, 16
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


def plan_from_dict(data: Any) -> Plan:
    """The plan of ``Plan.as_dict()``; PlanError names the field that is missing, unknown or of another type."""
    try:
        return reader(Plan)(data, "plan")
    except RecursionError as error:
        raise PlanError("plan: it is nested too deeply") from error


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

    def read(data: Any, where: str) -> tuple:
        if type(data) is not list or (count is not None and len(data) != count):
            raise PlanError(f"{where}: expected a list{'' if count is None else f' of {count}'}, got {_short(data)}")
        if not parts:
            parts.extend(reader(a) for a in arguments if a is not ...)
        if count is None:
            part = parts[0]
            return tuple([part(v, where) for v in data])
        return tuple([part(v, where) for part, v in zip(parts, data)])

    return read


def _scalar_reader(type_: type) -> Reader:
    def read(data: Any, where: str) -> Any:
        if type(data) is type_ and (type_ is not int or -(2**63) <= data < 2**63):
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


def check_plan(plan: Plan, gpu: bool = True) -> None:
    """PlanError if the plan's numbers do not fit each other: a buffer outside its memory, an argument or result that does not
    exist, a launch that no GPU has, a tensor map beyond its buffer.  Of sizes that vary the example's are checked."""
    _Check(plan).run(gpu)
    try:
        example = at_sizes(plan, {s.name: s.hint for s in plan.symbols})
    except KeyError as error:
        raise PlanError(f"plan: a size is of {error}, which is not among its symbols") from error
    if plan.symbols:
        steps = tuple(s for s in example.steps if not isinstance(s, Launch) or 0 not in s.grid)
        _Check(replace(example, steps=steps)).run(gpu)


class _Check:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fresh = {i for i, o in enumerate(plan.outputs) if o.result == i}

    def run(self, gpu: bool) -> None:
        plan = self._plan
        if _known(plan.workspace_bytes) and plan.workspace_bytes < 0:
            raise PlanError(f"plan: its workspace has {plan.workspace_bytes} bytes")
        for i, argument in enumerate(plan.arguments):
            if (argument.place, argument.index) != ("argument", i):
                raise PlanError(f"argument {i}: it stands for {argument.place} {argument.index}")
            _bytes(argument.shape, argument.element, f"argument {i}")
        for i in range(len(plan.outputs)):
            self._output(i)
        for i, step in enumerate(plan.steps):
            where = f"step {i} ({step.kernel})" if step.kernel else f"step {i}"
            if isinstance(step, Launch) and gpu:
                _check_launch(step, where)
            for n, parameter in enumerate(step.parameters):
                self._parameter(parameter, f"{where}, parameter {n}")

    def _output(self, index: int) -> None:
        plan, output = self._plan, self._plan.outputs[index]
        where = f"result {index}"
        size = _bytes(output.shape, output.element, where)
        if (output.argument >= 0) == (output.result >= 0):
            raise PlanError(f"{where}: it is neither an argument's memory nor a result's, or both")
        if output.argument >= 0:
            owner = self._of(plan.arguments, output.argument, where, "argument")
        else:
            owner = self._of(plan.outputs, output.result, where, "result")
            if output.result not in self._fresh:
                raise PlanError(f"{where}: result {output.result} owns no memory")
        held = _bytes(owner.shape, owner.element, where)
        if size is not None and held is not None and size != held:
            raise PlanError(f"{where}: {size} bytes seen in a memory of {held}")

    def _parameter(self, parameter: Any, where: str) -> None:
        buffer = parameter.buffer if isinstance(parameter, TensorMap) else parameter
        if isinstance(buffer, Buffer):
            self._buffer(buffer, where)
        if isinstance(parameter, TensorMap):
            _check_map(parameter, where)

    def _buffer(self, buffer: Buffer, where: str) -> None:
        plan, size = self._plan, _bytes(buffer.shape, buffer.element, where)
        if buffer.place == "workspace":
            if not _known(buffer.index):
                return
            if buffer.index < 0 or buffer.index % 16:
                raise PlanError(f"{where}: offset {buffer.index} in the workspace; it must be a multiple of 16")
            if size is not None and _known(plan.workspace_bytes) and buffer.index + size > plan.workspace_bytes:
                raise PlanError(f"{where}: {size} bytes at {buffer.index} are not in a workspace of {plan.workspace_bytes}")
            return
        if buffer.place not in ("argument", "result"):
            raise PlanError(f"{where}: unknown place {buffer.place!r}; the places are argument, result and workspace")
        owner = self._of(plan.arguments if buffer.place == "argument" else plan.outputs, buffer.index, where, buffer.place)
        if buffer.place == "result" and buffer.index not in self._fresh:
            raise PlanError(f"{where}: result {buffer.index} owns no memory")
        held = _bytes(owner.shape, owner.element, where)
        if size is not None and held is not None and size > held:
            raise PlanError(f"{where}: {size} bytes of {buffer.place} {buffer.index}, which has {held}")

    @staticmethod
    def _of(things: tuple, index: int, where: str, what: str) -> Any:
        if not 0 <= index < len(things):
            raise PlanError(f"{where}: it refers to {what} {index}, and there are {len(things)}")
        return things[index]


def _check_launch(launch: Launch, where: str) -> None:
    module, mark, name = launch.kernel.partition("::")
    if not (module and mark and name):
        raise PlanError(f"{where}: kernel {launch.kernel!r}; expected module::function")
    for what, sizes, most in (("grid", launch.grid, _MOST_GRID), ("block", launch.block, _MOST_BLOCK), ("cluster", launch.cluster, (_MOST_CLUSTER,) * 3)):
        if any(_known(s) and not 1 <= s <= m for s, m in zip(sizes, most)):
            raise PlanError(f"{where}: {what} {sizes}; from 1 to {most} are possible")
    if all(_known(s) for s in launch.block) and math.prod(launch.block) > _MOST_THREADS:
        raise PlanError(f"{where}: {math.prod(launch.block)} threads a block; {_MOST_THREADS} are possible")
    if all(_known(s) for s in launch.cluster) and math.prod(launch.cluster) > _MOST_CLUSTER:
        raise PlanError(f"{where}: {math.prod(launch.cluster)} blocks a cluster; {_MOST_CLUSTER} are possible")
    if _known(launch.shared) and not 0 <= launch.shared < 2**20:
        raise PlanError(f"{where}: {launch.shared} bytes of shared memory")


def _check_map(map_: TensorMap, where: str) -> None:
    rank = len(map_.sizes)
    if not 1 <= rank <= 5 or len(map_.strides) != rank or len(map_.box) != rank:
        raise PlanError(f"{where}: a tensor map of {rank} sizes, {len(map_.strides)} strides and {len(map_.box)} box sizes; 1 to 5 of each")
    if map_.element not in MAP_ELEMENTS or map_.swizzle not in MAP_SWIZZLES or map_.l2 not in MAP_PROMOTIONS:
        raise PlanError(f"{where}: a tensor map of {map_.element}, swizzle {map_.swizzle}, promotion {map_.l2}, which the copy engine does not have")
    if any(not 1 <= b <= 256 for b in map_.box):
        raise PlanError(f"{where}: a tensor map's box {map_.box}; 1 to 256 are possible")
    if any(_known(s) and not 1 <= s <= 2**32 for s in map_.sizes):
        raise PlanError(f"{where}: a tensor map of sizes {map_.sizes}")
    if any(_known(s) and (s % 16 or not 0 <= s < 2**40) for s in map_.strides[1:]):
        raise PlanError(f"{where}: a tensor map of strides {map_.strides}; they must be multiples of 16")
    held = _bytes(map_.buffer.shape, map_.buffer.element, where)
    if held is not None and all(_known(v) for v in (*map_.sizes, *map_.strides)):
        size = MAP_ELEMENTS[map_.element]
        end = sum((n - 1) * s for n, s in zip(map_.sizes[1:], map_.strides[1:])) + map_.sizes[0] * size
        if end > held:
            raise PlanError(f"{where}: a tensor map over {end} bytes of a buffer that has {held}")


def _known(value: Any) -> bool:
    """Whether a size is a number when compiling; what varies is an expression."""
    return type(value) is int


def _bytes(shape: tuple, element: str, where: str) -> int | None:
    """Bytes of a buffer, None where its size varies."""
    if element not in ELEMENT_BYTES:
        raise PlanError(f"{where}: unknown element type {element!r}; the types are {', '.join(ELEMENT_BYTES)}")
    if any(_known(s) and s < 0 for s in shape):
        raise PlanError(f"{where}: shape {shape}")
    if not all(_known(s) for s in shape):
        return None
    size = math.prod(shape) * ELEMENT_BYTES[element]
    if size >= 2**62:
        raise PlanError(f"{where}: shape {shape} is of more bytes than there are")
    return size


__all__ = ["ELEMENT_BYTES", "check_plan", "plan_from_dict", "reader", "to_data"]

"""A launch plan as plain data, such as JSON has, and back; and what must be true of a plan that comes from a file.

The form is that of ``plain_data``: only the classes that ``Plan`` can hold are ever made.  ``check_plan`` then holds the numbers
against each other.
"""

import math
from dataclasses import replace
from typing import Any

from inferno.errors import PlanError
from inferno.library_matmul import FUNCTION, check_call
from inferno.pixel_limits import MOST_CHANNELS, MOST_PIXELS, MOST_STEP, fits_corner
from inferno.runtime.plain_data import reader, to_data
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, PixelMap, Plan, Preparation, TensorMap, at_sizes
from inferno.symbolic import Int, product

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


def plan_from_dict(data: Any) -> Plan:
    """The plan of ``Plan.as_dict()``; PlanError names the field that is missing, unknown or of another type."""
    try:
        return reader(Plan)(data, "plan")
    except RecursionError as error:
        raise PlanError("plan: it is nested too deeply") from error


def preparation_from_data(data: Any) -> Preparation:
    """As ``plan_from_dict``, of a Preparation."""
    try:
        return reader(Preparation)(data, "preparation")
    except RecursionError as error:
        raise PlanError("preparation: it is nested too deeply") from error


def check_plan(plan: Plan) -> None:
    """PlanError if the plan's numbers do not fit each other: a buffer outside its memory, an argument or result that does not
    exist, a launch that no GPU has, a tensor map beyond its buffer.  Of sizes that vary the example's are checked."""
    _Check(plan).run()
    try:
        example = at_sizes(plan, {s.name: s.hint for s in plan.symbols})
    except KeyError as error:
        raise PlanError(f"plan: a size is of {error}, which is not among its symbols") from error
    if plan.symbols:
        steps = tuple(s for s in example.steps if not isinstance(s, Launch) or 0 not in s.grid)
        _Check(replace(example, steps=steps)).run()


class _Check:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fresh = {i for i, o in enumerate(plan.outputs) if o.result == i}

    def run(self) -> None:
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
            if isinstance(step, Launch):
                _check_launch(step, where)
            for n, parameter in enumerate(step.parameters):
                self._parameter(parameter, f"{where}, parameter {n}")
            if isinstance(step, LibraryCall):
                _check_library(step, where)

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
        for argument in output.overwrites:
            other = self._of(plan.arguments, argument, where, "argument")
            if output.argument >= 0 or _extent(other.shape, other.element, where) != _extent(output.shape, output.element, where):
                raise PlanError(f"{where}: it cannot take the place of argument {argument}")

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
        if buffer.offset < 0 or buffer.offset % 16:
            raise PlanError(f"{where}: offset {buffer.offset} in {buffer.place} {buffer.index}; it must be a multiple of 16")
        if size is not None and held is not None and buffer.offset + size > held:
            behind = f" at {buffer.offset}" if buffer.offset else ""
            raise PlanError(f"{where}: {size} bytes{behind} of {buffer.place} {buffer.index}, which has {held}")

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
    buffers = [p for p in launch.parameters if isinstance(p, Buffer)]
    if launch.copies and (len(buffers) != 2 or any(isinstance(p, TensorMap) for p in launch.parameters)):
        raise PlanError(f"{where}: a copy has two buffers as its parameters")
    if launch.copies and len({_extent(p.shape, p.element, where) for p in buffers}) != 1:
        raise PlanError(f"{where}: a copy between buffers of different sizes")
    if _known(launch.shared) and not 0 <= launch.shared < 2**20:
        raise PlanError(f"{where}: {launch.shared} bytes of shared memory")


def _check_library(step: LibraryCall, where: str) -> None:
    if step.function != FUNCTION:
        raise PlanError(f"{where}: library function {step.function!r:.60}; on a GPU there is {FUNCTION}")
    if not all(isinstance(p, Buffer) and all(map(_known, p.shape)) for p in step.parameters):
        raise PlanError(f"{where}: {FUNCTION} takes buffers whose sizes are numbers")
    check_call(step.options, [(math.prod(p.shape), p.element) for p in step.parameters], where)


def _check_map(map_: TensorMap, where: str) -> None:
    rank = len(map_.sizes)
    if isinstance(map_, PixelMap):
        _check_pixels(map_, where)
    elif not 1 <= rank <= 5 or len(map_.strides) != rank or len(map_.box) != rank:
        raise PlanError(f"{where}: a tensor map of {rank} sizes, {len(map_.strides)} strides and {len(map_.box)} box sizes; 1 to 5 of each")
    if map_.element not in MAP_ELEMENTS or map_.swizzle not in MAP_SWIZZLES or map_.l2 not in MAP_PROMOTIONS:
        raise PlanError(f"{where}: a tensor map of {map_.element}, swizzle {map_.swizzle}, promotion {map_.l2}, which the copy engine does not have")
    if any(not 1 <= b <= 256 for b in map_.box) and not isinstance(map_, PixelMap):
        raise PlanError(f"{where}: a tensor map's box {map_.box}; 1 to 256 are possible")
    held = _bytes(map_.buffer.shape, map_.buffer.element, where)
    if any(_known(s) and not (held != 0) <= s <= 2**32 for s in map_.sizes):
        raise PlanError(f"{where}: a tensor map of sizes {map_.sizes}")
    if any(_known(s) and (s % 16 or not 0 <= s < 2**40) for s in map_.strides[1:]):
        raise PlanError(f"{where}: a tensor map of strides {map_.strides}; they must be multiples of 16")
    if held and all(_known(v) for v in (*map_.sizes, *map_.strides)):
        size = MAP_ELEMENTS[map_.element]
        end = sum((n - 1) * s for n, s in zip(map_.sizes[1:], map_.strides[1:])) + map_.sizes[0] * size
        if end > held:
            raise PlanError(f"{where}: a tensor map over {end} bytes of a buffer that has {held}")


def _check_pixels(map_: PixelMap, where: str) -> None:
    rank = len(map_.sizes)
    if not 3 <= rank <= 5 or len(map_.strides) != rank or {len(map_.lower), len(map_.upper), len(map_.steps)} != {rank - 2}:
        raise PlanError(f"{where}: a map of pixels of {rank} sizes, with corners {map_.lower}, {map_.upper} and steps {map_.steps}")
    if len(map_.box) != 2 or not 1 <= map_.box[0] <= MOST_CHANNELS or not 1 <= map_.box[1] <= MOST_PIXELS:
        raise PlanError(f"{where}: a map of pixels with box {map_.box}; 1 to {MOST_CHANNELS} channels of 1 to {MOST_PIXELS} pixels are possible")
    if not all(fits_corner(c, rank - 2) for c in (*map_.lower, *map_.upper)) or any(not 1 <= s <= MOST_STEP for s in map_.steps):
        raise PlanError(f"{where}: a map of pixels from {map_.lower} to {map_.upper} by {map_.steps}, which the copy engine does not have")
    if 0 not in map_.sizes and any(_known(n) and n + up - low < 1 for n, low, up in zip(map_.sizes[1:], map_.lower, map_.upper)):
        raise PlanError(f"{where}: a map of pixels of {map_.sizes} without any from {map_.lower} to {map_.upper}")


def _known(value: Any) -> bool:
    """Whether a size is a number when compiling; what varies is an expression."""
    return type(value) is int


def _extent(shape: tuple, element: str, where: str) -> Int:
    """Bytes of a buffer, an expression where its size varies."""
    if element not in ELEMENT_BYTES:
        raise PlanError(f"{where}: unknown element type {element!r}; the types are {', '.join(ELEMENT_BYTES)}")
    if any(_known(s) and s < 0 for s in shape):
        raise PlanError(f"{where}: shape {shape}")
    return product(shape) * ELEMENT_BYTES[element]


def _bytes(shape: tuple, element: str, where: str) -> int | None:
    """Bytes of a buffer, None where its size varies."""
    size = _extent(shape, element, where)
    if not all(_known(s) for s in shape):
        return None
    if size >= 2**62:
        raise PlanError(f"{where}: shape {shape} is of more bytes than there are")
    return size


__all__ = ["ELEMENT_BYTES", "check_plan", "plan_from_dict", "reader", "to_data"]

"""A launch plan run by Python: the same function of the same state as ``host``'s native code, where there is no compiler.

Everything that a launch is made of is laid out once: its configuration, and an array that points to its parameters'
values.  Equal parameters of all launches are one value, so a call writes each address once, makes a tensor map again only
where its buffer has moved, and then calls the driver once a launch: 1 us each.
"""

import ctypes
from collections.abc import Callable, Sequence

from inferno.runtime.host import (
    ARGUMENTS, EARLY, ELEMENTS, ERROR, PROMOTIONS, STEP, STREAM, SWIZZLES, WORKSPACE,
)
from inferno.runtime.plan import Buffer, Launch, Plan, TensorMap

MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of a CUtensorMap


class Config(ctypes.Structure):
    """CUlaunchConfig, as cuda.h has it."""

    _fields_ = [
        *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]


_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4,
)


def interpreter(
    plan: Plan, functions: Sequence[int], launch: int, encode: int, result_words: dict[int, int], early: bool,
) -> Callable[[int], None]:
    """The function of a state's address that launches every kernel of the plan; takes what ``host_program`` takes."""
    return _Interpreter(plan, functions, _LAUNCH(launch), _ENCODE(encode), result_words, early).run


class _Interpreter:
    def __init__(self, plan: Plan, functions: Sequence[int], launch: Callable, encode: Callable, result_words: dict[int, int], early: bool) -> None:
        self.steps: Sequence[Launch] = plan.steps
        self.functions, self.early = functions, early
        self._launch, self._encode, self._result_words = launch, encode, result_words
        self.values: dict[tuple[int, int], int] = {}  # (word of the state, bytes behind it) -> position among the values
        self.maps: dict[TensorMap, tuple[int, int]] = {}  # -> (position of its address among the values, first step that has it)
        for number, step in enumerate(plan.steps):
            for parameter in step.parameters:
                if isinstance(parameter, TensorMap):
                    self.maps.setdefault(parameter, (self.place(parameter.buffer), number))
                else:
                    self.place(parameter)
        self._state = ctypes.c_int64 * max(ARGUMENTS, 1 + max((w for w, _ in self.values), default=0))
        self._contexts: list[_Context] = []  # free ones; append and pop are atomic

    def place(self, buffer: Buffer) -> int:
        """The position of a buffer's address among the values."""
        if buffer.place == "workspace":
            key = WORKSPACE, buffer.index
        else:
            key = ARGUMENTS + buffer.index if buffer.place == "argument" else self._result_words[buffer.index], 0
        return self.values.setdefault(key, len(self.values))

    def run(self, base: int) -> None:
        """Launch everything on the stream of the state at ``base``; what fails leaves its code and step there."""
        try:
            context = self._contexts.pop()
        except IndexError:
            context = _Context(self)
        state = self._state.from_address(base)
        context.values[:] = [state[word] + offset for word, offset in self.values]
        error, step = self._make_maps(context)
        if not error:
            stream = state[STREAM]
            if stream != context.stream:
                context.set_stream(stream)
            launch = self._launch
            for step, arguments in enumerate(context.launches):  # noqa: B007
                error = launch(*arguments)
                if error:
                    break
        if error:
            state[ERROR], state[STEP] = error, step
        self._contexts.append(context)

    def _make_maps(self, context: "_Context") -> tuple[int, int]:
        """(error code, step) of making the tensor maps whose buffers are not where they were."""
        for slot, arguments, position, step in context.maps:
            address = context.values[position]
            if context.made.get(slot) != address:
                context.made.pop(slot, None)
                error = self._encode(slot, *arguments[:2], address, *arguments[2:])
                if error:
                    return error, step
                context.made[slot] = address
        return 0, 0


class _Context:
    """What one call at a time uses: the values of the parameters, and the launches that point to them."""

    def __init__(self, owner: _Interpreter) -> None:
        self.values = (ctypes.c_int64 * len(owner.values))()
        self.stream = 0
        self.made: dict[int, int] = {}  # a tensor map's slot -> the address that it was made for
        first = ctypes.addressof(self.values)
        self._memory = ctypes.create_string_buffer(MAP_BYTES * len(owner.maps) + MAP_ALIGNMENT)
        maps = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        slots = {map_: maps + MAP_BYTES * i for i, map_ in enumerate(owner.maps)}
        self._kept: list = []  # what addresses point to
        self.maps = [(slots[m], self._map_arguments(m), position, step) for m, (position, step) in owner.maps.items()]
        self._attribute = (ctypes.c_uint64 * 9)(EARLY, 1)
        self._configs: list[Config] = []
        self.launches: list[tuple] = []
        for step, function in zip(owner.steps, owner.functions):
            config = Config(*step.grid, *step.block, step.shared, 0, ctypes.addressof(self._attribute), int(owner.early))
            places = [slots[p] if isinstance(p, TensorMap) else first + 8 * owner.place(p) for p in step.parameters]
            parameters = (ctypes.c_void_p * max(1, len(places)))(*places)
            self._kept.append(parameters)
            self._configs.append(config)
            self.launches.append((ctypes.addressof(config), function, ctypes.addressof(parameters), None))

    def set_stream(self, stream: int) -> None:
        self.stream = stream
        for config in self._configs:
            config.stream = stream

    def _map_arguments(self, map_: TensorMap) -> tuple:
        """The driver's arguments behind the slot, but for the address, which comes third."""
        rank = len(map_.sizes)
        tables = [
            (ctypes.c_uint64 * rank)(*map_.sizes), (ctypes.c_uint64 * rank)(*map_.strides[1:]),
            (ctypes.c_uint32 * rank)(*map_.box), (ctypes.c_uint32 * rank)(*[1] * rank),
        ]
        self._kept += tables
        return (ELEMENTS[map_.element], rank, *map(ctypes.addressof, tables), 0, SWIZZLES[map_.swizzle], PROMOTIONS[map_.l2], 0)


__all__ = ["Config", "interpreter"]

"""The kernels' parameters of a plan, laid out once: for what launches a plan without native code.

Equal parameters of all launches are one value, so a call writes each address once, and makes a tensor map again only where its
buffer has moved.
"""

import ctypes
from collections.abc import Callable, Sequence

from inferno.runtime.launch.host import (
    ARGUMENTS, ELEMENTS, LEAST_SIZE, LEAST_STRIDE, PROMOTIONS, SWIZZLES, WORKSPACE, element_steps,
)
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, PixelMap, Plan, Scalar, TensorMap

_MAP_BYTES, _MAP_ALIGNMENT = 128, 64  # of a CUtensorMap


class Layout:
    """Which values there are, and who has them.  The plan's sizes must be numbers (``at_sizes``).

    ``values`` maps (word of the state, bytes behind the address there), or (-1, a number), to a position; ``maps`` maps a tensor map to (position of
    its address, first step that has it); ``users`` has, for each position, the steps whose parameters depend on it.
    """

    def __init__(self, plan: Plan, result_words: dict[int, int]) -> None:
        self.steps: Sequence[Launch | LibraryCall] = plan.steps
        self.values: dict[tuple[int, int], int] = {}
        self.maps: dict[TensorMap, tuple[int, int]] = {}
        self.users: list[list[int]] = []
        self._result_words = result_words
        for number, step in enumerate(plan.steps):
            for parameter in step.parameters:
                buffer = parameter.buffer if isinstance(parameter, TensorMap) else parameter
                position = self.position(buffer)
                if position == len(self.users):
                    self.users.append([])
                if number not in self.users[position][-1:]:
                    self.users[position].append(number)
                if isinstance(parameter, TensorMap):
                    self.maps.setdefault(parameter, (position, number))
        self.words = max(ARGUMENTS, 1 + max((word for word, _ in self.values), default=0))  # of the state that are looked at

    def position(self, buffer: Buffer | Scalar) -> int:
        """The position of a buffer's address, or of a number, among the values."""
        if isinstance(buffer, Scalar):
            key = -1, buffer.value
        elif buffer.place == "workspace":
            key = WORKSPACE, buffer.index
        else:
            key = ARGUMENTS + buffer.index if buffer.place == "argument" else self._result_words[buffer.index], buffer.offset
        return self.values.setdefault(key, len(self.values))

    def positions(self, step: LibraryCall) -> list[int]:
        """The positions of a library call's operands."""
        return [self.position(p) for p in step.parameters]


class Parameters:
    """The memory of one layout's values; ``pointers`` has, for each step, the address of the array that points to its parameters.

    For one thread at a time.
    """

    def __init__(self, layout: Layout) -> None:
        self.values = (ctypes.c_int64 * len(layout.values))()
        self._sources = list(layout.values)
        self._made: dict[int, int] = {}  # a tensor map's slot -> the address that it was made for
        first = ctypes.addressof(self.values)
        self._memory = ctypes.create_string_buffer(_MAP_BYTES * len(layout.maps) + _MAP_ALIGNMENT)
        maps = -(-ctypes.addressof(self._memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        slots = {map_: maps + _MAP_BYTES * i for i, map_ in enumerate(layout.maps)}
        self._kept: list = []  # what addresses point to
        self._maps = [(slots[m], self._map_arguments(m), position, step) for m, (position, step) in layout.maps.items()]
        self.pointers: list[int] = []
        for step in layout.steps:
            places = [slots[p] if isinstance(p, TensorMap) else first + 8 * layout.position(p) for p in step.parameters]
            array = (ctypes.c_void_p * max(1, len(places)))(*places)
            self._kept.append(array)
            self.pointers.append(ctypes.addressof(array))

    def read(self, state: Sequence[int]) -> list[int]:
        """The values of a call's state."""
        return [state[word] + offset if word >= 0 else offset for word, offset in self._sources]

    def make_maps(self, encode: Callable[..., int]) -> tuple[int, int]:
        """Make the tensor maps whose buffers are not where they were; (error code, step), the code 0 where there is none.

        A buffer that is nowhere, which one without elements may be, has no map.
        """
        for slot, arguments, position, step in self._maps:
            address = self.values[position]
            if address and self._made.get(slot) != address:
                self._made.pop(slot, None)
                error = encode(slot, *arguments[:2], address, *arguments[2:])
                if error:
                    return error, step
                self._made[slot] = address
        return 0, 0

    def _map_arguments(self, map_: TensorMap) -> tuple:
        """The driver's arguments behind the slot, but for the address, which comes third."""
        rank, pixels = len(map_.sizes), isinstance(map_, PixelMap)
        sizes, strides = map_.sizes, map_.strides[1:]
        if 0 in sizes:
            sizes, strides = [max(n, LEAST_SIZE) for n in sizes], [max(n, LEAST_STRIDE) for n in strides]
        tables = [(ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * rank)(*strides)]
        if pixels:
            tables += [(ctypes.c_int32 * rank)(*map_.lower), (ctypes.c_int32 * rank)(*map_.upper)]
        else:
            tables.append((ctypes.c_uint32 * rank)(*map_.box))
        steps = (ctypes.c_uint32 * rank)(*(element_steps(map_)))
        self._kept += [*tables, steps]
        box = map_.box if pixels else ()
        return (
            ELEMENTS[map_.element], rank, *map(ctypes.addressof, tables), *box, ctypes.addressof(steps), 0, SWIZZLES[map_.swizzle],
            PROMOTIONS[map_.l2], 0,
        )


_TILED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4,
)  # cuTensorMapEncodeTiled
_PIXELS = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, *[ctypes.c_void_p] * 5, *[ctypes.c_uint] * 2, ctypes.c_void_p, *[ctypes.c_int] * 4,
)  # cuTensorMapEncodeIm2col


def encoder(tiled: int, pixels: int = 0) -> Callable[..., int]:
    """A function of either of these functions' arguments that calls the one that takes so many; ``tiled`` and ``pixels`` are their addresses."""
    functions = {len(f.argtypes): f for f in (_TILED(tiled), _PIXELS(pixels))}
    return lambda *arguments: functions[len(arguments)](*arguments)


__all__ = ["Layout", "Parameters", "encoder"]

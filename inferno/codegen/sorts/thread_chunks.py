"""How contiguous memory is distributed over a block's threads, so many neighbours each.

Where that is a vector, each thread reads and writes its own.  Where it is more, or no power of two, neighbouring threads' vectors would lie apart, and an
access be of parts of many lines: then a block's threads read and write all of it as it lies, and take their own from shared memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, gpu, ir
from inferno.schedule.sorts.short_sorts import is_access
from inferno.symbolic import Int, bounds, is_multiple

_VECTOR, _LINE = 16, 128  # bytes


@dataclass(frozen=True)
class Chunks:
    """``count`` elements of each of a block's ``threads``, of ``total`` in memory.  ``held`` is their type in registers and in shared memory, of which
    ``shared`` is an array of ``size(...)``; in memory whole numbers may be wider."""

    ints: Integers
    block: Integer
    thread: Integer
    threads: int
    count: int
    total: Int
    held: ir.Type
    shared: ir.Value | None

    @staticmethod
    def is_direct(count: int, element: ir.Type) -> bool:
        """Whether a thread's elements are one access."""
        return is_access(count * element.width // 8)

    @staticmethod
    def size(count: int, threads: int) -> int:
        """Elements of the array in shared memory."""
        return threads * count * 9 // 8 + _VECTOR

    def read(self, buffer: ir.Value) -> list[ir.Value]:
        """The thread's own; behind the end, the last one."""
        ints, element = self.ints, self.held
        if self.is_direct(self.count, element):
            type_ = ir.VectorType.get([self.count], element)
            vector = self._both(lambda: [as_vector(load_vector(ints, buffer, self.first, element, self.count, self.count), self.count)],
                                lambda: [join(self._single(buffer))], [type_])
            return lanes_of(vector[0])
        self._both(lambda: self._bring(buffer), lambda: self._put(self._single(buffer)), [])
        gpu.barrier()
        width = self._width
        return [x for i in range(0, self.count, width) for x in lanes_of(self._shared_vector(self.mine, i, width))]

    def write(self, values: Sequence[ir.Value], buffers: Sequence[tuple[ir.Value, ir.Type]]) -> None:
        """The thread's own to buffers, of elements of a type; what others have read is not there any more."""
        if not all(self.is_direct(self.count, element) for _, element in buffers):
            self._put(values)
            gpu.barrier()
        for buffer, element in buffers:
            direct = self.is_direct(self.count, element)
            self._both(partial(self._store if direct else self._take, values, buffer, element), partial(self._store_single, values, buffer, element), [])

    # Whole blocks, and the last one.

    @property
    def first(self) -> Integer:
        """The thread's first element in memory."""
        ints = self.ints
        return ints.mul(ints.add(ints.mul(self.block, self.threads), self.thread), self.count)

    @property
    def mine(self) -> Integer:
        """And in shared memory."""
        return self.ints.mul(self.thread, self.count)

    def _both(self, whole: Callable, part: Callable, types: list[ir.Type]) -> list[ir.Value]:
        """What the first does where all of a block's elements are there; of the last block, whose are not, the second."""
        each = self.threads * self.count
        blocks, whole_blocks = self.total // each, is_multiple(self.total, each)
        if whole_blocks or bounds(blocks)[1] == 0:
            return whole() if whole_blocks else part()
        return if_else(self.ints.less(self.block, blocks), types, whole, part)

    def _single(self, buffer: ir.Value) -> list[ir.Value]:
        return [load(self.ints, buffer, self.ints.min(self.ints.add(self.first, i), self.total - 1), self.held) for i in range(self.count)]

    def _store(self, values: Sequence[ir.Value], buffer: ir.Value, element: ir.Type) -> None:
        store_vector(self.ints, _wide(join(values), element), buffer, self.first, self.count)

    def _store_single(self, values: Sequence[ir.Value], buffer: ir.Value, element: ir.Type) -> None:
        for i, value in enumerate(values):
            place = self.ints.add(self.first, i)
            with only_if(self.ints.less(place, self.total)):
                store(self.ints, _wide(value, element), buffer, place)

    # Shared memory.

    @property
    def _width(self) -> int:
        """Elements that a thread reads or writes there at once."""
        return gcd(self.count, _VECTOR * 8 // self.held.width)

    def _bring(self, buffer: ir.Value) -> None:
        """All of a block to shared memory."""
        ints, found = self.ints, []
        width, turns, first = self._vectors(self.held)
        for there, plus in turns:
            # Behind a block's end is the next one's beginning, and behind the last one's nothing.
            at, plus = (first, plus) if there is None else (ints.min(ints.add(first, plus), self.total // width * width - width), 0)
            found.append(load_vector(ints, buffer, at, self.held, width, width, plus))
        for (there, plus), value in zip(turns, found):
            with only_if(there):
                self._store_shared(value, ints.mul(self.thread, width), plus)

    def _take(self, _: Sequence[ir.Value], buffer: ir.Value, element: ir.Type) -> None:
        """All of a block from there."""
        width, turns, first = self._vectors(element)
        for there, plus in turns:
            with only_if(there):
                value = self._shared_vector(self.ints.mul(self.thread, width), plus, width)
                store_vector(self.ints, _wide(value, element), buffer, first, width, plus)

    def _vectors(self, element: ir.Type) -> tuple[int, list[tuple[ir.Value | None, int]], Integer]:
        """Elements of a vector in memory; for each that a thread has of a block's whether it is there, if that is not known, and how far it is behind the
        first; and where that is."""
        ints, width, turns = self.ints, _VECTOR * 8 // element.width, []
        for i in range(-(-self.count // width)):
            whole = (i + 1) * width <= self.count
            turns.append((None if whole else ints.less(self.thread, self.threads * (self.count - i * width) // width), i * self.threads * width))
        return width, turns, ints.add(ints.mul(self.block, self.threads * self.count), ints.mul(self.thread, width))

    def _put(self, values: Sequence[ir.Value]) -> None:
        width = self._width
        for i in range(0, self.count, width):
            self._store_shared(join(values[i:i + width]), self.mine, i)

    def _shared_vector(self, first: Integer, plus: int, width: int) -> ir.Value:
        at, plus = self._at(first, plus)
        return as_vector(load_vector(self.ints, self.shared, at, self.held, width, width, plus), width)

    def _store_shared(self, value: ir.Value, first: Integer, plus: int) -> None:
        at, plus = self._at(first, plus)
        store_vector(self.ints, as_vector(value, 1), self.shared, at, ir.VectorType(value.type).shape[0], plus)

    def _at(self, first: Integer, plus: int) -> tuple[Integer, int]:
        """Where an element is: where threads' vectors would be in the same banks, behind a gap for each line in front of it."""
        ints, bits = self.ints, self.held.width
        if self.count * bits // 8 % (2 * _VECTOR):
            return first, plus
        line, gap = _LINE * 8 // bits, _VECTOR * 8 // bits
        if plus % line and self.count % line and line % self.count:  # a thread's elements begin anywhere in a line
            first, plus = ints.add(first, plus), 0
        return ints.add(first, ints.mul(ints.div(first, line), gap)), plus + plus // line * gap


def _wide(value: ir.Value, element: ir.Type) -> ir.Value:
    """Elements, or a vector of some, as they are in memory."""
    vector = isinstance(value.type, ir.VectorType)
    if (value.type.element_type if vector else value.type) == element:
        return value
    return arith.extui(ir.VectorType.get(value.type.shape, element) if vector else element, value)

"""Elements of tensors in global memory by llvm pointers, one or a few neighbours at a time; booleans are bytes in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferno.codegen.builders.elements import from_memory, join, lanes_of, to_memory
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.builder import Words, advance, integer_type, operation, store, widen_pointer
from inferno.element_sizes import element_bytes
from inferno.mlir import ir
from inferno.powers import last_power_of_two
from inferno.symbolic import Int


@dataclass(frozen=True)
class Elements:
    """A tensor at ``base`` with elements of type ``element``.  Offsets are in elements, not negative and below 2^31.

    An offset comes in two parts: a value, and a constant that becomes the access's immediate.
    """

    words: Words
    base: ir.Value
    element: ir.Type
    readonly: bool = True

    def moved(self, at: Sequence[Integer], strides: Sequence[Int], offset: Int = 0) -> "Elements":
        """The elements from this place on, which may be farther away than offsets of 32 bits reach."""
        words = self.words
        wide = Integers(64, {symbol: words.widen(value) for symbol, value in words.symbols.items()})
        begin = wide.value(wide.dot([words.widen(x) for x in at], strides, offset))
        return replace(self, base=advance(self.base, begin, stored_type(self.element)))

    def pointer(self, offset: Integer, plus: int = 0) -> ir.Value:
        return widen_pointer(self.words, self.base, offset, plus * element_bytes(self.element), stored_type(self.element))

    def read(self, offset: Integer, plus: int = 0, lanes: int = 1, aligned: int = 1) -> ir.Value:
        """The element there, or a vector of ``lanes`` neighbours of which every run of ``aligned`` is aligned."""
        size, stored = element_bytes(self.element), stored_type(self.element)
        width = _width(size, lanes, aligned)
        parts = []
        for i in range(0, lanes, width):
            type_ = stored if width == 1 else ir.VectorType.get([width], stored)
            attributes = {"invariant": ir.UnitAttr.get()} if self.readonly else {}
            alignment = ir.IntegerAttr.get(integer_type(64), size * width)
            parts.append(operation("llvm.load", [type_], [self.pointer(offset, plus + i)], alignment=alignment, **attributes))
        value = parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])
        return from_memory(value, self.element)

    def write(self, value: ir.Value, offset: Integer, plus: int = 0, aligned: int = 1) -> None:
        """Store a scalar, or a vector's lanes to neighbours."""
        size, value = element_bytes(self.element), to_memory(value)
        if not isinstance(value.type, ir.VectorType):
            store(value, self.pointer(offset, plus), size)
            return
        lanes = ir.VectorType(value.type).shape[0]
        width = _width(size, lanes, aligned)
        for i in range(0, lanes, width):
            each = lanes_of(value)[i:i + width] if width < lanes else []
            part = value if not each else each[0] if width == 1 else join(each)
            store(part, self.pointer(offset, plus + i), size * width)


def _width(size: int, lanes: int, aligned: int) -> int:
    """Elements of one access: a power of 2, at most 16 bytes."""
    return last_power_of_two(min(lanes, aligned, 16 // size))

"""A kernel that computes an operand of a contraction to a temporary that the copy engine can read.

For operands whose strides the copy engine refuses, that lie across the tensor core's order, or that have a prologue which is
to be computed once and not for every tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, device_kernel, integer_type, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.tiles.tiling import Source, main_read
from inferno.symbolic import Int, Symbol, ceildiv, is_multiple, product

THREADS = 256  # of a block


@dataclass(frozen=True)
class OperandCopy:
    """Each thread computes the ``lanes`` elements of 16 bytes of the temporary."""

    operand: Operand
    source: Source

    @property
    def lanes(self) -> int:
        return 16 // (self.operand.element.width // 8)

    @property
    def arguments(self) -> list[int]:
        """The kernel function's arguments that are read, as the first parameters; the next one is the temporary."""
        return sorted({a.argument for a in self.operand.reads})

    @property
    def blocks(self) -> Int:
        return ceildiv(product(self.source.shape), self.lanes * THREADS)

    def emit(self, module: ir.Block, name: str, symbols: Sequence[Symbol]) -> None:
        """Add the kernel ``@name`` to the block of a gpu.module; ``symbols`` are its last parameters."""
        pointers = [READ_BUFFER] * len(self.arguments) + [WRITTEN_BUFFER]
        with device_kernel(module, name, [*pointers, *["i64"] * len(symbols)], THREADS) as device:
            words = Words({})
            for symbol, value in zip(symbols, device.parameters[len(pointers):]):
                words.symbols[symbol] = arith.trunci(words.type, value)
            bases = dict(zip(self.arguments, device.parameters))
            item = words.add(words.mul(special_register("ctaid.x"), THREADS), special_register("tid.x"))
            with only_if(words.less(item, product(self.source.shape) // self.lanes)):
                self.item(words, item, bases, device.parameters[len(self.arguments)])

    def item(self, words: Words, item: Integer, bases: dict[int, ir.Value], target: ir.Value) -> None:
        inner, outer = self.source.axes[:2]
        lines = self.source.shape[-1] // self.lanes
        rest = [a.size for a in reversed(self.source.axes[2:])]
        main = main_read(self.operand)
        # Neighbouring threads read neighbouring elements, also where those are a line apart in the temporary.
        if inner.stride(main) != 1 and outer.stride(main) == 1:
            *others, line, row = words.split(item, [*rest, lines, outer.size])
        else:
            *others, row, line = words.split(item, [*rest, outer.size, lines])
        first = words.mul(line, self.lanes)
        coordinates = [first, row, *reversed(others)]
        values = [self.read(words, a, bases, coordinates) for a in self.operand.reads]
        value = self.compute(values)
        strides = self.source.strides
        Elements(words, target, self.operand.element).write(
            as_vector(value, self.lanes), words.dot(coordinates, strides), aligned=self.lanes,
        )

    def read(self, words: Words, access: Access, bases: dict[int, ir.Value], coordinates: Sequence[Integer]) -> ir.Value:
        """The elements of an input for one vector of the temporary; behind the end of a line the line's last one."""
        inner, tensor = self.source.axes[0], Elements(words, bases[access.argument], access.element)
        others = [a.stride(access) for a in self.source.axes[1:]]
        step, offset = inner.stride(access), words.dot(list(coordinates[1:]), others, access.offset)
        if step == 0:
            return tensor.read(offset)
        if not is_multiple(inner.size, self.lanes):
            places = [words.min(words.add(coordinates[0], i), inner.size - 1) for i in range(self.lanes)]
            return join([tensor.read(words.add(offset, words.mul(p, step))) for p in places])
        offset = words.add(offset, words.mul(coordinates[0], step))
        if not isinstance(step, int):
            return join([tensor.read(words.add(offset, i * step)) for i in range(self.lanes)])
        if step > 1:
            return join([tensor.read(offset, i * step) for i in range(self.lanes)])
        aligned = self.lanes
        while not all(is_multiple(x, aligned) for x in (access.offset, *others)):
            aligned //= 2
        return tensor.read(offset, 0, self.lanes, aligned)

    def compute(self, values: Sequence[ir.Value]) -> ir.Value:
        prologue = self.operand.prologue
        if prologue is None:
            return values[0]
        rest = iter(values)
        unused = arith.constant(integer_type(1), 0)
        arguments = [unused if s is None else next(rest) for s in prologue.sources]
        return inline_body(prologue.block, arguments, (), self.lanes)[0]

"""Sizes that vary as ``index`` values, computed of the symbols that a function has as arguments, where builders take them."""

from collections.abc import Sequence

from inferno.mlir import arith, ir
from inferno.passes.shapes import number, shape, symbol_arguments
from inferno.size_forms import build
from inferno.symbolic import Int, Symbol, bounds


def materialise(size: Int, symbols: dict[Symbol, ir.Value]) -> ir.Value:
    """The size as an ``index`` value, computed at the insertion point of the values of its symbols."""
    index = ir.IndexType.get()

    def apply(kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
        if kind == "floordiv":
            return arith.divui(a, b if _positive(b) else arith.maxsi(b, arith.constant(index, 1)))
        return arith.minsi(a, b) if kind == "min" else arith.maxsi(a, b)

    def constant(c: int) -> ir.Value:
        return arith.constant(index, c)

    return build(size, lambda s: symbols[s], arith.addi, arith.muli, apply, constant)


def _positive(value: ir.Value) -> bool:
    found = number(value)
    return found is not None and bounds(found)[0] >= 1


def sizes(value: ir.Value, function: ir.Operation) -> list[int | ir.Value]:
    """The sizes of a tensor as builders take them: numbers, and values computed at the insertion point."""
    return mixed(shape(value), function)


def mixed(sizes_: Sequence[Int], function: ir.Operation) -> list[int | ir.Value]:
    """Sizes as builders take them."""
    if all(isinstance(s, int) for s in sizes_):
        return list(sizes_)
    symbols = symbol_arguments(function)
    return [s if isinstance(s, int) else materialise(s, symbols) for s in sizes_]



class SizeValues:
    """The sizes of a function that vary, each computed once, at its top."""

    def __init__(self, function: ir.Operation) -> None:
        self._function = function
        self._symbols: dict[Symbol, ir.Value] | None = None
        self._values: dict[Int, ir.Value] = {}

    def get(self, size: Int) -> int | ir.Value:
        """The size as builders take it: a number, or a value."""
        if isinstance(size, int):
            return size
        if size not in self._values:
            if self._symbols is None:
                self._symbols = symbol_arguments(self._function)
            place = ir.InsertionPoint.at_block_begin(self._function.regions[0].blocks[0])
            with place, ir.Location.unknown(self._function.context):
                self._values[size] = materialise(size, self._symbols)
        return self._values[size]

"""Index arithmetic in i32 or i64, with constants folded while building: an integer is a Python int, a size that varies, or an SSA value.

Everything is non-negative in the end, so divisions are unsigned; LLVM turns those by constants into multiplications.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferno.mlir import arith, gpu, ir
from inferno.size_forms import build
from inferno.symbolic import Int, Size, Symbol, minimum

Integer = int | Size | ir.Value
_KNOWN = (int, Size)


def resize(value: ir.Value, width: int) -> ir.Value:
    """A whole number that is not negative in so many bits."""
    if value.type.width == width:
        return value
    return (arith.extui if value.type.width < width else arith.trunci)(ir.IntegerType.get_signless(width), value)


@dataclass(frozen=True)
class Integers:
    """Builds at the current insertion point; ``width`` is 32 wherever all offsets fit, 64 otherwise.  ``symbols`` are the values of
    the symbols of sizes, in the same width: a Size is computed of them where it meets a value."""

    width: int = 32
    symbols: Mapping[Symbol, ir.Value] = field(default_factory=dict)

    @property
    def type(self) -> ir.Type:
        return ir.IntegerType.get_signless(self.width)

    def value(self, x: Integer) -> ir.Value:
        if isinstance(x, int):
            return arith.constant(self.type, x)
        return self._computed(x) if isinstance(x, Size) else x

    def _computed(self, size: Size) -> ir.Value:
        def apply(kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
            if kind == "floordiv":
                return arith.divui(a, arith.maxui(b, arith.constant(self.type, 1)))
            return arith.minsi(a, b) if kind == "min" else arith.maxsi(a, b)

        return build(size, lambda s: self.symbols[s], arith.addi, arith.muli, apply, lambda c: arith.constant(self.type, c))

    def add(self, a: Integer, b: Integer) -> Integer:
        if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        return a if isinstance(b, int) and b == 0 else arith.addi(self.value(a), self.value(b))

    def sub(self, a: Integer, b: Integer) -> Integer:
        if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
            return a - b
        return a if isinstance(b, int) and b == 0 else arith.subi(self.value(a), self.value(b))

    def mul(self, a: Integer, b: Integer) -> Integer:
        if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return arith.muli(self.value(a), self.value(b))

    def div(self, a: Integer, b: int | Size) -> Integer:
        if isinstance(a, _KNOWN):
            return a // b
        return a if isinstance(b, int) and b == 1 else arith.divui(a, self.value(b))

    def rem(self, a: Integer, b: int | Size) -> Integer:
        if isinstance(a, _KNOWN):
            return a % b
        return 0 if isinstance(b, int) and b == 1 else arith.remui(a, self.value(b))

    def less(self, a: Integer, b: Integer) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.ult, self.value(a), self.value(b))

    def equal(self, a: Integer, b: Integer) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, self.value(a), self.value(b))

    def min(self, a: Integer, b: Integer) -> Integer:
        if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
            return minimum(a, b)
        return arith.minui(self.value(a), self.value(b))

    def dot(self, values: list[Integer], strides: Sequence[Int], offset: Int = 0) -> Integer:
        """``offset + sum(values * strides)``."""
        total: Integer = offset
        for v, s in zip(values, strides):
            total = self.add(total, self.mul(v, s))
        return total

    def split(self, value: Integer, sizes: Sequence[Int]) -> list[Integer]:
        """Row-major coordinates of flat position ``value`` in a box; the outermost size is not checked."""
        coordinates: list[Integer] = []
        for size in reversed(sizes[1:]):
            coordinates.append(self.rem(value, size))
            value = self.div(value, size)
        return [value, *reversed(coordinates)] if sizes else []

    def index(self, x: Integer, plus: int = 0) -> ir.Value:
        """``x + plus`` as an ``index``, for a memory access.

        The constant is added after widening, where LLVM can make it the access's immediate offset.
        """
        index = ir.IndexType.get()
        if isinstance(x, int):
            return arith.constant(index, x + plus)
        wide = arith.index_castui(index, self.value(x))
        return arith.addi(wide, arith.constant(index, plus)) if plus else wide

    def thread(self, threads: int) -> ir.Value:
        """The number of this thread in its block of ``threads``."""
        return self.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=threads, results=[ir.IndexType.get()]).result)

    def block(self) -> ir.Value:
        """The number of this block in the grid."""
        return self.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[ir.IndexType.get()]).result)

    def word(self, x: Integer) -> ir.Value:
        """``x`` in 32 bits."""
        value = self.value(x)
        return value if self.width == 32 else arith.trunci(ir.IntegerType.get_signless(32), value)

    def narrow(self, x: ir.Value) -> ir.Value:
        """An ``index`` value as an integer of this width."""
        return arith.index_cast(self.type, x)

"""Indices into tables in the width of a kernel's arithmetic: a sum of multiples of what they are computed of, and a constant.

The body of an operation computes indices in 64 bits, compares them and reads by them: LLVM then keeps the wide one beside a narrow copy of each, and does not
see that two elements lie in one vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, constant_number, ir, owner, vector
from inferno.symbolic import Int

_DEPTH = 8  # operations


@dataclass
class Offsets:
    """Of one kernel: sums that were computed before in the same block are the same values, whatever the constants beside them."""

    ints: Integers
    known: dict[frozenset[tuple[ir.Value, int]], list[tuple[ir.Block, Integer]]] = field(default_factory=dict)

    def of(self, where: Sequence[ir.Value], strides: Sequence[Int], lane: int = 0) -> tuple[Integer, int]:
        """A place of a table, the lane of vectors that is asked for: what varies of it, and the constant."""
        terms: dict[ir.Value, int] = {}
        constant, varying = 0, 0
        for value, stride in zip(where, strides):
            if isinstance(stride, int):
                constant += stride * self.add(terms, value, lane, stride)
            else:
                varying = self.ints.add(varying, self.ints.mul(self.narrow(value, lane), stride))
        half, whole = 1 << (self.ints.width - 1), 1 << self.ints.width
        terms = {v: (by + half) % whole - half for v, by in terms.items() if by}
        return self.ints.add(self.sum(terms), varying), (constant + half) % whole - half

    def add(self, terms: dict[ir.Value, int], value: ir.Value, lane: int | None, by: int, depth: int = _DEPTH) -> int:
        """Add ``by`` times ``value`` but for a constant, which is returned.  Sums and products are right in any width, up to what does not fit into it."""
        op = owner(value)
        name = op.name if op is not None and depth else ""
        if name in ("arith.addi", "arith.subi"):
            first = self.add(terms, op.operands[0], lane, by, depth - 1)
            sign = 1 if name == "arith.addi" else -1
            return first + sign * self.add(terms, op.operands[1], lane, sign * by, depth - 1)
        if name == "arith.muli":
            for factor, other in (op.operands, reversed(list(op.operands))):
                number = _number(factor)
                if number is not None:
                    return number * self.add(terms, other, lane, number * by, depth - 1)
        if name == "vector.broadcast" and not isinstance(op.operands[0].type, ir.VectorType):
            return self.add(terms, op.operands[0], None, by, depth - 1)
        if name == "vector.from_elements" and lane is not None:
            return self.add(terms, op.operands[lane], None, by, depth - 1)
        if name in ("arith.index_cast", "arith.index_castui") and self.fits(op.operands[0].type):
            return self.add(terms, op.operands[0], lane, by, depth - 1)
        if (number := _number(value)) is not None:
            return number
        value = self.narrow(value, lane)
        terms[value] = terms.get(value, 0) + by
        return 0

    def narrow(self, value: ir.Value, lane: int | None) -> ir.Value:
        if isinstance(value.type, ir.VectorType):
            value = vector.ExtractOp(value, [], [lane]).result
        if isinstance(value.type, ir.IndexType):
            return self.ints.narrow(value)
        return value if value.type == self.ints.type else arith.trunci(self.ints.type, value)

    def fits(self, type_: ir.Type) -> bool:
        """Whether integers, or vectors of them, are at least as wide."""
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        return isinstance(element, ir.IntegerType) and element.width >= self.ints.width

    def sum(self, terms: dict[ir.Value, int]) -> Integer:
        here, made = ir.InsertionPoint.current.block, self.known.setdefault(frozenset(terms.items()), [])
        found = next((v for block, v in made if block == here), None)
        if found is None:
            found = self.ints.dot(list(terms), list(terms.values()))
            made.append((here, found))
        return found


def _number(value: ir.Value) -> int | None:
    """The constant that a number, or each lane of a vector, is."""
    op = owner(value)
    if op is not None and op.name == "vector.broadcast":
        value = op.operands[0]
    return constant_number(value)

"""What is known while code is written of the whole numbers in the lanes of a vector: ``modulus * t + residues[i]``, for some t that is the same in all.

Which lanes take a branch, and which of them lie in one aligned vector of memory, follows from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from inferno.mlir import arith, ir, owner


@dataclass(frozen=True)
class Pattern:
    """Lane i is ``modulus * t + residues[i]`` with a whole t; a modulus of 0 says that the lanes are the residues.  ``natural``: no lane is negative.
    ``most``: the largest t, of which 0 is the smallest, if that is known."""

    modulus: int
    residues: tuple[int, ...]
    natural: bool = True
    most: int | None = None

    @property
    def same(self) -> bool:
        """Whether all lanes are one number."""
        return len(set(self.residues)) == 1

    def plus(self, other: "Pattern", sign: int = 1) -> "Pattern":
        residues = tuple(a + sign * b for a, b in zip(self.residues, other.residues))
        natural = sign > 0 and self.natural and other.natural
        most = self.most if other.modulus == 0 else other.most if self.modulus == 0 and sign > 0 else None
        return Pattern(gcd(self.modulus, other.modulus), residues, natural, most)

    def times(self, factor: int) -> "Pattern":
        return Pattern(self.modulus * abs(factor), tuple(factor * r for r in self.residues), factor >= 0 and self.natural, self.most if factor > 0 else None)

    def over(self, divisor: int) -> "Pattern | None":
        """Divided by a positive number."""
        if self.natural and self.modulus % divisor == 0:
            return Pattern(self.modulus // divisor, tuple(r // divisor for r in self.residues), True, self.most)
        if self.same or self._in_one(divisor):
            return uniform(len(self.residues))
        return None

    def modulo(self, divisor: int) -> "Pattern | None":
        """The remainder by a positive number."""
        if self.natural and self.modulus % divisor == 0:
            return Pattern(0, tuple(r % divisor for r in self.residues))
        if self._in_one(divisor):
            return self
        return uniform(len(self.residues)) if self.same else None

    def _in_one(self, divisor: int) -> bool:
        """Whether no multiple of ``divisor`` lies between the lanes."""
        return self.natural and self.modulus != 0 and divisor % self.modulus == 0 and all(0 <= r < self.modulus for r in self.residues)

    def below(self, bound: int) -> "Condition":
        """Whether lanes, as numbers without a sign, are below ``bound``."""
        if self.modulus == 0:
            return Condition(tuple(0 <= r < bound for r in self.residues))
        changes = [(-(r // self.modulus), -((r - bound) // self.modulus)) for r in self.residues]  # the t from which on it is so, and is no longer
        if all(c == changes[0] for c in changes):
            return Condition((None,) * len(changes), True)
        if self.most is None:
            return Condition((None,) * len(changes))
        return Condition(tuple(
            True if begin <= 0 and end > self.most else False if begin > self.most or end <= 0 else None for begin, end in changes
        ))


@dataclass(frozen=True)
class Condition:
    """What is known of a condition of each lane: None where it depends on what comes.  ``same``: it is the same in all lanes."""

    lanes: tuple[bool | None, ...]
    same: bool = False

    @property
    def known(self) -> bool:
        return None not in self.lanes


def uniform(lanes: int, most: int | None = None) -> Pattern:
    """Any one number in all lanes, from 0 to ``most``."""
    return Pattern(1, (0,) * lanes, True, most)


@dataclass
class Patterns:
    """``known``: what vectors of indices are."""

    known: Mapping[ir.Value, Pattern]

    def of(self, value: ir.Value, lanes: int) -> Pattern | None:
        """What the lanes of an index are; a scalar is in all of them."""
        if value in self.known:
            return self.known[value]
        if (number := splat_number(value)) is not None:
            return Pattern(0, (number,) * lanes)
        if not isinstance(value.type, ir.VectorType):
            return uniform(lanes)
        op = owner(value)
        if op is None:
            return None
        if op.name == "vector.broadcast":
            return uniform(lanes)
        if op.name in ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui"):
            return self.of(op.operands[0], lanes)
        if op.name not in ("arith.addi", "arith.subi", "arith.muli", "arith.divui", "arith.remui", "arith.divsi", "arith.remsi", "arith.floordivsi"):
            return None
        first, second = (self.of(v, lanes) for v in op.operands)
        if first is None or second is None:
            return None
        if op.name in ("arith.addi", "arith.subi"):
            return first.plus(second, 1 if op.name == "arith.addi" else -1)
        if op.name == "arith.muli" and first.modulus == 0 and first.same:
            first, second = second, first
        number = second.residues[0] if second.modulus == 0 and second.same else None
        if number is None:
            return None
        if op.name == "arith.muli":
            return first.times(number)
        if number <= 0:
            return None
        return first.modulo(number) if "rem" in op.name else first.over(number)

    def condition(self, value: ir.Value) -> Condition:
        """What is known of a vector of conditions."""
        lanes, op = ir.VectorType(value.type).shape[0], owner(value)
        unknown = Condition((None,) * lanes)
        if op is None:
            return unknown
        if op.name == "vector.broadcast":
            return Condition((None,) * lanes, True)
        if op.name == "arith.andi":
            first, second = (self.condition(v) for v in op.operands)
            each = tuple(False if False in pair else True if pair == (True, True) else None for pair in zip(first.lanes, second.lanes))
            return Condition(each, all(c.same or (c.known and len(set(c.lanes)) == 1) for c in (first, second)))
        if op.name != "arith.cmpi" or not isinstance(op.operands[0].type.element_type, ir.IndexType):
            return unknown
        bound = splat_number(op.operands[1])
        pattern = self.of(op.operands[0], lanes) if bound is not None else None
        if pattern is None:
            return unknown
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate == arith.CmpIPredicate.ult:
            return pattern.below(bound)
        if predicate in (arith.CmpIPredicate.eq, arith.CmpIPredicate.ne) and pattern.modulus == 0:
            return Condition(tuple((r == bound) == (predicate == arith.CmpIPredicate.eq) for r in pattern.residues))
        return unknown


def splat_number(value: ir.Value) -> int | None:
    """The whole number that all lanes of a vector are, if it is a constant."""
    op = owner(value)
    if op is not None and op.name == "vector.broadcast":
        op = owner(op.operands[0])
    if op is None or op.name != "arith.constant":
        return None
    number = op.attributes["value"]
    number = number.get_splat_value() if isinstance(number, ir.DenseElementsAttr) and number.is_splat else number
    return ir.IntegerAttr(number).value if isinstance(number, ir.IntegerAttr) else None

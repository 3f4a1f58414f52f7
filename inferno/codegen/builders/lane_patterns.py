"""What is known at code generation of the integers in a vector's lanes: ``modulus * t + residues[i]``, for some t that is the same in all.

Which lanes take a branch, and which of them lie in one aligned vector of memory, follows from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from inferno.mlir import arith, constant_number, ir, owner


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

    @property
    def largest(self) -> int | None:
        """A number that no lane is above, if no lane is negative and one is known."""
        bounded = self.natural and min(self.residues) >= 0 and (self.modulus == 0 or self.most is not None)
        return self.modulus * (self.most or 0) + max(self.residues) if bounded else None

    @property
    def distinct(self) -> int:
        """Into how many equally long groups of neighbours the lanes fall that are one number each: the fewest that are a power of two."""
        lanes, groups = len(self.residues), 1
        while groups < lanes and (lanes % groups or any(len(set(self.residues[i:i + lanes // groups])) > 1 for i in range(0, lanes, lanes // groups))):
            groups *= 2
        return min(groups, lanes)

    def plus(self, other: "Pattern", sign: int = 1) -> "Pattern":
        residues = tuple(a + sign * b for a, b in zip(self.residues, other.residues))
        natural = sign > 0 and self.natural and other.natural
        modulus = gcd(self.modulus, other.modulus)
        most = self.most if other.modulus == 0 else other.most if self.modulus == 0 and sign > 0 else None
        if self.modulus and other.modulus and sign > 0 and None not in (self.most, other.most):
            most = (self.modulus * self.most + other.modulus * other.most) // modulus
        return Pattern(modulus, residues, natural, most)

    def times(self, factor: int) -> "Pattern":
        return Pattern(self.modulus * abs(factor), tuple(factor * r for r in self.residues), factor >= 0 and self.natural, self.most if factor > 0 else None)

    def over(self, divisor: int) -> "Pattern | None":
        """Divided by a positive number."""
        if self.natural and self.modulus % divisor == 0:
            return Pattern(self.modulus // divisor, tuple(r // divisor for r in self.residues), True, self.most)
        if self.same or self._in_one(divisor):
            largest = self.largest
            return Pattern(1, (0,) * len(self.residues), self.natural, None if largest is None else largest // divisor)
        return None

    def modulo(self, divisor: int) -> "Pattern | None":
        """The remainder by a positive number."""
        if self.natural and self.modulus % divisor == 0:
            return Pattern(0, tuple(r % divisor for r in self.residues))
        if self._in_one(divisor):
            return replace(self, most=(divisor - 1) // self.modulus if self.most is None else min(self.most, (divisor - 1) // self.modulus))
        return Pattern(1, (0,) * len(self.residues), self.natural, divisor - 1 if self.natural else None) if self.same else None

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
    """``known``: what vectors of indices are.

    ``strict``: nothing is taken for granted: narrow numbers may wrap around, and a scalar may be negative.
    """

    known: Mapping[ir.Value, Pattern]
    strict: bool = False
    found: dict[ir.Value, Pattern | None] = field(default_factory=dict)

    def of(self, value: ir.Value, lanes: int) -> Pattern | None:
        """What the lanes of an index are; a scalar is in all of them."""
        if value in self.known:
            return self.known[value]
        if value not in self.found:
            self.found[value] = self._find(value, lanes)
        return self.found[value]

    def _find(self, value: ir.Value, lanes: int) -> Pattern | None:
        if (number := splat_number(value)) is not None:
            return Pattern(0, (number,) * lanes)
        scalar, op = not isinstance(value.type, ir.VectorType), owner(value)
        if scalar and not self.strict:
            return uniform(lanes)
        if op is not None and op.name == "vector.broadcast":
            return self.of(op.operands[0], lanes) if self.strict else uniform(lanes)
        if op is not None and op.name in ("vector.shuffle", "vector.from_elements"):
            return self._rearranged(op)
        found = None if op is None else self.result(op, list(op.operands), lanes)
        return Pattern(1, (0,) * lanes, False) if scalar and found is None else found

    def _rearranged(self, op: ir.Operation) -> Pattern | None:
        """Of lanes that are numbers, or some of another vector's, as those that are computed once for a group are for each of its points."""
        if op.name == "vector.from_elements":
            numbers = [constant_number(v) for v in op.operands]
            return None if None in numbers else Pattern(0, tuple(numbers), min(numbers) >= 0)
        first, second = op.operands
        lanes = ir.VectorType(first.type).shape[0]
        source = self.of(first, lanes) if first == second else None
        return None if source is None else replace(source, residues=tuple(source.residues[i % lanes] for i in op.attributes["mask"]))

    def result(self, op: ir.Operation, operands: Sequence[ir.Value], lanes: int) -> Pattern | None:
        """What the lanes of an operation's result are, if it has these operands instead of its own."""
        if op.name not in _CASTS and op.name not in _ARITHMETIC and not (self.strict and op.name in _WORDS):
            return None
        known = [self.of(v, lanes) for v in operands]
        found = None if None in known else known[0] if len(known) == 1 else computed(op.name, *known)
        if not self.strict:
            return found
        type_ = op.results[0].type
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        width = 64 if isinstance(element, ir.IndexType) else element.width
        return found if found is not None and found.largest is not None and found.largest < 2 ** (width - 1) else None

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


_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui")
_SUMS = ("arith.addi", "arith.subi")
_QUOTIENTS = ("arith.divui", "arith.divsi", "arith.floordivsi")
_REMAINDERS = ("arith.remui", "arith.remsi")
_ARITHMETIC = (*_SUMS, "arith.muli", *_QUOTIENTS, *_REMAINDERS)
_WORDS = ("arith.trunci", "arith.shli", "arith.shrui", "arith.andi")


def computed(name: str, first: Pattern, second: Pattern) -> Pattern | None:
    """What one of ``_ARITHMETIC`` or ``_WORDS`` makes of two numbers."""
    if name in _SUMS:
        return first.plus(second, 1 if name == "arith.addi" else -1)
    if name in ("arith.muli", "arith.andi") and first.modulus == 0 and first.same:
        first, second = second, first
    number = second.residues[0] if second.modulus == 0 and second.same else None
    if number is None:
        return None
    if name == "arith.muli":
        return first.times(number)
    if name in ("arith.shli", "arith.shrui"):
        return (first.times(1 << number) if name == "arith.shli" else first.over(1 << number)) if 0 <= number < 63 else None
    if name == "arith.andi":
        return first.modulo(number + 1) if number >= 0 and number & (number + 1) == 0 else None
    if number <= 0:
        return None
    return first.modulo(number) if name in _REMAINDERS else first.over(number)


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

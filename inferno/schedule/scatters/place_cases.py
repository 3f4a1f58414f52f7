"""Scatter indices of which only the computation is known, as cases that are linear in an element's index and in what is read.

A place may be chosen by comparisons: a negative index counts from the end, one that is outside is sent away.  Each way through them is a case,
with bounds for what was read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from inferno.mlir import dim_of, ir, owner, terminator
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.scatters.flat_elements import Computed, Elements

_MOST = 64  # ways through the comparisons
_STEPS = 1 << 14  # numbers that are looked at on these: comparisons of comparisons have the first way behind 2 to the power of their depth


class Unknown(Exception):
    """An expression that is more than this."""


@dataclass(frozen=True)
class Digit:
    """``number // stride % size`` of an element's number."""

    stride: int
    size: int


@dataclass(frozen=True)
class Read:
    """What is read by loops of these sizes."""

    at: Access
    sizes: tuple[int, ...]


Term = Digit | Read | ir.Value
Bounds = dict[Read | ir.Value, tuple[int, int]]
"""The least and the largest value of what was read, and of what is computed in other ways."""


@dataclass(frozen=True)
class Linear:
    """A sum of multiples of ``terms``, none of them by 0, and a number."""

    terms: tuple[tuple[Term, int], ...] = ()
    constant: int = 0

    def plus(self, other: "Linear", factor: int = 1) -> "Linear":
        terms = dict(self.terms)
        for term, by in other.terms:
            terms[term] = terms.get(term, 0) + factor * by
        return Linear(tuple((t, by) for t, by in terms.items() if by), self.constant + factor * other.constant)

    def times(self, factor: int) -> "Linear":
        return Linear().plus(self, factor)

    def range(self, bounds: Bounds) -> tuple[int, int]:
        low = high = self.constant
        for term, by in self.terms:
            a, b = (0, term.size - 1) if isinstance(term, Digit) else bounds[term]
            low, high = low + min(by * a, by * b), high + max(by * a, by * b)
        return low, high


def cases(elements: Elements) -> list[tuple[Linear, Bounds]]:
    """What an element may be, each with bounds for what was read then; Unknown where it is computed in another way."""
    found = list(islice(_element(elements, {}, [_STEPS]), _MOST + 1))  # there may be exponentially many
    if len(found) > _MOST:
        raise Unknown
    return found


def _element(elements: Elements, bounds: Bounds, left: list[int], sizes: tuple[int, ...] = ()) -> Iterator[tuple[Linear, Bounds]]:
    if isinstance(elements, Computed):
        yield from _Body(elements, left).value(terminator(elements.body).operands[0], bounds)
    elif isinstance(elements, Access):
        yield _any(Read(elements, sizes), elements.element, bounds)
    elif isinstance(elements, ir.IntegerAttr):
        yield Linear((), elements.value), bounds
    else:
        raise Unknown


def _any(term: Read | ir.Value, type_: ir.Type, bounds: Bounds) -> tuple[Linear, Bounds]:
    """A number of which only the type is known, and what may have been learned since."""
    if str(type_) not in ("i32", "i64"):
        raise Unknown
    return Linear(((term, 1),)), {term: _range(type_), **bounds}


def _range(type_: ir.Type) -> tuple[int, int]:
    half = 1 << (64 if isinstance(type_, ir.IndexType) else type_.width) - 1
    return -half, half - 1


@dataclass(frozen=True)
class _Body:
    """``left``: how many numbers may still be looked at, by all that is looked at together."""

    of: Computed
    left: list[int]

    def value(self, value: ir.Value, bounds: Bounds) -> Iterator[tuple[Linear, Bounds]]:
        """The cases of a whole number; Unknown where that takes too long."""
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Unknown
        if isinstance(value, ir.BlockArgument):
            if value.owner != self.of.body:
                raise Unknown  # a size that varies
            yield from _element(self.of.sources[value.arg_number], bounds, self.left, self.of.sizes)
            return
        op = owner(value)
        if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr):
            yield Linear((), op.attributes["value"].value), bounds
        elif op.name == "linalg.index":
            yield Linear(self.digit(dim_of(op))), bounds
        elif op.name == "arith.extsi" or (op.name == "arith.index_cast" and "i32" not in (str(value.type), str(op.operands[0].type))):
            yield from self.value(op.operands[0], bounds)
        elif op.name in ("arith.addi", "arith.subi", "arith.muli"):
            yield from self.arithmetic(op, bounds)
        elif op.name == "arith.select":
            for truth, known in self.truth(op.operands[0], bounds):
                yield from self.value(op.operands[1 if truth else 2], known)
        else:
            yield _any(value, value.type, bounds)

    def digit(self, dim: int) -> tuple[tuple[Term, int], ...]:
        stride = 1
        for size in self.of.sizes[dim + 1:]:
            stride *= size
        return ((Digit(stride, self.of.sizes[dim]), 1),) if self.of.sizes[dim] > 1 else ()

    def pairs(self, op: ir.Operation, bounds: Bounds) -> Iterator[tuple[Linear, Linear, Bounds]]:
        for a, known in self.value(op.operands[0], bounds):
            for b, both in self.value(op.operands[1], known):
                yield a, b, both

    def arithmetic(self, op: ir.Operation, bounds: Bounds) -> Iterator[tuple[Linear, Bounds]]:
        for a, b, known in self.pairs(op, bounds):
            if op.name == "arith.muli":
                found = None if a.terms and b.terms else b.times(a.constant) if b.terms else a.times(b.constant)
            else:
                found = a.plus(b, 1 if op.name == "arith.addi" else -1)
            (least, most), (low, high) = _range(op.results[0].type), found.range(known) if found is not None else (0, 0)
            if found is None or low < least or high > most:  # it may wrap around
                yield _any(op.results[0], op.results[0].type, known)
            else:
                yield found, known

    def truth(self, value: ir.Value, bounds: Bounds) -> Iterator[tuple[bool, Bounds]]:
        """The cases of a condition."""
        op = owner(value)
        if op is None or op.name not in ("arith.cmpi", "arith.andi", "arith.ori", "arith.constant"):
            raise Unknown
        if op.name == "arith.constant":
            yield bool(ir.BoolAttr(op.attributes["value"]).value), bounds
        elif op.name == "arith.cmpi":
            for a, b, known in self.pairs(op, bounds):
                yield from _compare(ir.IntegerAttr(op.attributes["predicate"]).value, a.plus(b, -1), known)
        else:
            decided = op.name == "arith.ori"  # the first one decides if it is this
            for first, known in self.truth(op.operands[0], bounds):
                if first == decided:
                    yield first, known
                else:
                    yield from self.truth(op.operands[1], known)


_EQ, _NE, _SLT, _SLE, _SGT, _SGE = range(6)


def _compare(predicate: int, difference: Linear, bounds: Bounds) -> Iterator[tuple[bool, Bounds]]:
    """How two numbers with this difference compare."""
    if predicate in (_SLT, _SGE):
        below = difference
    elif predicate in (_SLE, _SGT):
        below = difference.plus(Linear((), -1))
    elif predicate in (_EQ, _NE):
        for is_below, known in _negative(difference, bounds):
            # What is not below 0 is 0, or below 0 with another sign.
            for is_above, both in [(False, known)] if is_below else _negative(difference.times(-1), known):
                yield (is_below or is_above) == (predicate == _NE), both
        return
    else:
        raise Unknown
    wanted = predicate in (_SLT, _SLE)
    for is_below, known in _negative(below, bounds):
        yield is_below == wanted, known


def _negative(number: Linear, bounds: Bounds) -> Iterator[tuple[bool, Bounds]]:
    """Whether a number is below 0, where that is of something read alone with what follows for it."""
    low, high = number.range(bounds)
    if high < 0 or low >= 0:
        yield high < 0, bounds
        return
    if len(number.terms) == 1 and not isinstance(number.terms[0][0], Digit) and abs(number.terms[0][1]) == 1:
        ((read, sign),) = number.terms
        least, most = bounds[read]
        if sign > 0:
            yield True, {**bounds, read: (least, -number.constant - 1)}
            yield False, {**bounds, read: (-number.constant, most)}
        else:
            yield True, {**bounds, read: (number.constant + 1, most)}
            yield False, {**bounds, read: (least, number.constant)}
        return
    yield True, bounds
    yield False, bounds

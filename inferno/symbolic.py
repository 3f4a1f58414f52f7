"""Sizes that vary: integer expressions of named symbols, with what is known of them.

A size is an ``int`` where it is known and a ``Size`` where it is not.  A Size is a polynomial of atoms, which are symbols and
the quotients, minima and maxima of other sizes; equal polynomials are equal objects.  Arithmetic works as on integers.  ``==``
says whether two sizes are *known* to be equal.  An order is decided by the symbols' ranges; where they do not decide it, asking
for it raises ``Undecided``, so that code that was written for numbers refuses what it does not understand instead of guessing.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Union

from inferno.errors import UnsupportedOperation

UNBOUNDED = 2**62  # beyond any size: what a symbol without an upper bound is below


LARGEST = 2**31 - 2**20  # elements that kernels with 32-bit offsets take, with room for the last block's

_MOST_CASES = 3  # minima and maxima of which both cases are looked at, each in each of the others' cases, and quotients whose rests are


class Undecided(UnsupportedOperation):
    """Whether sizes that vary are ordered in a certain way depends on the call."""


@dataclass(frozen=True)
class Symbol:
    """A size that varies: from ``low`` to ``high``, both included, always a multiple of ``divisor``; ``hint`` is the example's."""

    name: str
    low: int = 0
    high: int = UNBOUNDED
    divisor: int = 1
    hint: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Apply:
    """``kind`` is "floordiv" (of numbers that are not negative), "min" or "max"."""

    kind: str
    a: "Int"
    b: "Int"

    @property
    def bounds(self) -> tuple[int, int]:
        (a, c), (b, d) = bounds(self.a), bounds(self.b)
        if self.kind == "floordiv":
            return max(a, 0) // max(d, 1), UNBOUNDED if c >= UNBOUNDED >> 8 else c // max(b, 1)  # a share of no bound would be one
        return (min(a, b), min(c, d)) if self.kind == "min" else (max(a, b), max(c, d))

    def __str__(self) -> str:
        if self.kind != "floordiv":
            return f"{self.kind}({self.a}, {self.b})"
        a, b = (f"({v})" if isinstance(v, Size) and len(v.terms) > 1 else str(v) for v in (self.a, self.b))
        return f"({a} // {b})"


Atom = Symbol | Apply
Monomial = tuple[Atom, ...]
Int = Union[int, "Size"]


@dataclass(frozen=True, eq=False)
class Size:
    """``terms``: (atoms that are multiplied, coefficient) for each term, in a fixed order, none of them 0."""

    terms: tuple[tuple[Monomial, int], ...]

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __str__(self) -> str:
        return " + ".join("*".join([*([str(c)] if c != 1 or not m else []), *map(str, m)]) for m, c in self.terms)

    __repr__ = __str__

    def __add__(self, other: Int) -> Int:
        return _sum([*self.terms, *_terms(other)]) if isinstance(other, (int, Size)) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Int:
        return _sum([(m, -c) for m, c in self.terms])

    def __sub__(self, other: Int) -> Int:
        return self + -other if isinstance(other, (int, Size)) else NotImplemented

    def __rsub__(self, other: Int) -> Int:
        return -self + other

    def __mul__(self, other: Int) -> Int:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return _times(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Int) -> Int:
        return floordiv(self, other) if isinstance(other, (int, Size)) else NotImplemented

    def __rfloordiv__(self, other: Int) -> Int:
        return floordiv(other, self)

    def __mod__(self, other: Int) -> Int:
        return self - floordiv(self, other) * other if isinstance(other, (int, Size)) else NotImplemented

    def __rmod__(self, other: Int) -> Int:
        return other - floordiv(other, self) * self

    def __lt__(self, other: Int) -> bool:
        low, high = bounds(self - other)
        if high < 0 or low >= 0:
            return high < 0
        raise Undecided(f"whether {self} < {other} depends on the call")

    def __ge__(self, other: Int) -> bool:
        return not self < other

    def __gt__(self, other: Int) -> bool:
        low, high = bounds(self - other)
        if low > 0 or high <= 0:
            return low > 0
        raise Undecided(f"whether {self} > {other} depends on the call")

    def __le__(self, other: Int) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0:
            return True
        raise Undecided(f"whether {self} is 0 depends on the call")


def _key(atom: Atom) -> str:
    return str(atom)


def _sorted(monomial: Iterable[Atom]) -> Monomial:
    return tuple(sorted(monomial, key=_key))


def _terms(value: Int) -> list[tuple[Monomial, int]]:
    if isinstance(value, Size):
        return list(value.terms)
    return [((), value)] if value else []


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Int:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Size(tuple(sorted(kept, key=lambda t: (len(t[0]), [str(a) for a in t[0]]), reverse=True)))


@functools.lru_cache(8192)
def _times(a: Size, b: Int) -> Int:
    return _sum([(_sorted((*m, *n)), c * d) for m, c in a.terms for n, d in _terms(b)])


def size_of(symbol: Symbol) -> Int:
    """The symbol as a size: a number where its range is one."""
    return symbol.low if symbol.low == symbol.high else Size((((symbol,), 1),))


@functools.lru_cache(4096)
def bounds(value: Int) -> tuple[int, int]:
    """The least and the largest that a size can be."""
    if isinstance(value, int):
        return value, value
    low = high = 0
    for monomial, coefficient in value.terms:
        least = most = coefficient
        for atom in monomial:
            ends = (atom.low, atom.high) if isinstance(atom, Symbol) else atom.bounds
            products = [x * y for x in (least, most) for y in ends]
            least, most = min(products), max(products)
        low, high = low + least, high + most
    constant, rest = _above_least(value)
    low = max(low, constant) if all(c >= 0 for c in rest) else low
    high = min(high, constant) if all(c <= 0 for c in rest) else high
    quotients = _quotients(value) if low < 0 < high else []
    low = max([low, *(_least_without(value, q) for q in quotients)])
    high = min([high, *(-_least_without(-value, q) for q in quotients)])
    extremes = _extremes(value) if low < 0 < high else []
    if 0 < len(extremes) <= _MOST_CASES:
        low = max([low, *(_least_of_cases(value, e) for e in extremes)])
        high = min([high, *(-_least_of_cases(-value, e) for e in extremes)])
    return max(low, -UNBOUNDED), min(high, UNBOUNDED)


def _quotients(value: Size) -> list[Apply]:
    """The quotients that a size has once in a term at most, by numbers or polynomials of symbols above 0; none of more than a few."""
    found = dict.fromkeys(a for m, _ in value.terms for a in m if isinstance(a, Apply) and a.kind == "floordiv")
    if len(found) > _MOST_CASES:
        return []
    return [q for q in found if all(m.count(q) < 2 for m, _ in value.terms) and _is_polynomial(q.b) and bounds(q.b)[0] > 0]


def _is_polynomial(value: Int) -> bool:
    return all(isinstance(a, Symbol) for m, _ in _terms(value) for a in m)


def _least_without(value: Size, quotient: Apply) -> int:
    """A bound from below where ``a // b`` is taken for ``(a - r) / b`` with a rest r from 0 to b - 1: in ``n - n // 2`` the terms are not apart.
    Where b varies, only whether that is 0."""
    factor = _sum([(tuple(a for a in m if a != quotient), c) for m, c in value.terms if quotient in m])
    rest = _sum([(m, c) for m, c in value.terms if quotient not in m])
    a, b = quotient.a, quotient.b
    least, most = bounds(factor)
    taken = factor * (b - 1) if least >= 0 else 0 if most <= 0 else max(most, 0) * (b - 1)
    above = rest * b + factor * a - taken
    if isinstance(b, int):
        low = bounds(above)[0]
        return -UNBOUNDED if low <= -UNBOUNDED >> 8 else -(-low // b)  # a share of no bound would be one
    return 0 if bounds(above + (b - 1))[0] >= 0 else -UNBOUNDED


def _extremes(value: Size) -> list[Apply]:
    """The minima and maxima that a size has once in a term at most."""
    found = dict.fromkeys(a for m, _ in value.terms for a in m if isinstance(a, Apply) and a.kind != "floordiv")
    return [e for e in found if all(m.count(e) < 2 for m, _ in value.terms)]


def _least_of_cases(value: Size, extreme: Apply) -> int:
    """A bound from below where an extreme is one of the two that it is of, and what is not above, or not below, either."""
    factor = _sum([(tuple(a for a in m if a != extreme), c) for m, c in value.terms if extreme in m])
    rest = _sum([(m, c) for m, c in value.terms if extreme not in m])
    cases = [bounds(rest + factor * each)[0] for each in (extreme.a, extreme.b)]
    least, most = bounds(factor)
    return max(cases) if (least >= 0 if extreme.kind == "max" else most <= 0) else min(cases)


def _above_least(value: Size) -> tuple[int, list[int]]:
    """The polynomial in what each atom has above its least value: its constant, and the coefficients of the other terms.  Terms
    that cancel each other, as in ``8*a*b - 8*b``, do so here: what is above is never negative."""
    found: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        products: dict[Monomial, int] = {(): coefficient}
        for atom in monomial:
            least = atom.low if isinstance(atom, Symbol) else atom.bounds[0]
            grown: dict[Monomial, int] = {}
            for m, c in products.items():
                grown[m] = grown.get(m, 0) + c * least
                grown[_sorted((*m, atom))] = grown.get(_sorted((*m, atom)), 0) + c
            products = grown
        for m, c in products.items():
            found[m] = found.get(m, 0) + c
    return found.pop((), 0), list(found.values())


def reach(value: Int) -> int:
    """The largest that a number of elements can be, for the width of offsets.  Where nobody gave a size an upper bound, it is what 31
    bits count to: whoever runs the plan sees to it (``is_unbounded``)."""
    high = bounds(value)[1]
    return high if high < UNBOUNDED >> 8 else LARGEST


def is_unbounded(value: Int) -> bool:
    """Whether a size has no upper bound."""
    return bounds(value)[1] >= UNBOUNDED >> 8


def divisor(value: Int) -> int:
    """A number that the size is always a multiple of, the largest that is known; 0 for 0."""
    if isinstance(value, int):
        return abs(value)
    found = 0
    for monomial, coefficient in value.terms:
        found = math.gcd(found, math.prod((a.divisor for a in monomial if isinstance(a, Symbol)), start=abs(coefficient)))
    return found


def constant(value: Int) -> int:
    """The term of a size that does not vary."""
    return sum(c for m, c in _terms(value) if not m)


def is_multiple(value: Int, of: int) -> bool:
    """Whether a size is known to be a multiple of a number."""
    return divisor(value) % of == 0


def alignment(numbers: Iterable[Int], most: int) -> int:
    """The largest power of two, up to that which is not below ``most``, of which all numbers are known to be multiples."""
    found, step = 1, math.gcd(*map(divisor, numbers))
    while found < most and step % (2 * found) == 0:
        found *= 2
    return found


def floordiv(a: Int, b: Int) -> Int:
    """The quotient, rounded down."""
    return a // b if isinstance(a, int) and isinstance(b, int) else _quotient(a, b)


@functools.lru_cache(8192)
def _quotient(a: Int, b: Int) -> Int:
    exact = None if isinstance(b, Size) and bounds(b)[0] < 1 and (len(b.terms) == 1 or a != b) else _divide(a, b)
    if exact is not None:
        return exact
    if bounds(b)[0] < 1 and bounds(b)[1] >= 0 and bounds(b)[0] != 0:
        raise Undecided(f"{a} // {b}: the divisor may be negative")
    if isinstance(b, Size) and (common := _common_factor(a, b)) != 1:
        return floordiv(quotient(a, common), quotient(b, common))
    if isinstance(b, int) and (inner := _is_quotient(a)) is not None:  # as torch says it: a // 2 // 4 is a // 8
        return floordiv(inner.a, inner.b * b)
    if isinstance(b, int) and isinstance(a, Size):  # what divides goes out of the quotient: (8 n + r) // 4 is 2 n + r // 4
        whole = [(m, c) for m, c in a.terms if c % b == 0]
        rest = _sum([(m, c) for m, c in a.terms if c % b])
        if whole and (bounds(rest)[0] >= 0 or bounds(rest)[1] <= 0):
            return _sum([(m, c // b) for m, c in whole]) + floordiv(rest, b)
    if bounds(a)[1] <= 0 and (isinstance(b, int) or bounds(b)[0] >= 1):  # -n // 4, of which n + -n % 4 is made, is -((n + 3) // 4)
        return -floordiv(-a + b - 1, b)
    if bounds(a)[0] < 0:
        low = bounds(a)[0]
        if isinstance(b, int) and low > -UNBOUNDED:  # shifted by a multiple of b, the numerator is not negative
            shift = -(low // b)
            return floordiv(a + shift * b, b) - shift
        raise Undecided(f"{a} // {b}: the numerator may be negative")
    if bounds(a)[1] < bounds(b)[0]:
        return 0
    if isinstance(b, int) and bounds(a)[0] // b == bounds(a)[1] // b:
        return bounds(a)[0] // b
    return Size((((Apply("floordiv", a, b),), 1),))


def _common_factor(a: Int, b: Int) -> Int:
    """The largest number, and the product of atoms above 0, that all terms have."""
    terms = [*_terms(b), *_terms(a)]
    monomials, common = [list(m) for m, _ in terms], []
    for atom in terms[0][0]:
        if all(atom in m for m in monomials) and bounds(_sum([((atom,), 1)]))[0] > 0:
            common.append(atom)
            for m in monomials:
                m.remove(atom)
    return _sum([(tuple(common), math.gcd(*(c for _, c in terms)))])


def _is_quotient(value: Int) -> Apply | None:
    """The quotient by a number above 0 that a size is, if it is one and nothing else."""
    atoms, factor = value.terms[0] if isinstance(value, Size) and len(value.terms) == 1 else ((), 0)
    found = atoms[0] if factor == 1 and len(atoms) == 1 else None
    return found if isinstance(found, Apply) and found.kind == "floordiv" and isinstance(found.b, int) and found.b > 0 else None


def ceildiv(a: Int, b: int) -> Int:
    """The quotient, rounded up."""
    return floordiv(a + (b - 1), b)


def _divide(a: Int, b: Int) -> Int | None:
    """The quotient where b divides a as a polynomial."""
    if isinstance(b, int):
        if b == 1:
            return a
        if isinstance(a, Size) and b > 0 and all(c % b == 0 for _, c in a.terms):
            return _sum([(m, c // b) for m, c in a.terms])
        return None
    if len(b.terms) != 1:
        return _divide_in_steps(a, b)
    quotients = [_divide_term(term, b.terms[0]) for term in _terms(a)]
    return None if None in quotients else _sum(quotients)


def _divide_in_steps(a: Int, b: Size) -> Int | None:
    """Long division: the first term of a product is that of the first terms, in the order that the terms are in."""
    rest, quotients = a, []
    while rest != 0:
        term = _divide_term(_terms(rest)[0], b.terms[0])
        if term is None:
            return None
        quotients.append(term)
        rest = rest - _sum([term]) * b
    return _sum(quotients)


def _divide_term(a: tuple[Monomial, int], b: tuple[Monomial, int]) -> tuple[Monomial, int] | None:
    left = list(a[0])
    for atom in b[0]:
        if atom not in left:
            return None
        left.remove(atom)
    return None if a[1] % b[1] else (tuple(left), a[1] // b[1])


def quotient(a: Int, b: Int) -> Int | None:
    """The quotient of a size and one that is known to divide it; None where that is not known."""
    if isinstance(a, Size):
        return _divide(a, b)
    return a // b if isinstance(b, int) and b and a % b == 0 else None


def in_steps(sizes: Iterable[Int]) -> list[Int] | None:
    """Sizes in the order in which each divides the next; None where there is no such order."""
    found = sorted(sizes, key=functools.cmp_to_key(lambda a, b: -1 if quotient(b, a) is not None else 1))
    return None if any(quotient(b, a) is None for a, b in zip(found, found[1:])) else found


def minimum(a: Int, b: Int) -> Int:
    """The smaller one of two sizes."""
    return _extreme("min", a, b)


def maximum(a: Int, b: Int) -> Int:
    """The larger one of two sizes."""
    return _extreme("max", a, b)


def apply(kind: str, a: Int, b: Int) -> Int:
    """The size that ``Apply`` stands for."""
    return floordiv(a, b) if kind == "floordiv" else _extreme(kind, a, b)


def _extreme(kind: str, a: Int, b: Int) -> Int:
    low, high = bounds(a - b)
    if high <= 0:
        return a if kind == "min" else b
    if low >= 0:
        return b if kind == "min" else a
    a, b = sorted((a, b), key=str)
    number, size = (a, b) if isinstance(a, int) else (b, a)
    if kind == "max" and isinstance(number, int) and size.terms[0][1] < 0:  # max(5 - n, 0) is max(n - 5, 0) + 5 - n, so that one cancels the other
        return size + _extreme("max", number - size, 0)
    return Size((((Apply(kind, a, b),), 1),))


def product(values: Iterable[Int]) -> Int:
    """All sizes multiplied; 1 of none."""
    total: Int = 1
    for v in values:
        total = total * v
    return total


def evaluate(value: Int, of: Callable[[Symbol], int]) -> int:
    """The number that a size is where each symbol is ``of(symbol)``."""
    if isinstance(value, int):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        for atom in monomial:
            coefficient *= of(atom) if isinstance(atom, Symbol) else _apply(atom.kind, evaluate(atom.a, of), evaluate(atom.b, of))
        total += coefficient
    return total


def _apply(kind: str, a: int, b: int) -> int:
    return a // max(b, 1) if kind == "floordiv" else min(a, b) if kind == "min" else max(a, b)


def hint(value: Int) -> int:
    """The number that a size is in the example: for costs, never for what has to be right."""
    return value if isinstance(value, int) else evaluate(value, lambda s: s.hint)


def symbols_of(value: Int) -> dict[Symbol, None]:
    """The symbols of a size, in order."""
    found: dict[Symbol, None] = {}
    for monomial, _ in _terms(value):
        for atom in monomial:
            found.update({atom: None} if isinstance(atom, Symbol) else {**symbols_of(atom.a), **symbols_of(atom.b)})
    return found


def has_extreme(value: Int) -> bool:
    """Whether a minimum or a maximum is part of a size."""
    atoms = [a for m, _ in _terms(value) for a in m if isinstance(a, Apply)]
    return any(a.kind != "floordiv" or has_extreme(a.a) or has_extreme(a.b) for a in atoms)

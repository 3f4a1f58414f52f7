"""Eliminate symbols that equations determine.  Where a reshape says that ``n`` rows are ``b`` times ``h``, torch keeps a symbol for each, and an equation among
its guards; a symbol for which the equation can be solved is replaced by the expression of the others.
"""

from collections.abc import Callable, Iterable, Iterator

import sympy
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod

from inferno.errors import UnsupportedOperation
from inferno.symbolic import Int, Monomial, Size, Symbol, bounds, has_extreme, product, quotient, size_of, symbols_of

_LONGEST = 400  # characters of an equation: longer ones are of whole reshapes, which say nothing new of single sizes


def equations(assumed: Iterable[sympy.Basic], size: Callable[[sympy.Expr], Int]) -> tuple[Size, ...]:
    """What is 0, of conditions that hold; ``size`` makes a size of an expression, or raises UnsupportedOperation."""
    found: dict[Int, None] = {}
    equal = [c for c in assumed if isinstance(c, sympy.Eq) and len(c.free_symbols) > 1 and len(str(c)) <= _LONGEST]
    divided = {c.lhs.args for c in equal if isinstance(c.lhs, (Mod, PythonMod)) and c.rhs == 0}
    for condition in equal:
        left, right = condition.args
        if isinstance(left, (FloorDiv, CleanDiv)) and left.args in divided:  # a // b is c and leaves nothing: a is b * c
            left, right = left.args[0], left.args[1] * right
        try:
            found[size(left) - size(right)] = None
        except UnsupportedOperation:
            continue
    return tuple(d for d in found if isinstance(d, Size))


def solutions(symbol: Symbol, zeros: Iterable[Size]) -> Iterator[Int]:
    """What a symbol is by others, where each of ``zeros`` is 0."""
    for zero in zeros:
        factor = [(tuple(a for a in m if a != symbol), c) for m, c in zero.terms if symbol in m]
        if not factor or any(symbol in m for m, _ in factor):
            continue
        times, rest = _sum(factor), _sum((m, c) for m, c in zero.terms if symbol not in m)
        found = quotient(-rest, times) if bounds(times)[0] > 0 else quotient(rest, -times) if bounds(times)[1] < 0 else None
        if found is not None and symbol not in symbols_of(found) and not has_extreme(found):
            yield found


def is_product(size: Int) -> bool:
    """Whether a size is a product of symbols: of which none is 0 where it is not."""
    return isinstance(size, Size) and len(size.terms) == 1 and size.terms[0][1] > 0 and all(isinstance(a, Symbol) for a in size.terms[0][0])


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Int:
    return sum((product(size_of(a) if isinstance(a, Symbol) else Size((((a,), 1),)) for a in m) * c for m, c in terms), start=0)

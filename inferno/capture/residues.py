"""Sizes that are known to be a multiple of a number, or some more: of ``n`` that a reshape divides by 4, torch keeps that ``Mod(n, 4)`` is 0.

Such a size is ``4 * k`` with a symbol ``k`` of its own, so that whatever is computed of it, ``(n + 3) // 4 * 4`` where it would be padded, is n again.
"""

import math
from collections.abc import Callable

import sympy
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from inferno.symbolic import Int, bounds

_MOST = 512  # rests that are tried, of sizes that are padded to whole windows or chunks

# When a relation is false, by the bounds of the difference of its sides.
_FALSE: dict[type, Callable[[int, int], bool]] = {
    sympy.Eq: lambda low, high: low > 0 or high < 0, sympy.Ne: lambda low, high: low == high == 0,
    sympy.StrictLessThan: lambda low, high: low >= 0, sympy.LessThan: lambda low, high: low > 0,
    sympy.StrictGreaterThan: lambda low, high: high <= 0, sympy.GreaterThan: lambda low, high: high < 0,
}


def residue(symbol: sympy.Symbol, example: int, assumed: list[sympy.Basic], size: Callable[[sympy.Expr, int, int], Int]) -> tuple[int, int]:
    """A number by which all sizes that the symbol can be leave one rest, and that rest; (1, 0) where none is known.

    ``assumed`` are conditions that hold; ``size(expr, by, rest)`` is an expression where the symbol is a multiple of ``by`` and a ``rest``, or an error.
    """
    relations = [c for c in assumed if type(c) in _FALSE and symbol in c.free_symbols]
    found = 1
    for by in sorted({d for c in relations for d in _divisors(c, symbol)}):
        if found % by and _leaves_one(by, example % by, relations, size):
            found = math.lcm(found, by)
    return found, example % found


def _divisors(condition: sympy.Basic, symbol: sympy.Symbol) -> set[int]:
    """The numbers by which something of the symbol is divided in a condition."""
    parts = (p for p in condition.atoms(FloorDiv, Mod, PythonMod) if symbol in p.args[0].free_symbols)
    return {int(p.args[1]) for p in parts if isinstance(p.args[1], sympy.Integer) and 1 < p.args[1] <= _MOST}


def _leaves_one(by: int, rest: int, relations: list[sympy.Basic], size: Callable[[sympy.Expr, int, int], Int]) -> bool:
    """Whether only one rest is possible.  A relation that says so rules out the next one, so that the others are not asked of all."""
    left = set(range(by)) - {rest}
    for relation in relations:
        if by in {int(d) for d in relation.atoms(sympy.Integer)} and _is_false(relation, by, (rest + 1) % by, size):
            left = {r for r in left if not _is_false(relation, by, r, size)}
    return not left


def _is_false(relation: sympy.Basic, by: int, rest: int, size: Callable[[sympy.Expr, int, int], Int]) -> bool:
    try:
        difference = size(relation.lhs, by, rest) - size(relation.rhs, by, rest)
    except ArithmeticError:
        return False
    return _FALSE[type(relation)](*bounds(difference))

"""Linear functions of loops, which most indexing maps are of: read from affine expressions, computed with, and made into such again."""

from collections.abc import Sequence

from inferno.mlir import ir

Linear = tuple[tuple[int, ...], int]
"""Coefficients of the loops, and a constant."""


def linear(expr: ir.AffineExpr, dims: int) -> Linear | None:
    """``expr`` as a linear function of ``dims`` loops; None if it has a symbol, a division or a remainder."""
    if isinstance(expr, ir.AffineDimExpr):
        return loop_alone(ir.AffineDimExpr(expr).position, dims)
    if isinstance(expr, ir.AffineConstantExpr):
        return (0,) * dims, ir.AffineConstantExpr(expr).value
    if isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        binary = ir.AffineBinaryExpr(expr)
        lhs, rhs = linear(binary.lhs, dims), linear(binary.rhs, dims)
        if lhs is None or rhs is None:
            return None
        return add(lhs, rhs) if isinstance(expr, ir.AffineAddExpr) else multiply(lhs, rhs)
    return None


def factors_in(expr: ir.AffineExpr, dims: int) -> dict[int, int] | None:
    """What each of the loops is multiplied by that an expression adds up, all by more than 0; none of the constant 0.  None for anything else."""
    found = linear(expr, dims)
    factors = {d: n for d, n in enumerate(found[0]) if n} if found is not None else {}
    return None if found is None or found[1] or min(factors.values(), default=1) < 0 else factors


def loop_alone(loop: int, dims: int) -> Linear:
    """One of ``dims`` loops."""
    return tuple(int(d == loop) for d in range(dims)), 0


def add(a: Linear, b: Linear, times: int = 1) -> Linear:
    """``a + times * b``."""
    return tuple(x + times * y for x, y in zip(a[0], b[0])), a[1] + times * b[1]


def multiply(a: Linear, b: Linear) -> Linear | None:
    """The product, of which one has to be a constant; None where neither is."""
    number, other = (b, a) if any(a[0]) else (a, b)
    return None if any(number[0]) else (tuple(number[1] * c for c in other[0]), number[1] * other[1])


def extent(place: Linear, sizes: Sequence[int]) -> tuple[int, int]:
    """The least and the largest that a function of loops of these sizes is."""
    coefficients, begin = place
    ends = [c * (n - 1) for c, n in zip(coefficients, sizes)]
    return begin + sum(e for e in ends if e < 0), begin + sum(e for e in ends if e > 0)


def expression(place: Linear) -> ir.AffineExpr:
    """The inverse of ``linear``."""
    coefficients, found = place[0], ir.AffineExpr.get_constant(place[1])
    for d, n in enumerate(coefficients):
        found = found + ir.AffineExpr.get_dim(d) * n if n else found
    return found


def linear_map(places: Sequence[Linear], dims: int) -> ir.AffineMap:
    """The map of ``dims`` loops to these functions of them."""
    return ir.AffineMap.get(dims, 0, [expression(p) for p in places])


def projection(loops: Sequence[int], dims: int) -> ir.AffineMap:
    """The map of ``dims`` loops to some of them, in this order."""
    return ir.AffineMap.get(dims, 0, [ir.AffineExpr.get_dim(d) for d in loops])


def renumber(loops: Sequence[int], dims: int) -> list[ir.AffineExpr]:
    """What each of ``dims`` loops is where some of them are left, in this order; 0 for the others."""
    return [ir.AffineExpr.get_dim(loops.index(d)) if d in loops else ir.AffineExpr.get_constant(0) for d in range(dims)]

"""Conditions, each of one bit, and operations that run where they hold."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from inferno.mlir import arith, ir, scf


def all_of(*conditions: ir.Value | None) -> ir.Value | None:
    """Whether all conditions hold, of which None is none; None where there are no others."""
    asked = [c for c in conditions if c is not None]
    return reduce(arith.andi, asked) if asked else None


@contextmanager
def only_if(*conditions: ir.Value | None) -> Iterator[None]:
    """The operations inside run where ``all_of`` the conditions hold; always where there are none."""
    every = all_of(*conditions)
    if every is None:
        yield
        return
    op = scf.IfOp(every)
    with ir.InsertionPoint(op.then_block):
        yield
        scf.yield_([])


def if_else(
    condition: ir.Value, types: Sequence[ir.Type], then: Callable[[], Sequence[ir.Value] | None], other: Callable[[], Sequence[ir.Value] | None],
) -> list[ir.Value]:
    """What ``then()`` makes where the condition holds, and ``other()`` where it does not: values of these types, if any."""
    op = scf.IfOp(condition, types, has_else=True)
    for block, make in ((op.then_block, then), (op.else_block, other)):
        with ir.InsertionPoint(block):
            scf.yield_(make() or [])
    return list(op.results)

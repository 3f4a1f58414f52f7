"""Pieces of a concatenation that a sum's points choose between: the branch is around all of the sum's terms.

A branch in each term would let a thread wait for what one reads before it asks for what the next one does: 128 terms of 512 sums, rotated in pairs, took an
H200 8.3 us so.  Conditions on terms stay where they are.
"""

from collections.abc import Callable, Iterator

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.builders.inline import on_scalars
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.reductions.joining import Values
from inferno.mlir import dim_of, ir, owner
from inferno.schedule.reductions.kernel import ReductionKernel

COPIES = 16
"""Of a sum's loop at most, half of them on each side of a branch: five pieces one after the other."""


def _open(block: ir.Block, sides: dict[ir.Value, int]) -> Iterator[ir.Operation]:
    """Branches of which no side is known yet, but for those inside of these."""
    for op in (view.operation for view in block.operations):
        if op.name == "scf.if" and len(op.results):
            known = sides.get(op.results[0])
            yield from [op] if known is None else _open(op.regions[known].blocks[0], sides)


class Choices:
    """Of an ``Emitter`` of reductions.  ``sides``: the region that is taken of each ``scf.if`` whose condition is known, by its first result."""

    c: ReductionKernel
    ints: Integers
    buffers: list[ir.Value]
    at: dict[tuple[int, ...], Integer]
    sides: dict[ir.Value, int]

    def chosen(self, types: list[ir.Type], make: Callable[[], Values], copies: int) -> Values:
        """What ``make`` computes, of these types, with the sides of such branches that sums choose, each in a copy of its own."""
        choice = next((op for op in _open(self.c.block, self.sides) if self.is_of_points(op.operands[0])), None) if copies > 1 else None
        if choice is None:
            return make()

        def side(number: int) -> Values:
            self.sides[choice.results[0]] = number
            found = self.chosen(types, make, copies // 2)
            del self.sides[choice.results[0]]
            return found

        return if_else(self.condition(choice.operands[0]), types, lambda: side(0), lambda: side(1))

    def is_of_points(self, value: ir.Value) -> bool:
        """Whether a value is the same for all terms of a sum, and computed by arithmetic alone."""
        op = owner(value)
        if op is None:
            return value not in set(self.c.block.arguments)
        if op.name == "linalg.index":
            return any(dim_of(op) in run for run in self.c.points)
        return op.name.startswith("arith.") and not len(op.regions) and all(map(self.is_of_points, op.operands))

    def condition(self, value: ir.Value) -> ir.Value:
        """Of a thread's first sum, whose neighbours choose as it does."""
        ints, c, known = self.ints, self.c, self.c.outside(dict(enumerate(self.buffers)))
        places = {d: x for run in c.points for d, x in zip(run, ints.split(self.at[run], [c.sizes[d] for d in run]))}

        def make(v: ir.Value) -> ir.Value:
            if v not in known:
                op = owner(v)
                if op is None:
                    return v
                known[v] = ints.index(places[dim_of(op)]) if op.name == "linalg.index" else on_scalars(op, [make(x) for x in op.operands])
            return known[v]

        return make(value)

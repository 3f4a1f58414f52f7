"""Scalar expressions of loops' numbers and of elements of a kernel's arguments.

Expressions are equal where they are one object: what a kernel computes twice, as kernels do that were fused apart, is found to be the same.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod

from inferno.mlir import ir
from inferno.schedule.analysis.expression_folding import fold
from inferno.symbolic import Int, hint

CONTRACTION, READ, INDEX, CONSTANT = "contraction", "read", "index", "arith.constant"
MAXIMUM, SUM = "maximum", "sum"


@dataclass(frozen=True)
class Loop:
    """A part of a loop of the kernel, ``base``: ``size`` steps of ``inside`` iterations each."""

    base: Hashable
    inside: Int
    size: Int


Loops = tuple[Loop, ...]
"""Loops whose numbers together are one number, outermost first."""
Place = tuple[tuple[tuple[Loop, Int], ...], Int]
"""A number along a dimension: a sum of loops, each times a stride, and a constant."""
ORIGIN: Place = ((), 0)


def place_of(loops: Loops) -> Place:
    """The number that loops are together."""
    return tuple((loop, prod(inner.size for inner in loops[i + 1:])) for i, loop in enumerate(loops)), 0


def total(parts: Iterable[tuple[Place, Int]]) -> Place:
    """A sum of places, each times a number."""
    strides: dict[Loop, Int] = {}
    offset: Int = 0
    for (steps, constant), factor in parts:
        offset += constant * factor
        for loop, step in steps:
            strides[loop] = strides.get(loop, 0) + step * factor
    order = sorted((item for item in strides.items() if item[1] != 0), key=lambda i: (str(i[0].base), -hint(i[0].inside), str(i[0].inside)))
    return tuple(order), offset


@dataclass(frozen=True, eq=False)
class Expression:
    """An operation on scalars, or a leaf; ``op`` is one like it, whose attributes it has.

    ``strides`` and ``offset`` are those of a READ of kernel argument ``argument``, and of an INDEX, whose value is such a sum.
    ``loops``: what a CONTRACTION (of two factors), a MAXIMUM or a SUM goes over.  ``page``: see ``pages``.
    """

    name: str
    type: ir.Type
    operands: tuple["Expression", ...] = ()
    op: ir.Operation | None = field(default=None, repr=False)
    argument: int = -1
    strides: tuple[tuple[Loop, Int], ...] = ()
    offset: Int = 0
    loops: Loops = ()
    shape: tuple[Int, ...] = ()
    page: Hashable = None

    @property
    def constant(self) -> float | int | None:
        """The value of a constant."""
        if self.name != CONSTANT:
            return None
        value = self.op.attributes["value"]
        return value.value if isinstance(value, (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)) else None

    def walk(self, stop: Callable[["Expression"], bool] = lambda e: False) -> Iterator["Expression"]:
        """This expression and all below it, each once; not what is below one at which ``stop`` holds."""
        pending, seen = [self], set()
        while pending:
            one = pending.pop()
            if one not in seen:
                seen.add(one)
                yield one
                if not stop(one):
                    pending += one.operands

    def moves_with(self) -> set[Loop]:
        """The loops that it depends on, without those that it goes over itself."""
        found = {loop for e in self.walk() for loop, _ in e.strides}
        own = {loop.base for e in self.walk() for loop in e.loops}
        return {loop for loop in found if loop.base not in own}


class Expressions:
    """Makes expressions, each one once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Expression] = {}

    def make(self, name: str, type_: ir.Type, operands: Sequence[Expression] = (), op: ir.Operation | None = None, **leaf) -> Expression:
        said = () if op is None else tuple((a, str(op.attributes[a])) for a in op.attributes)
        key = (name, str(type_), tuple(map(id, operands)), said, tuple(sorted(leaf.items())))
        return self._made.setdefault(key, Expression(name, type_, tuple(operands), op, **leaf))

    def constant(self, value: ir.Attribute) -> Expression:
        raise NotImplementedError

    def rebuild(self, expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
        """The expression with parts replaced, from below: each by what ``change`` says."""
        known: dict[Expression, Expression] = {}

        def visit(e: Expression) -> Expression:
            if e not in known:
                new = e
                if e.name not in (CONTRACTION, MAXIMUM, SUM):
                    operands = tuple(map(visit, e.operands))
                    new = e if operands == e.operands else fold(self, self.make(e.name, e.type, operands, e.op))
                known[e] = change(new)
            return known[e]

        return visit(expression)

    def renamed(self, expression: Expression, names: Mapping[Loop, Loop]) -> Expression:
        """The expression with other loops, and with them the blocks of these loops."""
        known: dict[Expression, Expression] = {}
        whole = {mine.base: (mine.size, theirs.base) for mine, theirs in names.items() if mine.inside == theirs.inside == 1}

        def name(loop: Loop) -> Loop:
            size, base = whole.get(loop.base, (0, None))
            if loop not in names and isinstance(size, int) and 1 < loop.inside < size and loop.size == ceil(size / loop.inside):
                return replace(loop, base=base)
            return names.get(loop, loop)

        def visit(e: Expression) -> Expression:
            if e not in known:
                leaf = {}
                if e.name in (READ, INDEX):
                    strides, offset = total([((tuple((name(loop), step) for loop, step in e.strides), e.offset), 1)])
                    leaf = {"strides": strides, "offset": offset}
                    leaf |= {"argument": e.argument, "shape": e.shape} if e.name == READ else {}
                elif e.loops:
                    leaf = {"loops": tuple(map(name, e.loops))}
                known[e] = self.make(e.name, e.type, [visit(o) for o in e.operands], e.op, **leaf) if leaf or e.operands else e
            return known[e]

        return visit(expression)

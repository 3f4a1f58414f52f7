"""What one element of a tensor in a kernel is, as an expression of elements of the kernel's arguments.

A ``Tracer`` follows structured operations backwards and puts the bodies of elementwise ones into each other.  Expressions are equal where
they are one object, so what a kernel computes twice, as kernels do that were fused apart, is found to be the same.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from inferno.mlir import arith, func, ir, owner
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import reassociation
from inferno.schedule.accesses import Access, argument_index, filled, iterators, loop_sizes, maps, outputs, placed
from inferno.schedule.contraction import multiply_add
from inferno.schedule.expression_folding import Linear, fold, linear

CONTRACTION, READ, INDEX, CONSTANT = "contraction", "read", "index", "arith.constant"
MAXIMUM, SUM = "maximum", "sum"
_REDUCTIONS = {"arith.maximumf": (MAXIMUM, float("-inf")), "arith.maxnumf": (MAXIMUM, float("-inf")), "arith.addf": (SUM, 0.0)}


class NotUnderstood(Exception):
    """The kernel holds something else than what expressions are made of."""


class _Cut(Exception):
    """A loop has to be two: the tracer knows now where, and everything begins anew."""


@dataclass(frozen=True)
class Loop:
    """A part of a loop of the kernel, ``base``: ``size`` steps of ``inside`` iterations each."""

    base: Hashable
    inside: int
    size: int


Loops = tuple[Loop, ...]
"""Loops whose numbers together are one number, outermost first."""


@dataclass(frozen=True, eq=False)
class Expression:
    """An operation on scalars, or a leaf; ``op`` is one like it, whose attributes it has.

    ``strides`` and ``offset`` are those of a READ of kernel argument ``argument``, and of an INDEX, whose value is such a sum.
    ``loops``: what a CONTRACTION (of two factors), a MAXIMUM or a SUM goes over.
    """

    name: str
    type: ir.Type
    operands: tuple["Expression", ...] = ()
    op: ir.Operation | None = field(default=None, repr=False)
    argument: int = -1
    strides: tuple[tuple[Loop, int], ...] = ()
    offset: int = 0
    loops: Loops = ()
    shape: tuple[int, ...] = ()

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
        return found - {loop for e in self.walk() for loop in e.loops}


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


class Tracer(Expressions):
    """Reads a kernel function; ``NotUnderstood`` where that cannot be."""

    def __init__(self, kernel: func.FuncOp) -> None:
        super().__init__()
        self.kernel = kernel
        self.numbers = {o.operation: n for n, o in enumerate(kernel.entry_block.operations)}
        self.cuts: dict[Hashable, set[int]] = {}
        self.rows_of: Loops | None = None  # the loops that reductions go over
        self._bodies: dict[Hashable, Expression] = {}

    def run(self, read: Callable[["Tracer"], object]) -> object:
        """What ``read`` returns, with loops cut as it turns out that they must be; None where something is not understood."""
        while True:
            try:
                return read(self)
            except _Cut:
                self._bodies.clear()
                self.rows_of = None
            except NotUnderstood:
                return None

    def loops(self, base: Hashable, size: int) -> Loops:
        """A loop of the kernel in the parts that it was cut into."""
        ends = [1, *sorted(self.cuts.get(base, ())), size]
        if any(b % a for a, b in zip(ends, ends[1:])):
            raise NotUnderstood
        return tuple(Loop(base, a, b // a) for a, b in reversed(list(zip(ends, ends[1:]))) if b > a)

    def split(self, loops: Loops, sizes: Sequence[int]) -> list[Loops]:
        """The loops that dimensions of these ``sizes`` go over, which together are ``loops``."""
        if prod(loop.size for loop in loops) != prod(sizes):
            raise NotUnderstood
        left, found = list(loops), []
        for size in reversed(sizes):
            own: list[Loop] = []
            while (points := prod(loop.size for loop in own)) < size:
                loop = left.pop()
                if points * loop.size > size and size % points == 0 and (points * loop.size) % size == 0:
                    self._cut(loop, size // points)
                own.insert(0, loop)
            if points != size:
                raise NotUnderstood
            found.insert(0, tuple(own))
        return found

    def _cut(self, loop: Loop, points: int) -> None:
        self.cuts.setdefault(loop.base, set()).add(loop.inside * points)
        raise _Cut

    def element(self, value: ir.Value, dims: Sequence[Loops]) -> Expression:
        """The element of a tensor at these numbers, one for each dimension."""
        if (constant := filled(value)) is not None:
            return self.constant(constant)
        loops, exprs = list(dims), [ir.AffineExpr.get_dim(d) for d in range(len(dims))]
        if (read := self._read(value, ir.AffineMap.get(len(dims), 0, exprs), loops)) is not None:
            return read
        op = owner(value)
        if op is None:
            raise NotUnderstood
        if op.name in VIEWS:
            return self.element(op.operands[0], self._before(op, dims))
        if op.name != "linalg.generic":
            raise NotUnderstood
        result = list(op.results).index(value)
        into, kinds, sizes = maps(op)[len(op.operands) - len(op.results) + result], iterators(op), loop_sizes(op)
        if sizes is None:
            raise NotUnderstood
        found: list[Loops | None] = [None if s != 1 else () for s in sizes]
        for expr, own in zip(into.results, dims):
            if isinstance(expr, ir.AffineDimExpr) and (found[d := ir.AffineDimExpr(expr).position] is None or not own):
                found[d] = own if sizes[d] != 1 else ()
            elif own or not isinstance(expr, ir.AffineConstantExpr):
                raise NotUnderstood
        if any(f is None and k == "parallel" for f, k in zip(found, kinds)):
            raise NotUnderstood
        reduced = [d for d, f in enumerate(found) if f is None]
        return self._reduction(op, result, found, sizes, reduced) if reduced else self._yielded(op, result, tuple(found))

    def _before(self, op: ir.Operation, dims: Sequence[Loops]) -> list[Loops]:
        """The numbers of the element that a view shows at ``dims``."""
        source = list(op.operands[0].type.shape)
        if op.name == "tensor.cast":
            return list(dims)
        groups = reassociation(op)
        if op.name == "tensor.expand_shape":
            return [tuple(loop for d in group for loop in dims[d]) for group in groups]
        return [part for own, group in zip(dims, groups) for part in self.split(own, [source[d] for d in group])]

    def _reduction(self, op: ir.Operation, result: int, loops: list[Loops | None], sizes: Sequence[int], reduced: list[int]) -> Expression:
        """A contraction, or a maximum or a sum over the rows that a contraction around it goes over."""
        start, factors = filled(outputs(op)[result]), multiply_add(op)
        if start is None or not isinstance(start, ir.FloatAttr):
            raise NotUnderstood
        type_ = op.results[result].type.element_type
        if factors is not None and len(op.results) == 1 and start.value == 0:
            for d in reduced:
                loops[d] = self.loops((self.numbers[op], d), sizes[d])
            over = tuple(loop for d in reduced for loop in loops[d])
            if self.rows_of is None:
                self.rows_of = over
            operands = []
            for number, extend in factors:
                factor = self._operand(op, number, tuple(loops))
                operands.append(factor if extend is None else self.make(extend, type_, [factor]))
            return self.make(CONTRACTION, type_, operands, loops=over)
        if self.rows_of is None:
            raise NotUnderstood
        for d, own in zip(reduced, self.split(self.rows_of, [sizes[d] for d in reduced])):
            loops[d] = own
        body = op.regions[0].blocks[0]
        running = body.arguments[len(op.operands) - len(op.results) + result]
        combine = owner(body.operations[len(body.operations) - 1].operands[result])
        if combine is None or combine.name not in _REDUCTIONS or start.value != _REDUCTIONS[combine.name][1]:
            raise NotUnderstood
        terms = [v for v in combine.operands if v != running]
        if len(terms) != 1 or len(list(running.uses)) != 1:
            raise NotUnderstood
        return self.make(_REDUCTIONS[combine.name][0], type_, [self._scalar(op, terms[0], tuple(loops))], loops=self.rows_of)

    def _yielded(self, op: ir.Operation, result: int, loops: tuple[Loops, ...]) -> Expression:
        body = op.regions[0].blocks[0]
        return self._scalar(op, body.operations[len(body.operations) - 1].operands[result], loops)

    def _scalar(self, generic: ir.Operation, value: ir.Value, loops: tuple[Loops, ...]) -> Expression:
        """What a value of a body, or a constant outside of it, is at these numbers of the generic's loops."""
        key = (value, loops)
        if key not in self._bodies:
            self._bodies[key] = self._compute(generic, value, loops)
        return self._bodies[key]

    def _compute(self, generic: ir.Operation, value: ir.Value, loops: tuple[Loops, ...]) -> Expression:
        if isinstance(value, ir.BlockArgument):
            if value.owner != generic.regions[0].blocks[0] or value.arg_number >= len(generic.operands) - len(generic.results):
                raise NotUnderstood
            return self._operand(generic, value.arg_number, loops)
        op = value.owner.operation
        if op.name == "linalg.index":
            strides = self._strides(loops[ir.IntegerAttr(op.attributes["dim"]).value], 1)
            return self.make(INDEX, value.type, strides=tuple(strides.items()))
        if op.name == CONSTANT:
            return self.make(CONSTANT, value.type, op=op)
        if op.name == "tensor.extract":
            return self._extracted(op.operands[0], [linear(self._scalar(generic, v, loops)) for v in list(op.operands)[1:]])
        if len(op.regions) or len(op.results) != 1 or not op.name.startswith(("arith.", "math.")):
            raise NotUnderstood
        return fold(self, self.make(op.name, value.type, [self._scalar(generic, v, loops) for v in op.operands], op))

    def _extracted(self, table: ir.Value, places: Sequence[Linear | None]) -> Expression:
        """The element of a tensor at numbers that are sums of loops."""
        if (constant := filled(table)) is not None:
            return self.constant(constant)
        if None in places:
            raise NotUnderstood
        whole = placed(self.kernel, table, ir.AffineMap.get_identity(len(places)))
        if whole is not None:
            strides: dict[Loop, int] = {}
            for (coefficients, _), stride in zip(places, whole.strides):
                for loop, c in coefficients.items():
                    strides[loop] = strides.get(loop, 0) + stride * c
            offset = whole.offset + sum(constant * stride for (_, constant), stride in zip(places, whole.strides))
            return self._made_read(whole, strides, offset)
        dims = []
        for (coefficients, constant), size in zip(places, table.type.shape):
            own = tuple(sorted(coefficients, key=lambda loop: -coefficients[loop]))
            if constant or self._strides(own, 1) != coefficients or prod(loop.size for loop in own) != size:
                raise NotUnderstood
            dims.append(own)
        return self.element(table, dims)

    def _operand(self, generic: ir.Operation, number: int, loops: tuple[Loops, ...]) -> Expression:
        value, map_ = generic.operands[number], maps(generic)[number]
        if not isinstance(value.type, ir.RankedTensorType):
            return self._scalar(generic, value, loops)
        if (constant := filled(value)) is not None:
            return self.constant(constant)
        if (read := self._read(value, map_, loops)) is not None:
            return read
        dims = []
        for expr in map_.results:
            if isinstance(expr, ir.AffineDimExpr):
                dims.append(loops[ir.AffineDimExpr(expr).position])
            elif isinstance(expr, ir.AffineConstantExpr) and ir.AffineConstantExpr(expr).value == 0:
                dims.append(())
            else:
                raise NotUnderstood
        return self.element(value, dims)

    def _read(self, value: ir.Value, map_: ir.AffineMap, loops: Sequence[Loops]) -> Expression | None:
        """An element of a kernel argument; None for what the kernel computes."""
        found = placed(self.kernel, value, map_)
        if found is None:
            if argument_index(self.kernel, value) is not None:
                raise NotUnderstood
            return None
        strides: dict[Loop, int] = {}
        for own, stride in zip(loops, found.strides):
            for loop, steps in self._strides(own, stride).items():
                strides[loop] = strides.get(loop, 0) + steps
        return self._made_read(found, strides, found.offset)

    def _made_read(self, found: Access, strides: dict[Loop, int], offset: int) -> Expression:
        if found.argument >= len(self.kernel.type.inputs) - len(self.kernel.type.results):
            raise NotUnderstood  # what was in a destination before
        order = sorted((item for item in strides.items() if item[1]), key=lambda item: (str(item[0].base), -item[0].inside))
        return self.make(READ, found.element, argument=found.argument, strides=tuple(order), offset=offset, shape=found.shape)

    @staticmethod
    def _strides(loops: Loops, stride: int) -> dict[Loop, int]:
        """What a number that these loops are is made of, times ``stride``."""
        return {loop: stride * prod(inner.size for inner in loops[i + 1:]) for i, loop in enumerate(loops)}

    def constant(self, value: ir.Attribute) -> Expression:
        with ir.InsertionPoint.at_block_begin(self.kernel.entry_block):
            op = arith.ConstantOp(value.type, value).operation
        return self.make(CONSTANT, value.type, op=op)

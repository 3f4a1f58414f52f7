"""What one element of a tensor in a kernel is, as an expression of elements of the kernel's arguments.

A ``Tracer`` follows structured operations backwards and puts the bodies of elementwise ones into each other.
"""

from collections.abc import Callable, Hashable, Sequence
from math import ceil, prod

from inferno.mlir import arith, dim_of, func, ir, owner, terminator
from inferno.passes.generics import PARALLEL, input_count, kinds, maps, outputs, use_count
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import UnknownSize, number, reassociation, shape, slice_parts
from inferno.schedule.analysis.accesses import argument_index, filled, loop_sizes, placed
from inferno.schedule.analysis.expression_folding import Linear, fold, linear, predicate_of
from inferno.schedule.analysis.expressions import (
    CONSTANT, CONTRACTION, INDEX, MAXIMUM, ORIGIN, READ, SUM, Expression, Expressions, Loop, Loops, Place, place_of, total,
)
from inferno.schedule.analysis.pages import PAGED, PageStep, page_number, without_casts
from inferno.schedule.matmul.parser import multiply_add
from inferno.symbolic import Int, Size, Undecided, bounds, in_steps, quotient

_REDUCTIONS = {"arith.maximumf": (MAXIMUM, float("-inf")), "arith.maxnumf": (MAXIMUM, float("-inf")), "arith.addf": (SUM, 0.0)}
_QUOTIENTS = ("arith.divui", "arith.remui", "arith.divsi", "arith.remsi")
_WIDENED = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf")  # of 16 bits: those of float32, rounded
# Values that are computed one of the other: the steps of a loop are thousands, and Python follows a thousand calls.
_DEEPEST = 150


class NotUnderstood(Exception):
    """The kernel holds something else than what expressions are made of."""


class LoopNumbers(dict):
    """Loops and their numbers; NotUnderstood for a loop that has none, as of blocks of which the last one may be less."""

    def __missing__(self, loop: Loop) -> int:
        raise NotUnderstood


class _Cut(Exception):
    """A loop has to be two: the tracer knows now where, and everything begins anew."""


class Tracer(Expressions):
    """Reads a kernel function; ``NotUnderstood`` where that cannot be.  With ``pages`` an element may be in a page that another tensor says; with
    ``blocks`` it may be that of a block of numbers, of which the last one may be less: a loop over these that is none of the kernel's then."""

    def __init__(self, kernel: func.FuncOp, pages: bool = False, blocks: bool = False) -> None:
        super().__init__()
        self.kernel, self.pages, self.blocks = kernel, pages, blocks
        self.numbers = {o.operation: n for n, o in enumerate(kernel.entry_block.operations)}
        self.cuts: dict[Hashable, set[Int]] = {}
        self.rows_of: Loops | None = None  # the loops that reductions go over
        self._bodies: dict[Hashable, Expression] = {}
        self._depth = 0

    def run(self, read: Callable[["Tracer"], object]) -> object:
        """What ``read`` returns, with loops cut as it turns out that they must be; None where something is not understood."""
        while True:
            self._depth = 0
            try:
                return read(self)
            except _Cut:
                self._bodies.clear()
                self.rows_of = None
            except (NotUnderstood, UnknownSize, Undecided):
                return None

    def loops(self, base: Hashable, size: Int) -> Loops:
        """A loop of the kernel in the parts that it was cut into."""
        ends = in_steps({1, *self.cuts.get(base, ()), size})
        if ends is None or ends[-1] != size:
            raise NotUnderstood
        return tuple(Loop(base, a, quotient(b, a)) for a, b in reversed(list(zip(ends, ends[1:]))))

    def split(self, loops: Loops, sizes: Sequence[Int]) -> list[Loops]:
        """The loops that dimensions of these ``sizes`` go over, which together are ``loops``."""
        if prod(loop.size for loop in loops) != prod(sizes):
            raise NotUnderstood
        left, found = list(loops), []
        for size in reversed(sizes):
            own: list[Loop] = []
            rest: Int | None = size
            while rest is not None and rest != 1 and left:
                loop = left.pop()
                if quotient(rest, loop.size) is None and quotient(loop.size, rest) is not None:
                    self._cut(loop, rest)
                rest = quotient(rest, loop.size)
                own.insert(0, loop)
            if rest != 1:
                raise NotUnderstood
            found.insert(0, tuple(own))
        return found

    def _cut(self, loop: Loop, points: Int) -> None:
        self.cuts.setdefault(loop.base, set()).add(loop.inside * points)
        raise _Cut

    def element(self, value: ir.Value, dims: Sequence[Place]) -> Expression:
        """The element of a tensor at these numbers, one for each dimension."""
        if (constant := filled(value)) is not None:
            return self.constant(constant)
        if (read := self._read(value, ir.AffineMap.get_identity(len(dims)), dims)) is not None:
            return read
        op = owner(value)
        if op is None:
            raise NotUnderstood
        if op.name in VIEWS:
            return self.element(op.operands[0], self._before(op, dims))
        if op.name == "tensor.extract_slice":
            return self.element(op.operands[0], self._sliced(op, dims))
        if op.name != "linalg.generic":
            raise NotUnderstood
        result = list(op.results).index(value)
        into, kind, sizes = maps(op)[input_count(op) + result], kinds(op), loop_sizes(op)
        if sizes is None:
            raise NotUnderstood
        found: list[Place | None] = [None if s != 1 else ORIGIN for s in sizes]
        for expr, own in zip(into.results, dims):
            if isinstance(expr, ir.AffineDimExpr):
                found[d] = own if sizes[d := ir.AffineDimExpr(expr).position] != 1 else ORIGIN
            elif not isinstance(expr, ir.AffineConstantExpr):
                raise NotUnderstood
        if any(f is None and k == PARALLEL for f, k in zip(found, kind)):
            raise NotUnderstood
        reduced = [d for d, f in enumerate(found) if f is None]
        return self._reduction(op, result, found, sizes, reduced) if reduced else self._yielded(op, result, tuple(found))

    def _before(self, op: ir.Operation, dims: Sequence[Place]) -> list[Place]:
        """The numbers of the element that a view shows at ``dims``."""
        if op.name == "tensor.cast":
            return list(dims)
        groups = reassociation(op)
        if op.name == "tensor.expand_shape":
            made = shape(op.results[0])
            return [total((dims[d], prod(made[e] for e in group[i + 1:])) for i, d in enumerate(group)) for group in groups]
        found: list[Place] = []
        whole = shape(op.operands[0])
        for own, group in zip(dims, groups):
            sizes = [whole[d] for d in group]
            if len([s for s in sizes if s != 1]) <= 1:
                found += [own if s != 1 else ORIGIN for s in sizes]
            else:
                found += [place_of(part) for part in self.split(self.whole(own, prod(sizes)), sizes)]
        return found

    def _sliced(self, op: ir.Operation, dims: Sequence[Place]) -> list[Place]:
        """The numbers of the element that a part of a tensor has at ``dims``."""
        offsets, sizes, steps = slice_parts(op)
        kept = list(zip(dims, shape(op.results[0])))
        found: list[Place] = []
        for offset, size, step in zip(offsets, sizes, steps):
            if kept and kept[0][1] == size:
                own = kept.pop(0)[0]
            elif size == 1:
                own = ORIGIN  # a dimension that is gone
            else:
                raise NotUnderstood
            found.append(total([(own, step), (((), 1), offset)]))
        if kept:
            raise NotUnderstood
        return found

    @staticmethod
    def whole(place: Place, size: Int) -> Loops:
        """The loops that a number is, if they go over all of a dimension in order."""
        by_step = {step: loop for loop, step in place[0]}
        loops = tuple(by_step[step] for step in reversed(in_steps(by_step) or ()))
        if set(place_of(loops)[0]) != set(place[0]) or place[1] != 0 or prod(loop.size for loop in loops) != size:
            raise NotUnderstood
        return loops

    def _reduction(self, op: ir.Operation, result: int, loops: list[Place | None], sizes: Sequence[int], reduced: list[int]) -> Expression:
        """A contraction, or a maximum or a sum over the rows that a contraction around it goes over."""
        start, factors = filled(outputs(op)[result]), multiply_add(op)
        if start is None or not isinstance(start, ir.FloatAttr):
            raise NotUnderstood
        type_ = op.results[result].type.element_type
        over: Loops = ()
        if factors is not None and len(op.results) == 1 and start.value == 0:
            for d in reduced:
                own = self.loops((self.numbers[op], d), sizes[d])
                loops[d], over = place_of(own), (*over, *own)
            if self.rows_of is None:
                self.rows_of = over
            operands = []
            for number, extend in factors:
                factor = self._operand(op, number, tuple(loops))
                operands.append(factor if extend is None else self.make(extend, type_, [factor]))
            return self.make(CONTRACTION, type_, operands, loops=over)
        if self.rows_of is None:
            raise NotUnderstood
        body = op.regions[0].blocks[0]
        running = body.arguments[input_count(op) + result]
        combine, narrow = owner(terminator(body).operands[result]), None
        if combine is not None and combine.name == "arith.truncf":  # of 16 bits: sums are rounded once, as generators have them
            combine, narrow = owner(combine.operands[0]), combine
        if combine is None or combine.name not in _REDUCTIONS or start.value != _REDUCTIONS[combine.name][1]:
            raise NotUnderstood
        if narrow is not None:
            wide = [u for v in combine.operands if (u := owner(v)) is not None and u.name == "arith.extf" and u.operands[0] == running]
            if len(wide) != 1 or use_count(running) != 1:
                raise NotUnderstood
            running = wide[0].results[0]
        terms = [v for v in combine.operands if v != running]
        if len(terms) != 1 or use_count(running) != 1:
            raise NotUnderstood
        type_, count = combine.results[0].type, prod(loop.size for loop in self.rows_of)

        def at(places: Sequence[Place]) -> Expression:
            where = list(loops)
            for d, place in zip(reduced, places):
                where[d] = place
            return self._scalar(op, terms[0], tuple(where))

        if [sizes[d] for d in reduced] == [count + 1]:  # a row and one behind it
            row = self.make(_REDUCTIONS[combine.name][0], type_, [at([place_of(self.rows_of)])], loops=self.rows_of)
            found = self.make(combine.name, type_, [row, at([((), count)])], combine)
        else:
            rows = [place_of(own) for own in self.split(self.rows_of, [sizes[d] for d in reduced])]
            found = self.make(_REDUCTIONS[combine.name][0], type_, [at(rows)], loops=self.rows_of)
        return found if narrow is None else self.make("arith.truncf", narrow.results[0].type, [found], narrow)

    def _yielded(self, op: ir.Operation, result: int, loops: tuple[Place, ...]) -> Expression:
        body = op.regions[0].blocks[0]
        return self._scalar(op, terminator(body).operands[result], loops)

    def _scalar(self, generic: ir.Operation, value: ir.Value, loops: tuple[Place, ...]) -> Expression:
        """What a value of a body, or a constant outside of it, is at these numbers of the generic's loops."""
        key = (value, loops)
        if key not in self._bodies:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise NotUnderstood
            self._bodies[key] = self._compute(generic, value, loops)
            self._depth -= 1
        return self._bodies[key]

    def _compute(self, generic: ir.Operation, value: ir.Value, loops: tuple[Place, ...]) -> Expression:
        if isinstance(value.type, (ir.IndexType, ir.IntegerType)) and isinstance(size := number(value), Size):
            return self.make(INDEX, value.type, offset=size)
        if isinstance(value, ir.BlockArgument):
            if value.owner != generic.regions[0].blocks[0] or value.arg_number >= input_count(generic):
                raise NotUnderstood
            return self._operand(generic, value.arg_number, loops)
        op = value.owner.operation
        if op.name == "linalg.index":
            strides, offset = total([(loops[dim_of(op)], 1)])
            return self.make(INDEX, value.type, strides=strides, offset=offset)
        if op.name == CONSTANT:
            return self.make(CONSTANT, value.type, op=op)
        if op.name == "scf.if" and len(op.results) == 1:
            decided = self._scalar(generic, op.operands[0], loops).constant
            if decided is None:  # what the other branch reads may not be there
                raise NotUnderstood
            taken = op.regions[0 if decided else 1].blocks[0].operations
            return self._scalar(generic, taken[len(taken) - 1].operands[0], loops)
        if op.name == "tensor.extract":
            return self._extracted(op.operands[0], [self._scalar(generic, v, loops) for v in list(op.operands)[1:]], value.type)
        if len(op.regions) or len(op.results) != 1 or not op.name.startswith(("arith.", "math.")):
            raise NotUnderstood
        operands = [self._scalar(generic, v, loops) for v in op.operands]
        if op.name in _QUOTIENTS and isinstance(value.type, ir.IndexType) and (part := self._part(op.name, *operands)) is not None:
            return part
        if op.name in _WIDENED and isinstance(value.type, (ir.BF16Type, ir.F16Type)):
            wide = [fold(self, self.make("arith.extf", ir.F32Type.get(), [e])) for e in operands]
            return self.make("arith.truncf", value.type, [self.make(op.name, ir.F32Type.get(), wide)])
        return fold(self, self.make(op.name, value.type, operands, op))

    def _part(self, name: str, number: Expression, divisor: Expression) -> Expression | None:
        """The quotient of a sum of loops and a constant, or what is left over, if that is such a sum too; loops are cut for that."""
        known, by = linear(number), divisor.constant
        if known is None or by is None or by <= 0 or not all(isinstance(c, int) and c >= 0 for c in (known[1], *known[0].values())):
            return None
        whole = {loop: c for loop, c in known[0].items() if c % by == 0}
        rest = {loop: c for loop, c in known[0].items() if loop not in whole}
        for loop, c in rest.items():
            if by % c == 0 and loop.size != by // c and quotient(loop.size, by // c) is not None:
                self._cut(loop, by // c)
        if known[1] % by + sum(c * (bounds(loop.size)[1] - 1) for loop, c in rest.items()) < by:
            steps, more = ({loop: c // by for loop, c in whole.items()}, known[1] // by) if "div" in name else (rest, known[1] % by)
        elif (shifted := _shifted(known, by)) is not None:
            steps, more = shifted["rem" in name]
        else:
            return None
        strides, offset = total([((tuple(steps.items()), more), 1)])
        return self.make(INDEX, number.type, strides=strides, offset=offset)

    def _extracted(self, table: ir.Value, numbers: Sequence[Expression], type_: ir.Type) -> Expression:
        """The element of a tensor at numbers that are sums of loops; one of them may be a page's."""
        if (constant := filled(table)) is not None:
            return self.constant(constant)
        known = [linear(n) or self._block_number(n) for n in numbers]
        paged = known.index(None) if None in known else None
        if paged is None:
            return self.element(table, [_place(n) for n in known])
        size = shape(table)[paged]
        page = page_number(numbers[paged], size) if self.pages and known.count(None) == 1 and isinstance(size, int) else None
        if page is None:
            raise NotUnderstood
        steps, begin = page.inside
        first, second = (self.element(table, [(steps, begin + more) if d == paged else _place(n) for d, n in enumerate(known)]) for more in (0, 1))
        if first.name != READ:
            raise NotUnderstood
        step = PageStep((second.offset - first.offset) * page.scale, size // page.scale, page.wraps)
        return self.make(PAGED, type_, [page.read], argument=first.argument, strides=first.strides, offset=first.offset, shape=first.shape, page=step)

    def _block_number(self, number: Expression) -> Linear | None:
        """The quotient of a loop's number and a constant."""
        number = without_casts(number)
        if number.name == "arith.select" and number.operands[0].name == "arith.cmpi":  # negative numbers would count from the end
            condition, _, number = number.operands
            if predicate_of(condition) != "slt" or condition.operands[0] is not number or condition.operands[1].constant != 0:
                return None
        if not self.blocks or number.name not in ("arith.divsi", "arith.divui"):
            return None
        part = self._part(number.name, *number.operands)
        if part is not None:
            return linear(part)
        (steps, more), by = linear(number.operands[0]) or ({}, 0), number.operands[1].constant
        if len(steps) != 1 or more != 0 or by is None or by <= 0:
            return None
        (loop, step), = steps.items()
        if step != 1 or loop.inside != 1 or not isinstance(loop.size, int):
            return None
        return {Loop(loop.base, by, ceil(loop.size / by)): 1}, 0

    def _operand(self, generic: ir.Operation, number: int, loops: tuple[Place, ...]) -> Expression:
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
                dims.append(ORIGIN)
            else:
                raise NotUnderstood
        return self.element(value, dims)

    def _read(self, value: ir.Value, map_: ir.AffineMap, loops: Sequence[Place]) -> Expression | None:
        """An element of a kernel argument; None for what the kernel computes."""
        found = placed(self.kernel, value, map_)
        if found is None:
            if argument_index(self.kernel, value) is not None:
                raise NotUnderstood
            return None
        if found.argument >= len(self.kernel.type.inputs) - len(self.kernel.type.results):
            raise NotUnderstood  # what was in a destination before
        strides, offset = total(zip(loops, found.strides))
        return self.make(READ, found.element, argument=found.argument, strides=strides, offset=found.offset + offset, shape=found.shape)

    def constant(self, value: ir.Attribute) -> Expression:
        with ir.InsertionPoint.at_block_begin(self.kernel.entry_block):
            op = arith.ConstantOp(value.type, value).operation
        return self.make(CONSTANT, value.type, op=op)


def _shifted(number: Linear, by: int) -> tuple[Linear, Linear] | None:
    """The quotient and what is left over where rows of nearly ``by`` elements are read in rows of that many, each shifted by one more, as relative positions
    of attention are (Dai et al., "Transformer-XL", 2019): what is left over falls along some loops."""
    nearest = {loop: round(c / by) for loop, c in number[0].items()}
    left = {loop: c - nearest[loop] * by for loop, c in number[0].items()}
    if any(not isinstance(loop.size, int) for loop in left):
        return None
    ends = [(loop.size - 1) * c for loop, c in left.items()]
    for quotient_ in (number[1] // by, number[1] // by - 1):  # it begins with, or what falls goes below a whole one
        more = number[1] - quotient_ * by
        if quotient_ >= 0 and more + sum(e for e in ends if e < 0) >= 0 and more + sum(e for e in ends if e > 0) < by:
            return (nearest, quotient_), (left, more)
    return None


def _place(number: Linear) -> Place:
    """A sum of loops as a place."""
    return tuple(number[0].items()), number[1]

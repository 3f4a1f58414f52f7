"""``linalg.generic`` as PyTorch: operands become tensors over the loops that they depend on, the body an expression of them.

A reduction whose results combine a term with the accumulator (sums, products, extremes) is one reduction of the term, a sum
of products is an einsum.  Any other (argmax, a contraction with its epilogue inside) is a Python loop over the steps,
in order, with all parallel loops at once: slow, and what the operation means.
"""

import string

from inferno.mlir import backward_slice, ir, is_read, owner
from inferno.passes.affine import add, linear
from inferno.passes.generics import REDUCTION, body, inputs, kinds, loop_sizes, maps, outputs, use_count, yielded
from inferno.targets.torch_source.scalars import Scalars
from inferno.targets.torch_source.values import Expr, Inexpressible, Lines, align, element, permute, shape_of, spread, union

# How terms are reduced, the value that changes nothing, and how two are combined.
_REDUCTIONS = {
    "arith.addf": ("sum", 0.0, "{0} + {1}"), "arith.addi": ("sum", 0, "{0} + {1}"),
    "arith.mulf": ("prod", 1.0, "{0} * {1}"), "arith.muli": ("prod", 1, "{0} * {1}"),
    "arith.maximumf": ("amax", float("-inf"), "torch.maximum({0}, {1})"), "arith.minimumf": ("amin", float("inf"), "torch.minimum({0}, {1})"),
    "arith.maxsi": ("amax", None, "torch.maximum({0}, {1})"), "arith.minsi": ("amin", None, "torch.minimum({0}, {1})"),
}
_REDUCTIONS_BOOL = {
    "arith.andi": ("all", True, "{0} & {1}"), "arith.ori": ("any", False, "{0} | {1}"),
    "arith.maxui": ("any", False, "{0} | {1}"), "arith.minui": ("all", True, "{0} & {1}"),
}


class Generic:
    """Emits one generic.  ``tensors`` gives the Expr of a whole tensor (its own dimensions as loops), ``fills`` that of a fill's number."""

    def __init__(self, op: ir.Operation, lines: Lines, tensor, fill, scalars: dict[ir.Value, Expr]) -> None:
        self.op, self.lines = op, lines
        self._tensor, self._fill, self._outside = tensor, fill, scalars
        sizes = loop_sizes(op)
        if any(s is None for s in sizes):
            raise Inexpressible("linalg.generic with a loop of unknown size")
        self.sizes: list[int] = sizes
        self.kinds = kinds(op)
        self.parallel = tuple(d for d, k in enumerate(self.kinds) if k != REDUCTION)
        self.reductions = tuple(d for d, k in enumerate(self.kinds) if k == REDUCTION)
        count = len(inputs(op))
        self.result_dims = [self._result_dims(m) for m in maps(op)[count:]]

    def emit(self) -> list[Expr]:
        """The results, each with the result's own dimensions."""
        if not self.reductions:
            return self._elementwise()
        found = self._reduce()
        return found if found is not None else self._loop()

    def _result_dims(self, map_: ir.AffineMap) -> list[int]:
        """The loops of a result's dimensions; one that is always 0 is of size 1 and has none."""
        found = list(map_.results)
        loops = [ir.AffineDimExpr(e).position for e in found if isinstance(e, ir.AffineDimExpr)]
        zeros = sum(isinstance(e, ir.AffineConstantExpr) and ir.AffineConstantExpr(e).value == 0 for e in found)
        if sorted(loops) != list(self.parallel) or len(loops) + zeros != len(found):
            raise Inexpressible(f"a result with the indexing map {map_}")
        return loops

    def operand(self, value: ir.Value, map_: ir.AffineMap) -> Expr:
        """A tensor, or a scalar, over the loops that its map names."""
        if not isinstance(value.type, ir.RankedTensorType):
            return self._outside[value]
        tensor = self._tensor(value)
        found = list(map_.results)
        plain = [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in found]
        constants = [isinstance(e, ir.AffineConstantExpr) for e in found]
        if all(p is not None or c for p, c in zip(plain, constants)) and len({p for p in plain if p is not None}) == len(found) - sum(constants):
            if any(constants):
                index = ", ".join(str(ir.AffineConstantExpr(e).value) if c else ":" for e, c in zip(found, constants))
                tensor = Expr(f"{tensor.operand}[{index}]")
            order = [p for p in plain if p is not None]
            ascending = sorted(order)
            return Expr(permute(tensor, [order.index(d) for d in ascending]).text, tuple(ascending))
        return self._strided(tensor, shape_of(value.type), found)

    def _strided(self, tensor: Expr, shape: tuple[int, ...], results: list[ir.AffineExpr]) -> Expr:
        """A tensor through a map of sums (a convolution's windows): a view with a stride for each loop, else looked up by index."""
        parts = [linear(e, len(self.sizes)) for e in results]
        if None in parts:
            return self._indexed(tensor, results)
        place, unit = ((0,) * len(self.sizes), 0), 1
        for size, part in reversed(list(zip(shape, parts))):
            place, unit = add(place, part, unit), unit * size
        strides, offset = place
        if offset < 0 or any(s < 0 for s in strides):
            return self._indexed(tensor, results)
        loops = tuple(d for d in range(len(strides)) if any(coefficients[d] for coefficients, _ in parts))
        sizes, steps = ([self.sizes[d] for d in loops], [strides[d] for d in loops])
        return self.lines.bind(Expr(f"{tensor.operand}.contiguous().as_strided({tuple(sizes)}, {tuple(steps)}{f', {offset}' if offset else ''})", loops))

    def _indexed(self, tensor: Expr, results: list[ir.AffineExpr]) -> Expr:
        found = [_affine_text(e, self._arange) for e in results]
        loops = union(found)
        return self.lines.bind(Expr(f"{tensor.operand}[{', '.join(align(f, loops).text for f in found)}]", loops))

    def _arange(self, dim: int) -> Expr:
        return Expr(f"torch.arange({self.sizes[dim]})", (dim,))

    def _body(self, known: dict[ir.Value, Expr], index) -> Scalars:
        """Emit the whole body; every value that it needs is known afterwards."""
        scalars = Scalars(self.lines, {**self._outside, **known}, lambda v: self._tensor(v).operand, index)
        for op in body(self.op).operations:
            if op.operation.name != "linalg.yield":
                scalars.emit(op.operation)
        return scalars

    def _arguments(self) -> dict[ir.Value, Expr]:
        """The body's arguments for the inputs, and for the outputs' old values where the loops are all parallel."""
        known = {}
        arguments = list(body(self.op).arguments)
        values = [*inputs(self.op), *outputs(self.op)]
        for i, (argument, value, map_) in enumerate(zip(arguments, values, maps(self.op))):
            old = i >= len(inputs(self.op))
            if is_read(argument) and not (old and self.reductions):
                known[argument] = self.operand(value, map_)
        return known

    def _elementwise(self) -> list[Expr]:
        scalars = self._body(self._arguments(), self._arange)
        made = []
        for value, result, order in zip(yielded(self.op), self.op.results, self.result_dims):
            made.append(self._ordered(scalars.get(value), order, result.type))
        return made

    def _ordered(self, expr: Expr, order: list[int], type_: ir.Type) -> Expr:
        """A value over all parallel loops as a tensor in the order of the result's dimensions."""
        if expr.literal is not None:
            return Expr(f"torch.full({shape_of(type_)}, {expr.text}, dtype={self.lines.dtype(type_)})")
        return self._shaped(spread(expr, self.parallel, self.sizes), order, type_)

    def _shaped(self, expr: Expr, order: list[int], type_: ir.Type) -> Expr:
        """From all parallel loops to the result's dimensions."""
        moved = permute(expr, [self.parallel.index(d) for d in order])
        return moved if len(shape_of(type_)) == len(order) else Expr(f"{moved.operand}.reshape({shape_of(type_)})")

    def _reduce(self) -> list[Expr] | None:
        """Each result as one reduction of a term; None where the body is something else."""
        block, count = body(self.op), len(inputs(self.op))
        olds = list(block.arguments)[count:]
        terms = [_term(block, old, value) for old, value in zip(olds, yielded(self.op))]
        if any(t is None or _depends(t[1], olds, block) for t in terms):
            return None
        if any(_kind(t[0], element(r.type)) is None for t, r in zip(terms, self.op.results)):
            return None
        combining = {t[0] for t in terms}
        known = self._arguments()
        scalars = Scalars(self.lines, {**self._outside, **known}, lambda v: self._tensor(v).operand, self._arange)
        products = {owner(t[1]) for t in terms if self._is_product(t)}
        for op in block.operations:
            op = op.operation
            if op.name != "linalg.yield" and op not in combining and op not in products:
                scalars.emit(op)
        made = []
        for (combiner, term), result, order, start in zip(terms, self.op.results, self.result_dims, outputs(self.op)):
            product = owner(term) if owner(term) in products else None
            if product is not None and self._fits_einsum([scalars.get(v) for v in product.operands]):
                reduced = self._einsum([scalars.get(v) for v in product.operands])
            else:
                if product is not None:
                    scalars.emit(product)
                reduced = self._reduction(combiner, scalars.get(term), result.type)
            made.append(self._with_start(combiner, reduced, order, start, result.type))
        return made

    def _is_product(self, term: tuple) -> bool:
        multiply = owner(term[1])
        return (
            term[0].name == "arith.addf" and multiply is not None and multiply.name == "arith.mulf" and multiply.parent == self.op
            and use_count(term[1]) == 1 and all(s > 0 for s in self.sizes)
        )

    def _fits_einsum(self, factors: list[Expr]) -> bool:
        return all(f.literal is None for f in factors) and set(self.reductions) <= set(union(factors))

    def _einsum(self, factors: list[Expr]) -> Expr:
        letters = lambda loops: "".join(string.ascii_letters[d] for d in loops)  # noqa: E731
        kept = tuple(d for d in union(factors) if d in self.parallel)
        text = f'torch.einsum("{",".join(letters(f.loops) for f in factors)}->{letters(kept)}", {", ".join(f.text for f in factors)})'
        return Expr(text, kept)

    def _reduction(self, combiner: ir.Operation, term: Expr, type_: ir.Type) -> Expr | None:
        """None where there is nothing to reduce, and the start is the result."""
        if any(self.sizes[d] == 0 for d in self.reductions):
            return None
        name, dtype = _kind(combiner, element(type_))[0], self.lines.dtype(type_)
        if term.literal is not None:
            term = self.lines.tensor(term, type_)
        loops = tuple(sorted({*term.loops, *self.reductions}))
        full = spread(term, loops, self.sizes)
        dims = tuple(loops.index(d) for d in self.reductions)
        kept = tuple(d for d in loops if d in self.parallel)
        if name in ("prod", "any", "all"):
            text = full.operand
            for d in reversed(dims):
                text += f".{name}({d}{f', dtype={dtype}' if name == 'prod' else ''})"
            return Expr(text, kept)
        extra = f", dtype={dtype}" if name == "sum" and element(type_) not in ("f32", "f64", "f16", "bf16") else ""
        return Expr(f"{full.operand}.{name}({dims if len(dims) > 1 else dims[0]}{extra})", kept)

    def _with_start(self, combiner: ir.Operation, reduced: Expr | None, order: list[int], start: ir.Value, type_: ir.Type) -> Expr:
        number = self._fill(start)
        _, identity, text = _kind(combiner, element(type_))
        if reduced is None:
            return self._tensor(start)
        made = self._ordered(reduced, order, type_)
        if number is not None and number.literal is not None and identity is not None and number.literal == identity:
            return made
        old = self._tensor(start)
        return Expr(text.format(old.operand, made.operand), atomic=text.startswith("torch."))

    def _loop(self) -> list[Expr]:
        """Step by step."""
        lines, count = self.lines, len(inputs(self.op))
        arguments = list(body(self.op).arguments)
        operands = {a: self.operand(v, m) for a, v, m in zip(arguments[:count], inputs(self.op), maps(self.op)) if is_read(a)}
        names = {a: (lines.bind(Expr(e.text, e.loops)) if e.literal is None else e) for a, e in operands.items()}
        accumulators = []
        for start, order in zip(outputs(self.op), self.result_dims):
            name = lines.name()
            old = self._tensor(start)
            if len(shape_of(start.type)) != len(order):
                old = Expr(f"{old.operand}.reshape({tuple(self.sizes[d] for d in order)})")
            over = permute(old, [order.index(d) for d in self.parallel])
            lines.add(f"{name} = {over.text}")
            accumulators.append(name)
        steps = {d: f"step{d}" for d in self.reductions}  # i1, i8 and so on are dtypes
        outer = lines.indent
        for d in self.reductions:
            lines.add(f"for {steps[d]} in range({self.sizes[d]}):")
            lines.indent += "    "
        known = {a: Expr(n, self.parallel) for a, n in zip(arguments[count:], accumulators)}
        for argument, expr in names.items():
            index = ", ".join(steps.get(d, ":") for d in expr.loops)
            sliced = any(d in steps for d in expr.loops)
            known[argument] = Expr(f"{expr.operand}[{index}]", tuple(d for d in expr.loops if d not in steps)) if sliced else expr

        def index(dim: int) -> Expr:
            return Expr(f"torch.tensor({steps[dim]})") if dim in steps else self._arange(dim)

        scalars = self._body(known, index)
        values = []
        for value, result in zip(yielded(self.op), self.op.results):
            expr = scalars.get(value)
            expr = Expr(f"torch.full({tuple(self.sizes[d] for d in self.parallel)}, {expr.text}, dtype={lines.dtype(result.type)})", self.parallel) \
                if expr.literal is not None else spread(expr, self.parallel, self.sizes)
            values.append(expr.text)
        lines.add(f"{', '.join(accumulators)} = {', '.join(values)}")
        lines.indent = outer
        return [self._shaped(Expr(n), order, r.type) for n, order, r in zip(accumulators, self.result_dims, self.op.results)]


def _kind(combiner: ir.Operation, type_: str) -> tuple | None:
    return (_REDUCTIONS_BOOL if type_ == "i1" else _REDUCTIONS).get(combiner.name)


def _term(block: ir.Block, old: ir.Value, value: ir.Value) -> tuple[ir.Operation, ir.Value] | None:
    """(the operation that combines, the term) where ``value`` is the old value combined with a term."""
    op = owner(value)
    if op is None or op.parent != block.owner.operation or len(op.operands) != 2 or list(op.operands).count(old) != 1 or use_count(old) != 1:
        return None
    if use_count(value) != 1:
        return None
    return op, next(v for v in op.operands if v != old)


def _depends(value: ir.Value, on: list[ir.Value], block: ir.Block) -> bool:
    """Whether a body computes ``value`` from one of ``on``."""
    return any(v in on for v in backward_slice([value], lambda made: made.parent == block.owner.operation))


def _affine_text(expr: ir.AffineExpr, arange) -> Expr:
    """An affine expression of loops as indices."""
    if isinstance(expr, ir.AffineConstantExpr):
        return Expr(str(ir.AffineConstantExpr(expr).value))
    if isinstance(expr, ir.AffineDimExpr):
        return arange(ir.AffineDimExpr(expr).position)
    binary = ir.AffineBinaryExpr(expr)
    a, b = _affine_text(binary.lhs, arange), _affine_text(binary.rhs, arange)
    sign = (
        "+" if isinstance(expr, ir.AffineAddExpr) else "*" if isinstance(expr, ir.AffineMulExpr) else "%" if isinstance(expr, ir.AffineModExpr)
        else "//" if isinstance(expr, ir.AffineFloorDivExpr) else None
    )
    if sign is None:
        raise Inexpressible(f"the indexing map's {expr}")
    loops = union((a, b))
    return Expr(f"({align(a, loops).operand} {sign} {align(b, loops).operand})", loops)

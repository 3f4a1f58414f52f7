"""Take fused contractions apart: [elementwise maps of the operands] -> multiply-add -> [elementwise map of the result].

Generators and the cpu target read this form.  Operands that are only extended, both from one type (bf16 to
f32), need no map: the extensions stay in the multiply-add.
"""

from inferno.mlir import clone_onto, dim_of, func, ir, linalg, owner, tensor, walk
from inferno.passes.affine import projection, renumber
from inferno.passes.contraction import EXTENSIONS, FusedContraction, alike, is_contraction, parse_fused
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, inputs, kinds, loop_sizes, maps, outputs, substitute
from inferno.passes.shapes import function_of
from inferno.passes.size_values import mixed, sizes as tensor_sizes


def split_contractions(module: ir.Module | func.FuncOp, ended: bool = False) -> None:
    """Split every fused contraction whose sizes are known, be it as expressions; plain contractions stay as they are, and with ``ended`` those of whose
    results nothing is computed."""
    for op in walk(module.operation, "linalg.generic"):
        fused = parse_fused(op)
        if fused is None or is_contraction(op) or (ended and fused.value is None):
            continue
        if all(s is not None for s in loop_sizes(op)) and _multiplies_along_all(fused):
            split_contraction(fused)


def split_contraction(fused: FusedContraction) -> None:
    """Split one."""
    op = fused.op
    with ir.InsertionPoint(op), op.location:
        left, right = (_operand(fused, v) for v in (fused.lhs, fused.rhs))
        contraction = _multiply_add(fused, left, right)
        results = [contraction.results[0]]
        if fused.value is not None:
            value = _epilogue(fused, contraction.results[0])
            results = [value] if len(op.results) == 1 else [contraction.results[0], value]
    for old, new in zip(op.results, results):
        old.replace_all_uses_with(new)
    op.erase()


def _multiplies_along_all(fused: FusedContraction) -> bool:
    """Whether the factors and the sum go over all loops: an operand that nothing is computed of may be all that says how long one is."""
    op, used = fused.op, set()
    for factor in (fused.lhs, fused.rhs):
        operations, arguments = _slice(op, factor)
        used |= {ir.AffineDimExpr(e).position for a in arguments for e in maps(op)[a].results if isinstance(e, ir.AffineDimExpr)}
        used |= {dim_of(o) for o in operations if o.name == "linalg.index"}
    return used | {d for d, kind in enumerate(kinds(op)) if kind != REDUCTION} == set(range(len(kinds(op))))


def _slice(op: ir.Operation, value: ir.Value, stop: ir.Value | None = None) -> tuple[list[ir.Operation], list[int]]:
    """The body's operations that ``value`` needs, in order, and the numbers of the block arguments; ``stop`` is not entered."""
    needed: list[ir.Operation] = []
    arguments: set[int] = set()
    pending = [value]
    while pending:
        v = pending.pop()
        if stop is not None and v == stop:
            continue
        if isinstance(v, ir.BlockArgument):
            if v.owner == body(op):
                arguments.add(v.arg_number)
            continue
        made = v.owner.operation
        if made.parent != op or made in needed:
            continue
        pending += made.operands
        for inner in walk(made) if len(made.regions) else ():
            pending += inner.operands
        needed.append(made)
    ordered = [o.operation for o in body(op).operations if o.operation in needed]
    return ordered, sorted(arguments)


def _replay(operations: list[ir.Operation], known: dict[ir.Value, ir.Value], loops: dict[int, int]) -> None:
    """Clone body operations at the insertion point; ``known`` maps old values to new ones and is extended."""
    for op in operations:
        if op.name == "linalg.index":
            known[op.results[0]] = linalg.IndexOp(loops[dim_of(op)]).result
            continue
        clone_onto(op, known)


def _operand(fused: FusedContraction, value: ir.Value) -> tuple[ir.Value, ir.AffineMap, ir.Operation | None]:
    """(tensor, map, extension) of one factor; a map before the multiply-add is made where the body computes more."""
    op, extension = fused.op, None
    producer = owner(value)
    if producer is not None and producer.name in EXTENSIONS and alike(fused):
        extension, value = producer, producer.operands[0]
    if isinstance(value, ir.BlockArgument) and value.owner == body(op):
        return inputs(op)[value.arg_number], maps(op)[value.arg_number], extension
    operations, arguments = _slice(op, value)
    count = len(kinds(op))
    used = {ir.AffineDimExpr(e).position for a in arguments for e in maps(op)[a].results if isinstance(e, ir.AffineDimExpr)}
    used |= {dim_of(o) for o in operations if o.name == "linalg.index"}
    order = sorted(used)
    place = {d: i for i, d in enumerate(order)}
    exprs = renumber(order, count)
    sizes = loop_sizes(op)
    empty = tensor.EmptyOp(mixed([sizes[d] for d in order], function_of(op)), value.type).result
    identity = ir.AffineMap.get_identity(len(order))

    def fill(block_arguments: list[ir.Value]) -> list[ir.Value]:
        known = {body(op).arguments[a]: v for a, v in zip(arguments, block_arguments)}
        _replay(operations, known, place)
        return [known.get(value, value)]  # a constant is outside of the body

    made = build(
        [inputs(op)[a] for a in arguments], [empty], [*(substitute(maps(op)[a], exprs, len(order)) for a in arguments), identity],
        [PARALLEL] * len(order), fill, op.location,
    )
    return made.results[0], projection(order, count), extension


def _fill(start: ir.Value) -> ir.Operation | None:
    made = owner(start)
    return made if made is not None and made.name == "linalg.fill" else None


def _multiply_add(fused: FusedContraction, left, right) -> ir.Operation:
    op = fused.op
    start = outputs(op)[0]
    map_ = maps(op)[len(inputs(op))]
    fill = _fill(start)
    if fill is not None and fused.value is not None and len(op.results) == 1:
        # The accumulator had the result's tensor; now it has one of its own.
        empty = tensor.EmptyOp(tensor_sizes(start, function_of(op)), start.type.element_type).result
        start = linalg.fill(fill.operands[0], outs=[empty])

    def fill_body(arguments: list[ir.Value]) -> list[ir.Value]:
        factors = []
        for (_, _, extension), argument in zip((left, right), arguments):
            if extension is None:
                factors.append(argument)
                continue
            new = extension.clone()
            new.operands[0] = argument
            factors.append(new.results[0])
        add, multiply = owner(fused.sum), None
        multiply = next(owner(v) for v in add.operands if owner(v) is not None and owner(v).name in ("arith.mulf", "arith.muli"))
        product = multiply.clone()
        product.operands[0], product.operands[1] = factors
        total = add.clone()
        total.operands[0], total.operands[1] = arguments[2], product.results[0]
        return [total.results[0]]

    return build([left[0], right[0]], [start], [left[1], right[1], map_], kinds(op), fill_body, op.location)


def _epilogue(fused: FusedContraction, total: ir.Value) -> ir.Value:
    op = fused.op
    operations, arguments = _slice(op, fused.value, stop=fused.sum)
    parallel = [i for i, k in enumerate(kinds(op)) if k != REDUCTION]
    place = {d: i for i, d in enumerate(parallel)}
    exprs = renumber(parallel, len(kinds(op)))
    count = len(inputs(op))
    destination = outputs(op)[fused.result]
    if len(op.results) == 1:
        fill = _fill(destination)  # what the accumulator was filled into, if it was; its start is not the result's to write to
        destination = fill.operands[1] if fill is not None else tensor.EmptyOp(tensor_sizes(destination, function_of(op)), total.type.element_type).result
    narrow = lambda m: substitute(m, exprs, len(parallel))  # noqa: E731

    def fill(block_arguments: list[ir.Value]) -> list[ir.Value]:
        known = {fused.sum: block_arguments[0], **{body(op).arguments[a]: v for a, v in zip(arguments, block_arguments[1:])}}
        _replay(operations, known, place)
        return [known.get(fused.value, fused.value)]  # a constant from outside of the body stays there

    made = build(
        [total, *(inputs(op)[a] for a in arguments)], [destination],
        [narrow(maps(op)[count]), *(narrow(maps(op)[a]) for a in arguments), narrow(maps(op)[count + fused.result])],
        [PARALLEL] * len(parallel), fill, op.location,
    )
    return made.results[0]

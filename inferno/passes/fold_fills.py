"""Products of a tensor with one number everywhere are sums: the state that a recurrence starts from is often zeros.

``x @ zeros`` has the same number in all columns, the sum over each row of ``x`` times zero, which is NaN where ``x`` is not finite.  So that is computed
for each row alone, and who reads the product reads it there.  Only of batches: a state that one weight multiplies is a recurrent network's, whose first
step is like all others (``roll-steps``).
"""

from inferno.mlir import ir, linalg, owner, tensor, walk
from inferno.passes.contraction import has_windows, is_sum_of_products
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, kinds, maps, outputs, substitute


def fold_fills(module: ir.Module) -> None:
    """Rewrite contractions of known sizes."""
    for op in walk(module.operation, "linalg.generic"):
        if is_sum_of_products(op) and not has_windows(op) and op.results[0].type.has_static_shape:
            for number in range(2):
                if (scalar := _constant(inputs(op)[number])) is not None and _fold(op, number, scalar):
                    break


def _constant(value: ir.Value) -> ir.Value | None:
    """The number that all elements of a tensor are."""
    fill = owner(value)
    made = owner(fill.operands[0]) if fill is not None and fill.name == "linalg.fill" else None
    return fill.operands[0] if made is not None and made.name == "arith.constant" else None


def _fold(op: ir.Operation, number: int, scalar: ir.Value) -> bool:
    """Replace a contraction whose operand ``number`` is filled; whether its loops allow that."""
    start, read, written = _constant(outputs(op)[0]), maps(op)[1 - number], dims(maps(op)[2])
    used, filled = dims(read), dims(maps(op)[number])
    if used is None or filled is None or not any(d in used and kinds(op)[d] == PARALLEL for d in filled):
        return False
    if start is None or written is None or any(d not in used for d, kind in enumerate(kinds(op)) if kind != PARALLEL):
        return False
    loops = sorted(used)
    names = [ir.AffineDimExpr.get(loops.index(d)) if d in loops else ir.AffineConstantExpr.get(0) for d in range(len(kinds(op)))]
    left = [d for d in written if d in used]
    type_, sizes = op.results[0].type, dict(zip(written, op.results[0].type.shape))
    with ir.InsertionPoint(op), op.location:
        total = linalg.fill(start, outs=[tensor.EmptyOp([sizes[d] for d in left], type_.element_type).result])
        indexing = [substitute(read, names, len(loops)), ir.AffineMap.get(len(loops), 0, [ir.AffineDimExpr.get(loops.index(d)) for d in left])]

        def term(given: list[ir.Value]) -> list[ir.Value]:
            factors = [scalar, given[0]] if number == 0 else [given[0], scalar]
            return clone_body(body(op), [*factors, given[1]], names)

        made = build([inputs(op)[1 - number]], [total], indexing, [kinds(op)[d] for d in loops], term, op.location).results[0]
        if len(left) != len(written):
            wide = ir.AffineMap.get(len(written), 0, [ir.AffineDimExpr.get(written.index(d)) for d in left])
            empty = tensor.EmptyOp(type_.shape, type_.element_type).result
            identity = ir.AffineMap.get_identity(len(written))
            made = build([made], [empty], [wide, identity], [PARALLEL] * len(written), lambda given: given[:1], op.location).results[0]
    op.results[0].replace_all_uses_with(made)
    op.erase()
    return True

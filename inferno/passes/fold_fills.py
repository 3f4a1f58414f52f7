"""Rewrite products of a tensor with a constant-filled one as sums: a recurrence's first state is often zeros, and so are DETR's queries.

``x @ zeros`` has the same number in all columns, the sum over each row of ``x`` times zero, which is NaN where ``x`` is not finite.  So that is computed
for each row alone, and who reads the product reads it there.  So is a product with one row that is repeated, as of the token that asks for a summary.
Zeros are so of batches, or of a matrix that nothing else reads: what a weight multiplies again later is a recurrent network's state, whose first step is like
all others (``roll-steps``).
"""

from inferno.mlir import ir, linalg, owner, tensor, walk
from inferno.passes.affine import projection, renumber
from inferno.passes.contraction import has_windows, is_sum_of_products
from inferno.passes.generics import (
    PARALLEL, body, build, clone_body, dims, inputs, is_generic, kinds, knows_sizes, maps, outputs, substitute, use_count, yielded,
)
from inferno.passes.shapes import function_of, shape
from inferno.passes.size_values import mixed


def fold_fills(module: ir.Module) -> None:
    """Rewrite contractions."""
    for op in walk(module.operation, "linalg.generic"):
        if is_sum_of_products(op) and not has_windows(op) and knows_sizes(op):
            for number in range(2):
                if (scalar := _constant(inputs(op)[number])) is not None and _fold(op, [1 - number], scalar):
                    break
            else:
                _fold(op, [0, 1])


def _constant(value: ir.Value) -> ir.Value | None:
    """The number that all elements of a tensor are."""
    made, number = owner(value), None
    if made is not None and made.name == "linalg.fill":
        number = made.operands[0]
    elif is_generic(made) and len(made.results) == 1 and maps(made)[-1].is_permutation:  # as zeros of sizes that vary are imported
        number = yielded(made)[0]
    constant = owner(number) if number is not None else None
    inside = constant is not None and is_generic(made) and constant.block == body(made)
    return number if constant is not None and constant.name == "arith.constant" and not inside else None


def _fold(op: ir.Operation, kept: list[int], scalar: ir.Value | None = None) -> bool:
    """Replace a contraction by one of the operands that are ``kept``, over the loops that walk along them, and of a number in the place of the other;
    whether its loops allow that."""
    start, written, every = _constant(outputs(op)[0]), dims(maps(op)[2]), [dims(m) for m in maps(op)[:2]]
    if start is None or written is None or None in every:
        return False
    used = set().union(*(every[i] for i in kept))
    if any(d not in used for d, kind in enumerate(kinds(op)) if kind != PARALLEL):
        return False
    batched = scalar is not None and any(d in used and kinds(op)[d] == PARALLEL for d in every[1 - kept[0]])
    begins = scalar is not None and owner(scalar).attributes["value"].value == 0  # a gradient begins with ones
    if not batched and (used >= set(written) or (begins and use_count(inputs(op)[kept[0]]) > 1)):
        return False
    loops = sorted(used)
    names = renumber(loops, len(kinds(op)))
    left = [d for d in written if d in used]
    element, sizes, function = op.results[0].type.element_type, dict(zip(written, shape(op.results[0]))), function_of(op)
    with ir.InsertionPoint(op), op.location:
        total = linalg.fill(start, outs=[tensor.EmptyOp(mixed([sizes[d] for d in left], function), element).result])
        indexing = [substitute(maps(op)[i], names, len(loops)) for i in kept]
        indexing.append(projection([loops.index(d) for d in left], len(loops)))

        def term(given: list[ir.Value]) -> list[ir.Value]:
            factors = dict(zip(kept, given))
            return clone_body(body(op), [factors.get(0, scalar), factors.get(1, scalar), given[-1]], names)

        made = build([inputs(op)[i] for i in kept], [total], indexing, [kinds(op)[d] for d in loops], term, op.location).results[0]
        if len(left) != len(written):
            wide = projection([written.index(d) for d in left], len(written))
            empty = tensor.EmptyOp(mixed([sizes[d] for d in written], function), element).result
            identity = ir.AffineMap.get_identity(len(written))
            made = build([made], [empty], [wide, identity], [PARALLEL] * len(written), lambda given: given[:1], op.location).results[0]
    op.results[0].replace_all_uses_with(made)
    op.erase()
    return True

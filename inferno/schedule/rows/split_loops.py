"""Split the loops of a reshaped result, whose body divides indices by a size, into the loops that it had before."""

from collections.abc import Sequence

from inferno.mlir import dim_of, ir, owner, tensor, walk
from inferno.passes.affine import linear_map
from inferno.passes.generics import PARALLEL, body, build, clone_body, evaluate, inputs, maps
from inferno.schedule.analysis.affine_extracts import linear_place

_DIVISIONS = ("arith.divui", "arith.remui")


def split_loops(op: ir.Operation) -> ir.Operation:
    """The same beside it with two loops for each whose places are divided by one number alone, as those of a reshaped result are."""
    sizes = list(op.results[0].type.shape)
    if op.name == "linalg.copy" or maps(op)[-1] != ir.AffineMap.get_identity(len(sizes)):
        return op
    divisors: dict[int, set[int]] = {}
    for o in walk(op):
        if o.name not in _DIVISIONS or (made := owner(o.operands[0])) is None or made.name != "linalg.index":
            continue
        number = linear_place(o.operands[1], 0)
        divisors.setdefault(dim_of(made), set()).add(number[1] if number is not None else 0)
    by = {d: min(n) for d, n in divisors.items() if len(n) == 1 and min(n) > 1 and sizes[d] % min(n) == 0}
    if not by:
        return op
    first = [d + sum(e in by for e in range(d)) for d in range(len(sizes))]
    new = [n for d, size in enumerate(sizes) for n in ((size // by[d], by[d]) if d in by else (size,))]
    own = [ir.AffineExpr.get_dim(p) * by[d] + ir.AffineExpr.get_dim(p + 1) if d in by else ir.AffineExpr.get_dim(p) for d, p in enumerate(first)]
    walked, block = ir.AffineMap.get(len(new), 0, own), body(op)
    with ir.InsertionPoint(op), op.location:
        out = tensor.EmptyOp(new, op.results[0].type.element_type).result
        indexing = [*(ir.AffineMap.get(len(new), 0, [e.compose(walked) for e in m.results]) for m in maps(op)[:-1]), ir.AffineMap.get_identity(len(new))]
        made = build(inputs(op), [out], indexing, [PARALLEL] * len(new), lambda arguments: clone_body(block, arguments, list(walked.results)), op.location)
    for o in walk(made):
        if o.name in _DIVISIONS and (place := _divided(o, new)) is not None:
            with ir.InsertionPoint(o), o.location:
                o.results[0].replace_all_uses_with(evaluate(place))
            o.erase()
    return made


def _divided(op: ir.Operation, sizes: Sequence[int]) -> ir.AffineExpr | None:
    """A quotient or a remainder of loops as a sum of these, where each is a part of the one or of the other."""
    place, number = linear_place(op.operands[0], len(sizes)), linear_place(op.operands[1], 0)
    if place is None or number is None or place[1] or number[1] < 1 or min(place[0], default=0) < 0:
        return None
    low = [step if step % number[1] else 0 for step in place[0]]
    if sum(step * (size - 1) for step, size in zip(low, sizes)) >= number[1]:
        return None
    steps = low if op.name == "arith.remui" else [step // number[1] for step in place[0]]
    return linear_map([(tuple(steps), 0)], len(sizes)).results[0]

"""Reshapes move out of the way of fusion: what is computed on ``expand_shape(x)`` is computed on x and expanded after.

Linear on [batch, length, features] is a matmul on [batch * length, features], expanded again; the bias, the activation and
the residual that follow are on the expanded shape.  Collapsing their loops instead lets them fuse with the matmul, and the
reshape ends up where it is free: on an argument, a result, or next to its inverse, where both vanish.
"""

from collections.abc import Sequence

from inferno.mlir import ir, owner, rewrite, tensor, users, walk
from inferno.passes.affine import projection
from inferno.passes.contraction import is_factor, is_sum_of_products
from inferno.passes.generics import body, build, clone_body, dims, inputs, is_copy, is_generic, is_widening, knows_sizes, kinds, maps, use_count
from inferno.passes.greedy import rewrite_greedily
from inferno.passes.name_symbols import common_groups, expand
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import function_of, reassociation_attribute, shape, static
from inferno.passes.shapes import reassociation as reassociation_of
from inferno.passes.size_values import mixed
from inferno.symbolic import Int, product


def propagate_reshapes(module: ir.Module) -> None:
    """Move ``tensor.expand_shape`` down through every generic whose loops can be collapsed to match.

    ``tensor.collapse_shape`` moves up through a transpose or broadcast that it alone reads: the transpose of a batch of matrices
    is one too when the batch is flattened, and folds into the contraction.  So does what only widens a contraction's factors; but where a flattened
    copy is widened, that is done before it is flattened, and the copy folds into it: a key that several heads share.  (Not through what
    computes, which is better off next to what made its operands.)  A reshape of a reshape that one reshape can say is that one: sizes of 1 that come and go
    would hide an expansion.
    """
    patterns = rewrite.RewritePatternSet(module.context)
    patterns.add("linalg.generic", _collapse_loops)
    for name in RESHAPES:
        patterns.add(name, _compose)
    patterns.add("tensor.collapse_shape", _collapse_copy)
    patterns.add("linalg.generic", _widen_copy)
    rewrite_greedily(module, patterns)


def _compose(op, rewriter) -> bool:
    """Elements stay in row-major order, so any reshape between the two shapes is the same."""
    op = op.operation
    before = owner(op.operands[0])
    if before is None or before.name not in RESHAPES:
        return True
    value, type_ = before.operands[0], op.results[0].type
    source = value.type
    if not all(t.rank for t in (source, type_)) or not knows_sizes(op) or not knows_sizes(before):
        return True
    old, new = shape(value), shape(op.results[0])
    if 0 in old or 0 in new:
        return True
    expanded, collapsed = grouping(new, old), grouping(old, new)
    same = source == type_ and old == new
    if not same and expanded is None and collapsed is None:
        return True
    with rewriter.ip, op.location:
        if not same and expanded is not None:
            value = expand(value, new, expanded, op)
        elif not same:
            value = tensor.CollapseShapeOp(type_, value, reassociation_attribute(collapsed)).result
        if value.type != type_:
            value = tensor.CastOp(type_, value).result
    rewriter.replace_op(op, [value])
    return False


def grouping(many: Sequence[Int], few: Sequence[Int]) -> list[list[int]] | None:
    """The dimensions of ``many``, none of size 0, that make up each of ``few``, in order; None where they do not."""
    if any(not isinstance(s, int) for s in (*many, *few)):
        found = common_groups(many, few)
        return [a for a, _ in found] if found is not None and all(len(b) == 1 for _, b in found) else None
    groups: list[list[int]] = []
    next_ = 0
    for size in few:
        group, product = [], 1
        while next_ < len(many) and (product < size or not group):
            group.append(next_)
            product *= many[next_]
            next_ += 1
        if product != size or not group:
            return None
        groups.append(group)
    if any(many[d] != 1 for d in range(next_, len(many))):
        return None
    if groups:  # of one element, of no dimension, all are left
        groups[-1] += range(next_, len(many))
    return groups


def _collapse_loops(op, rewriter) -> bool:
    op = op.operation
    views = [(n, made) for n, v in enumerate(inputs(op)) if (made := owner(v)) is not None and made.name == "tensor.expand_shape"] if is_generic(op) else []
    if not views or not knows_sizes(op) or walk(op, "linalg.index") or is_factor(op):
        return True
    for number, producer in views:
        groups = _loop_groups(op, number, reassociation_of(producer))
        if groups is None:
            continue
        with rewriter.ip, op.location:
            results = _rewrite(op, groups)
        rewriter.replace_op(op, results)
        return False
    return True


def _collapse_copy(op, rewriter) -> bool:
    op = op.operation
    producer = owner(op.operands[0])
    made = owner(producer.operands[0]) if is_widening(producer) else producer  # a copy that is flattened later is one with what widens it
    moves = is_copy(producer) or (is_widening(producer) and not is_copy(made) and all(is_sum_of_products(u) for u in users(op.results[0])))
    if not moves or not knows_sizes(producer) or use_count(producer.results[0]) != 1:
        return True
    groups = _loop_groups(producer, 1, reassociation_of(op))
    if groups is None:
        return True
    with rewriter.ip, producer.location:
        made = _rewrite(producer, groups)[0]
    rewriter.replace_op(op, [made.owner.operation.operands[0]])
    return False


def _widen_copy(op, rewriter) -> bool:
    op = op.operation
    view = owner(op.operands[0]) if is_widening(op) and knows_sizes(op) else None
    if view is None or view.name != "tensor.collapse_shape" or not is_copy(owner(view.operands[0])) or not knows_sizes(view):
        return True
    read, written = (dims(m) for m in maps(op))
    if read is None or written is None or len(read) != len(written):
        return True
    source, groups = view.operands[0], reassociation_of(view)
    loops = [groups[read.index(d)] for d in written]  # of the source's dimensions, each of which is a loop
    order = [d for group in loops for d in group]
    sizes, count = shape(source), len(order)
    with rewriter.ip, op.location:
        empty = tensor.EmptyOp(mixed([sizes[d] for d in order], function_of(op)), op.results[0].type.element_type).result
        indexing = [ir.AffineMap.get_identity(count), projection(order, count)]
        made = build([source], [empty], indexing, [kinds(op)[0]] * count, lambda arguments: clone_body(body(op), arguments), op.location)
        ends = [sum(map(len, loops[:i])) for i in range(len(loops) + 1)]
        flat = [list(range(a, b)) for a, b in zip(ends, ends[1:])]
        result = tensor.CollapseShapeOp(op.results[0].type, made.results[0], reassociation_attribute(flat)).result
    rewriter.replace_op(op, [result])
    return False


def _loop_groups(op: ir.Operation, number: int, reassociation: list[list[int]]) -> list[list[int]] | None:
    """The loops to merge, as a partition of all loops in order; None where some operand does not allow it."""
    read = list(maps(op)[number].results)
    joined: list[list[int]] = []
    for group in reassociation:
        exprs = [read[d] for d in group]
        if len(group) == 1:
            continue
        if not all(isinstance(e, ir.AffineDimExpr) for e in exprs):
            return None
        loops = [ir.AffineDimExpr(e).position for e in exprs]
        if loops != list(range(loops[0], loops[0] + len(loops))) or len({kinds(op)[d] for d in loops}) != 1:
            return None
        joined.append(loops)
    if not joined:
        return None
    inside = {d: g for g in joined for d in g}
    groups: list[list[int]] = []
    for d in range(len(kinds(op))):
        if d not in inside:
            groups.append([d])
        elif d == inside[d][0]:
            groups.append(inside[d])
    return groups if all(_merged(m, groups) is not None for m in maps(op)) else None


def _merged(map_: ir.AffineMap, groups: Sequence[list[int]]) -> tuple[list[list[int]], list[ir.AffineExpr]] | None:
    """(reassociation of the operand's dimensions, the new map's results); None where a group is not whole and in order."""
    start = {g[0]: (n, g) for n, g in enumerate(groups)}
    results, reassociation, exprs, i = list(map_.results), [], [], 0
    while i < len(results):
        expr = results[i]
        if isinstance(expr, ir.AffineConstantExpr):
            reassociation.append([i])
            exprs.append(expr)
            i += 1
            continue
        if not isinstance(expr, ir.AffineDimExpr) or ir.AffineDimExpr(expr).position not in start:
            return None
        number, group = start[ir.AffineDimExpr(expr).position]
        found = results[i : i + len(group)]
        if [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in found] != group:
            return None
        reassociation.append(list(range(i, i + len(group))))
        exprs.append(ir.AffineDimExpr.get(number))
        i += len(group)
    return reassociation, exprs


def _rewrite(op: ir.Operation, groups: list[list[int]]) -> list[ir.Value]:
    """The operation on merged loops; its results have their old shapes again."""
    merged = [_merged(m, groups) for m in maps(op)]
    operands = [_collapsed(v, r, op) for v, (r, _) in zip(op.operands, merged)]
    indexing = [ir.AffineMap.get(len(groups), 0, exprs) for _, exprs in merged]
    count = len(inputs(op))
    new = build(
        operands[:count], operands[count:], indexing, [kinds(op)[g[0]] for g in groups],
        lambda arguments: clone_body(body(op), arguments), op.location,
    )
    results = []
    for old, made, (reassociation, _) in zip(op.results, new.results, merged[count:]):
        results.append(_expanded(made, reassociation, old, op))
    return results


def _collapsed(value: ir.Value, reassociation: list[list[int]], op: ir.Operation) -> ir.Value:
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType) or all(len(g) == 1 for g in reassociation):
        return value
    made = owner(value)
    merged = [product([s[d] for d in group]) for s in [shape(value)] for group in reassociation]
    if made is not None and made.name == "tensor.expand_shape" and reassociation_of(made) == reassociation:
        return made.operands[0]
    if made is not None and made.name == "tensor.empty":
        return tensor.EmptyOp(mixed(merged, function_of(op)), type_.element_type).result
    return tensor.CollapseShapeOp(ir.RankedTensorType.get(static(merged), type_.element_type), value, reassociation_attribute(reassociation)).result


def _expanded(value: ir.Value, reassociation: list[list[int]], old: ir.Value, op: ir.Operation) -> ir.Value:
    if all(len(g) == 1 for g in reassociation):
        return value
    made = expand(value, shape(old), reassociation, op)
    return made if made.type == old.type else tensor.CastOp(old.type, made).result



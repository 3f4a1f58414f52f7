"""An elementwise operation of which only parts are read is computed for those alone: ``torch.exp(x)[:, :n]``, ``x.float().chunk(3)``.

The parts are taken of what it reads, which costs nothing where they are read in place, and what reads them can take it in.
"""

from collections.abc import Sequence
from math import prod

from inferno.mlir import ir, owner, tensor, users, walk
from inferno.passes.contraction import is_sum_of_products
from inferno.passes.expand_pieces import kept_dimensions
from inferno.passes.fuse_elementwise import fuse_elementwise, is_made_of_less
from inferno.passes.generics import REDUCTION, body, build, clone_body, dims, inputs, is_copy, is_elementwise, is_generic, kinds, maps, substitute
from inferno.passes.movements import reshape
from inferno.passes.picks import are_chunks, product_of
from inferno.passes.programs import root_of
from inferno.passes.slice_scans import slice_scan
from inferno.passes.shapes import reassociation, reassociation_attribute

_PART = 4  # of what is made not more than all but one such part is made again

_Part = tuple[int, int, int]  # where it begins, how many there are, and how far apart


def hoist_slices(module: ir.Module) -> None:
    """Rewrite every operation that only slices read, which together have no more elements than it makes, and every scan of which one reads a beginning.  What
    ends a contraction stays: there it is computed before its result is in memory."""
    changed = False
    pending = walk(module.operation, "linalg.generic", "tm_tensor.scan")
    while pending:  # the last one first: what it reads is sliced by then
        producer = pending.pop()
        if producer.name == "tm_tensor.scan":
            changed = slice_scan(producer) or changed
            continue
        # (Each row of a tensor that is turned would be looked up by an operation of its own: steps that go backwards would no longer be equal.)
        drops = is_elementwise(producer) and not walk(producer, "tensor.extract")
        if not is_elementwise(producer) or len(producer.results) != 1:
            continue
        if cuts := _cuts(producer, drops) or _part_made_again(producer):
            pending += _take_apart(producer, cuts)  # of which a part may be a slice again
            changed = True
    if changed:
        fuse_elementwise(module)


def slice_before_moving(module: ir.Module) -> None:
    """The same of what only moves elements, such as queries, keys and values that one transposition brings to the front: what reads them can take in
    a transposition, but not a part of one."""
    for view in walk(module.operation, "tensor.collapse_shape"):
        if is_copy(owner(view.operands[0])):
            _slice_before_flattening(view)
    for view in walk(module.operation, "tensor.expand_shape"):
        if is_copy(owner(view.operands[0])):
            _slice_before_adding_ones(view)
    pending = [op for op in walk(module.operation, "linalg.generic") if is_copy(op)]
    while pending:
        producer = pending.pop()
        if cuts := _cuts(producer):
            pending += _take_apart(producer, cuts)


def _slice_before_flattening(view: ir.Operation) -> None:
    """Where only slices read a tensor that was flattened, and have all of the dimensions that are one now, each is flattened itself."""
    source, made, groups = view.operands[0], view.results[0], reassociation(view)
    cuts = [(user, _taken(user)) for user in users(made)]
    if not source.type.has_static_shape or not made.type.has_static_shape:
        return
    if any(taken is None or any(len(g) > 1 and part != (0, n, 1) for g, part, n in zip(groups, taken, made.type.shape)) for _, taken in cuts):
        return
    for cut, taken in cuts:
        parts = [part if len(g) == 1 else (0, source.type.shape[d], 1) for g, part in zip(groups, taken) for d in g]
        with ir.InsertionPoint(cut), cut.location:
            part = _extract(source, parts)
            flat = tensor.CollapseShapeOp(cut.results[0].type, part, reassociation_attribute(groups)).result
        cut.results[0].replace_all_uses_with(flat)
        cut.erase()
    view.erase()


def _slice_before_adding_ones(view: ir.Operation) -> None:
    """Where only slices read a tensor that has got dimensions of one element, they are taken of it as it was."""
    source, made, groups = view.operands[0], view.results[0], reassociation(view)
    cuts = [(user, _taken(user, drops=True)) for user in users(made)]
    if not source.type.has_static_shape or not made.type.has_static_shape or any(sum(made.type.shape[d] != 1 for d in g) > 1 for g in groups):
        return
    if any(taken is None or 0 in cut.results[0].type.shape for cut, taken in cuts):
        return
    for cut, taken in cuts:
        parts = [(0, 1, 1) if n == 1 else next(taken[d] for d in g if made.type.shape[d] != 1) for g, n in zip(groups, source.type.shape)]
        with ir.InsertionPoint(cut), cut.location:
            cut.results[0].replace_all_uses_with(reshape(_extract(source, parts), cut.results[0].type.shape))
        cut.erase()
    view.erase()


def _take_apart(producer: ir.Operation, cuts: list[tuple[ir.Operation, list[_Part]]]) -> list[ir.Operation]:
    """Operations that compute what the slices take of a producer, in the place of these."""
    parts = []
    for cut, taken in cuts:
        with ir.InsertionPoint(cut), cut.location:
            parts.append(_compute(producer, taken, cut.results[0].type.shape))
            cut.results[0].replace_all_uses_with(parts[-1].results[0])
        cut.erase()
    if not any(True for _ in users(producer.results[0])):
        producer.erase()
    return parts


def _part_made_again(producer: ir.Operation) -> list[tuple[ir.Operation, list[_Part]]]:
    """The slice that takes a part of what ends a norm, or of what others read, too, as the exponentials of a softmax, where that is made of arguments of no
    more bytes, and of what rows have in common: one kernel has the totals of rows then, and one makes the part of what it reads again."""
    made = list(users(producer.results[0]))
    slices = [u for u in made if _taken(u) is not None]
    if len(slices) != 1 or product_of(producer) is not None or any(map(_ends_product, inputs(producer))):
        return []
    if not is_made_of_less(producer, slices, picked=True):
        return []
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer) for e in m.results)
    if not simple or not all(t.has_static_shape for t in map(_type, producer.operands) if t is not None):
        return []
    taken, order = _taken(slices[0]), dims(maps(producer)[-1])
    part = [taken[order.index(d)] for d in range(len(order))]
    return [(slices[0], part)] if _PART * prod(n for _, n, _ in part) <= prod(producer.results[0].type.shape) * (_PART - 1) else []


def _ends_product(value: ir.Value) -> bool:
    made = owner(root_of(value))
    return made is not None and is_sum_of_products(made)


def _cuts(producer: ir.Operation, drops: bool = False) -> list[tuple[ir.Operation, list[_Part]]]:
    """The slices that read it with what they take of each loop; none where something else does, or it cannot be computed in parts.  With ``drops`` slices may
    leave out dimensions."""
    type_ = producer.results[0].type
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer) for e in m.results)
    if not simple or not all(t.has_static_shape for t in map(_type, producer.operands) if t is not None):
        return []
    picks = product_of(producer) is not None
    if (picks and not are_chunks(producer)) or (not picks and any(_ends_sum(v) for v in inputs(producer))):
        return []
    found = []
    order = dims(maps(producer)[-1])
    for user in users(producer.results[0]):
        taken = _taken(user, drops)
        if taken is None:
            return []
        found.append((user, [taken[order.index(d)] for d in range(len(order))]))
    return found if sum(prod(n for _, n, _ in parts) for _, parts in found) <= prod(type_.shape) else []


def _type(value: ir.Value) -> ir.RankedTensorType | None:
    return value.type if isinstance(value.type, ir.RankedTensorType) else None


def _ends_sum(value: ir.Value) -> bool:
    made = owner(root_of(value))
    return is_generic(made) and REDUCTION in kinds(made)


def _taken(op: ir.Operation, drops: bool = False) -> list[_Part] | None:
    """What a slice takes of each dimension, if that are numbers and it keeps all dimensions, or ``drops`` some."""
    if op.name != "tensor.extract_slice" or len(op.operands) != 1 or (op.results[0].type.rank != op.operands[0].type.rank and not drops):
        return None
    return list(zip(*(list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))))


def _compute(producer: ir.Operation, parts: list[_Part], shape: Sequence[int]) -> ir.Operation:
    """What computes the part of the result, of this ``shape``, at the insertion point: without the loops of one iteration of which that has no dimension, for
    whoever reads it has none either."""
    result, order = producer.results[0].type, dims(maps(producer)[-1])
    stays = kept_dimensions([parts[d][1] for d in order], shape)
    kept = sorted(d for d, stay in zip(order, stays) if stay)
    names = [ir.AffineDimExpr.get(kept.index(d)) if d in kept else ir.AffineConstantExpr.get(0) for d in range(len(parts))]

    def without(map_: ir.AffineMap) -> ir.AffineMap:
        read = [e for e in map_.results if not isinstance(e, ir.AffineDimExpr) or ir.AffineDimExpr(e).position in kept]
        return substitute(ir.AffineMap.get(len(parts), 0, read), names, len(kept))

    values = [_slice(v, m, parts, kept) for v, m in zip(inputs(producer), maps(producer))]
    empty = tensor.EmptyOp(list(shape), result.element_type).result
    # Through a map, which knows what kind of expression each is.
    loops = ir.AffineMap.get(len(kept), 0, [name * step + begin for name, (begin, _, step) in zip(names, parts)]).results
    return build(
        values, [empty], list(map(without, maps(producer))), [kinds(producer)[d] for d in kept],
        lambda arguments: clone_body(body(producer), arguments, loops), producer.location,
    )


def _slice(value: ir.Value, map_: ir.AffineMap, parts: list[_Part], kept: list[int]) -> ir.Value:
    """What is read of an operand, without the dimensions of loops that are not ``kept``."""
    if _type(value) is None:
        return value
    sizes = value.type.shape
    taken = [parts[ir.AffineDimExpr(e).position] if isinstance(e, ir.AffineDimExpr) else (0, n, 1) for e, n in zip(map_.results, sizes)]
    stays = [not isinstance(e, ir.AffineDimExpr) or ir.AffineDimExpr(e).position in kept for e in map_.results]
    if all(stays) and all(part == (0, n, 1) for part, n in zip(taken, sizes)):
        return value
    return _extract(value, taken, stays)


def _extract(value: ir.Value, parts: list[_Part], stays: Sequence[bool] | None = None) -> ir.Value:
    """A part of a tensor, without the dimensions of one element that do not stay."""
    type_ = ir.RankedTensorType.get([n for d, (_, n, _) in enumerate(parts) if stays is None or stays[d]], value.type.element_type)
    return tensor.extract_slice(type_, value, [], [], [], *([part[i] for part in parts] for i in range(3)))

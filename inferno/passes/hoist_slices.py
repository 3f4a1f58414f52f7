"""Compute an elementwise operation of which only slices are read for those slices alone: ``torch.exp(x)[:, :n]``, ``x.float().chunk(3)``.

The parts are taken of what it reads, which costs nothing where they are read in place, and what reads them can take it in.
"""

from math import prod

from inferno.mlir import ir, is_read, owner, tensor, users, walk
from inferno.passes.contraction import is_sum_of_products
from inferno.passes.fuse_elementwise import fuse_elementwise, is_made_of_less
from inferno.passes.generics import dims, inputs, is_copy, is_elementwise, is_reduction, maps
from inferno.passes.join_slices import join_equal
from inferno.passes.movements import reshape
from inferno.passes.parts import Part, compute_part, extract, taken_by, type_of
from inferno.passes.places import is_looked_up
from inferno.passes.programs import root_of
from inferno.passes.selected_products import are_chunks, product_of
from inferno.passes.shapes import kept_dimensions, reassociation, reassociation_attribute
from inferno.passes.slice_scans import slice_scan

_SHIFTS = 27  # slices of what is moved, as of an image with a border, for readers that take in where each of their elements lies
_MOVING = ("math.absi", "tensor.extract", "scf.if", "scf.yield", "linalg.index", "linalg.yield", "arith.select")
_LITTLE = 2  # times, of a result beside what is read of it
_PART = 4  # of what is made not more than all but one such part is made again


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
        if not is_elementwise(producer) or len(producer.results) != 1:
            continue
        drops = not walk(producer, "tensor.extract") or _takes_little(producer)
        join_equal(producer.results[0])
        if cuts := _cuts(producer, drops) or _part_made_again(producer):
            pending += _take_apart(producer, cuts)  # of which a part may be a slice again
            changed = True
    if changed:
        fuse_elementwise(module)


def _takes_little(producer: ir.Operation) -> bool:
    """Whether slices alone read an operation's result, and together take a small part of it, as a channel of an enlarged image.  (Each row of a tensor that is
    flipped would be looked up by an operation of its own: steps that go backwards would no longer be equal.)"""
    cuts = list(users(producer.results[0]))
    if any(taken_by(cut, drops=True) is None for cut in cuts) or not producer.results[0].type.has_static_shape:
        return False
    return _LITTLE * sum(prod(cut.results[0].type.shape) for cut in cuts) <= prod(producer.results[0].type.shape)


def slice_before_moving(module: ir.Module) -> None:
    """The same of what only moves elements, such as queries, keys and values that one transposition brings to the front: what reads them can take in
    a transposition, but not a part of one."""
    operations = [(op.name, op) for op in walk(module.operation, "tensor.collapse_shape", "tensor.expand_shape", "linalg.generic")]
    for view in [op for name, op in operations if name == "tensor.collapse_shape"]:
        if is_copy(owner(view.operands[0])):
            _slice_before_flattening(view)
    for view in [op for name, op in operations if name == "tensor.expand_shape"]:
        if is_copy(owner(view.operands[0])):
            _slice_before_adding_ones(view)
    pending = [op for name, op in operations if name == "linalg.generic" and is_copy(op)]
    while pending:
        producer = pending.pop()
        if cuts := _cuts(producer):
            pending += _take_apart(producer, cuts)


def _slice_before_flattening(view: ir.Operation) -> None:
    """Where only slices read a tensor that was flattened, and have all of the dimensions that are one now, each is flattened itself."""
    source, made, groups = view.operands[0], view.results[0], reassociation(view)
    cuts = [(user, taken_by(user)) for user in users(made)]
    if not source.type.has_static_shape or not made.type.has_static_shape:
        return
    if any(taken is None or any(len(g) > 1 and part != (0, n, 1) for g, part, n in zip(groups, taken, made.type.shape)) for _, taken in cuts):
        return
    for cut, taken in cuts:
        parts = [part if len(g) == 1 else (0, source.type.shape[d], 1) for g, part in zip(groups, taken) for d in g]
        with ir.InsertionPoint(cut), cut.location:
            part = extract(source, parts)
            flat = tensor.CollapseShapeOp(cut.results[0].type, part, reassociation_attribute(groups)).result
        cut.results[0].replace_all_uses_with(flat)
        cut.erase()
    view.erase()


def _slice_before_adding_ones(view: ir.Operation) -> None:
    """Where only slices read a tensor that has got dimensions of one element, they are taken of it as it was."""
    source, made, groups = view.operands[0], view.results[0], reassociation(view)
    cuts = [(user, taken_by(user, drops=True)) for user in users(made)]
    if not source.type.has_static_shape or not made.type.has_static_shape or any(sum(made.type.shape[d] != 1 for d in g) > 1 for g in groups):
        return
    if any(taken is None or 0 in cut.results[0].type.shape for cut, taken in cuts):
        return
    for cut, taken in cuts:
        parts = [(0, 1, 1) if n == 1 else next(taken[d] for d in g if made.type.shape[d] != 1) for g, n in zip(groups, source.type.shape)]
        with ir.InsertionPoint(cut), cut.location:
            cut.results[0].replace_all_uses_with(reshape(extract(source, parts), cut.results[0].type.shape))
        cut.erase()
    view.erase()


def _take_apart(producer: ir.Operation, cuts: list[tuple[ir.Operation, list[Part]]]) -> list[ir.Operation]:
    """Operations that compute what the slices take of a producer, in the place of these."""
    parts = []
    for cut, taken in cuts:
        with ir.InsertionPoint(cut), cut.location:
            order = dims(maps(producer)[-1])
            parts.append(compute_part(producer, taken, {order[d] for d in kept_dimensions(cut)}))
            cut.results[0].replace_all_uses_with(parts[-1].results[0])
        cut.erase()
    if not is_read(producer.results[0]):
        producer.erase()
    return parts


def _part_made_again(producer: ir.Operation) -> list[tuple[ir.Operation, list[Part]]]:
    """The slice that takes a part of what ends a norm, or of what others read, too, as the exponentials of a softmax, where that is made of arguments of no
    more bytes, and of what rows have in common: one kernel has the totals of rows then, and one makes the part of what it reads again."""
    made = list(users(producer.results[0]))
    slices = [u for u in made if taken_by(u) is not None]
    if len(slices) != 1 or product_of(producer) is not None or any(map(_ends_product, inputs(producer))):
        return []
    if not is_made_of_less(producer, slices, gathered=True):
        return []
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer) for e in m.results)
    if not simple or not all(t.has_static_shape for t in map(type_of, producer.operands) if t is not None):
        return []
    taken, order = taken_by(slices[0]), dims(maps(producer)[-1])
    part = [taken[order.index(d)] for d in range(len(order))]
    return [(slices[0], part)] if _PART * prod(n for _, n, _ in part) <= prod(producer.results[0].type.shape) * (_PART - 1) else []


def _ends_product(value: ir.Value) -> bool:
    made = owner(root_of(value))
    return made is not None and is_sum_of_products(made)


def _cuts(producer: ir.Operation, drops: bool = False) -> list[tuple[ir.Operation, list[Part]]]:
    """The slices that read it with what they take of each loop; none where something else does, or it cannot be computed in parts.  With ``drops`` slices may
    leave out dimensions, and not those of one element alone."""
    type_ = producer.results[0].type
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer) for e in m.results)
    if not simple or not all(t.has_static_shape for t in map(type_of, producer.operands) if t is not None):
        return []
    gathers = product_of(producer) is not None
    if (gathers and not are_chunks(producer)) or (not gathers and any(_ends_sum(v) for v in inputs(producer))):
        return []
    found = []
    order = dims(maps(producer)[-1])
    for user in users(producer.results[0]):
        taken = taken_by(user, drops=True)
        if taken is None or not (drops or _keeps_wide(user)):
            return []
        found.append((user, [taken[order.index(d)] for d in range(len(order))]))
    if sum(prod(n for _, n, _ in parts) for _, parts in found) <= prod(type_.shape):
        return found
    shifted = len(found) <= _SHIFTS and _only_moves(producer) and all(is_elementwise(u) for cut, _ in found for u in users(cut.results[0]))
    return found if shifted else []


def _keeps_wide(cut: ir.Operation) -> bool:
    """Whether a slice keeps all dimensions of more than one element."""
    kept = kept_dimensions(cut)
    return all(n == 1 or d in kept for d, n in enumerate(cut.operands[0].type.shape))


def _only_moves(op: ir.Operation) -> bool:
    """Whether elements are read at places that loops say, and nothing is computed of them: but for gathering and choosing there are numbers of loops alone."""
    every, gathers = [o for o in walk(op) if o != op], walk(op, "tensor.extract")
    data = {o.results[0] for o in (*gathers, *walk(op, "scf.if"))}
    computes = any(o.name not in _MOVING and (not o.name.startswith("arith.") or any(v in data for v in o.operands)) for o in every)
    return bool(gathers) and not inputs(op) and not computes and not any(map(is_looked_up, gathers))


def _ends_sum(value: ir.Value) -> bool:
    made = owner(root_of(value))
    return is_reduction(made)

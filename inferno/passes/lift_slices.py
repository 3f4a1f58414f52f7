"""Move slices in front of the elementwise operations whose results they take, through reshapes: a crop in front of a channel shuffle.

``hoist-slices`` does this behind fusion, for what slices alone read.  A reshape on either side of a slice, ``(x * y)[:, :, 1:, 1:].view(n, 2, c, h, w)``, keeps
what is in front of it from what is behind it until then.  In front of the operation the slice is of what that reads, and only reshapes are left between both
operations, which ``expand-maps`` moves.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, ir, is_read, linalg, owner, tensor, users, walk
from inferno.passes.contraction import ended_contraction
from inferno.passes.expand_pieces import EXPAND, collapsed, flattened
from inferno.passes.gathered_producers import computes_of_few, may_move
from inferno.passes.generics import PARALLEL, build, dims, index, inputs, is_elementwise, is_generic, is_reduction, maps
from inferno.passes.join_slices import join_equal, join_slices
from inferno.passes.lanes import reads_whole_sectors
from inferno.passes.movements import reshape
from inferno.passes.parts import Part, compute_part, merged_part, split_part, taken_by, type_of
from inferno.passes.programs import RESHAPES, root_of
from inferno.passes.selected_products import product_of
from inferno.passes.shapes import kept_dimensions, reassociation, reassociation_attribute, slice_parts

_MOST = 4  # slices of one operation, which is computed for each of them: every one may become a kernel


def lift_slices(module: ir.Module) -> None:
    """Rewrite elementwise operations of known sizes that slices alone read, as they are or reshaped, which together have no more elements, if a reshape is next
    to one of the slices or in front of the operation.  What is made of sums stays: rows are gone over whole.  Only modules for a GPU
    (``inferno.expand_pieces``) are changed: others leave reshapes where they are."""
    if EXPAND not in module.operation.attributes:
        return
    join_slices(module)
    lifted: list[ir.Operation] = []  # slices of what is computed in parts now, which go on
    for maker in reversed(walk(module.operation, "linalg.generic")):
        for value in (maker.results[0], *(view.results[0] for view in users(maker.results[0]) if _reshapes(view))):
            join_equal(value)  # what two operations read of it, in front of which slices were moved
        cuts = _cuts(maker)
        if len(cuts) == 1 and cuts[0].parts is None:
            _gather(maker, cuts[0])
        elif cuts and all(cut.parts is not None for cut in cuts) and (_reads_reshaped(maker) or any(c.op in lifted or _is_reshaped(c) for c in cuts)):
            small = sum(prod(n for _, n, _ in cut.parts[0]) for cut in cuts) <= prod(maker.results[0].type.shape)
            if small and not _is_of_sums(maker):
                lifted = [op for op in lifted if all(op != cut.op for cut in cuts)]
                lifted += [op for cut in cuts for op in _lift(maker, cut)]
                maker.erase()


def _reshapes(op: ir.Operation | None) -> bool:
    return op is not None and op.name in RESHAPES


def _reads_reshaped(maker: ir.Operation) -> bool:
    """Whether an operation reads what another one makes, in another shape."""
    return any(_reshapes(owner(v)) and is_elementwise(owner(root_of(v))) for v in inputs(maker))


def _is_reshaped(cut: "_Cut") -> bool:
    return bool(cut.views) or any(map(_reshapes, users(cut.op.results[0])))


@dataclass(frozen=True)
class _Cut:
    """A slice ``op`` of what ``views`` make of a result, one behind the other, and the parts of the result and of what each view makes that it takes; None
    where they are no parts of the result."""

    op: ir.Operation
    views: tuple[ir.Operation, ...]
    parts: tuple[list[Part], ...] | None


def _cuts(maker: ir.Operation) -> list[_Cut]:
    """The slices that read an operation's result; none where anything else does, or one takes no parts of it."""
    if not is_elementwise(maker) or len(maker.results) != 1 or dims(maps(maker)[-1]) is None:
        return []
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(maker) for e in m.results)
    if not simple or not all(t.has_static_shape for t in map(type_of, maker.operands) if t is not None):
        return []
    found: list[_Cut] = []
    pending = [(user, ()) for user in users(maker.results[0])]
    while pending and len(found) < _MOST:
        user, views = pending.pop()
        if _reshapes(user) and len(user.operands) == 1:
            pending += [(u, (*views, user)) for u in users(user.results[0])]
            continue
        taken = taken_by(user, drops=not walk(maker, "tensor.extract"))
        if taken is None or 0 in user.results[0].type.shape:
            return []
        found.append(_Cut(user, views, _before(views, taken)))
    # What takes longest to find out is asked of what slices read, which is little.
    return found if found and not pending and ended_contraction(maker, reshaped=True) is None and product_of(maker) is None else []


def _before(views: tuple[ir.Operation, ...], taken: list[Part]) -> tuple[list[Part], ...] | None:
    """The parts that become ``taken`` ones, in front of each view and behind the last one; None where they are no parts there."""
    parts = [taken]
    for view in reversed(views):
        sizes = (view.results if view.name == "tensor.expand_shape" else view.operands)[0].type.shape
        groups, last = reassociation(view), parts[0]
        if view.name == "tensor.expand_shape":
            found = [merged_part([(sizes[d], last[d]) for d in group]) for group in groups]
        else:
            split = [split_part(part, [sizes[d] for d in group]) for part, group in zip(last, groups)]
            found = None if None in split else [part for each in split for part in each]
        if found is None or None in found or not found:
            return None
        parts.insert(0, found)
    return tuple(parts)


def _gather(maker: ir.Operation, cut: _Cut) -> None:
    """Read what a slice takes, where other maps read it, from what an operation makes before reshapes, at computed places: pixels that are shuffled and
    cropped.  ``fuse-gathers`` computes it there."""
    readers = [u for u in users(cut.op.results[0]) if not _reshapes(u)]
    if not all(is_elementwise(u) or u.name == "func.return" for u in readers) or not may_move(maker) or computes_of_few(maker) or _is_of_sums(maker):
        return
    type_, (begins, _, steps) = cut.op.results[0].type, slice_parts(cut.op)
    kept = kept_dimensions(cut.op)

    def fill(_: list[ir.Value]) -> list[ir.Value]:
        place = [index(begin) for begin in begins]
        for loop, d in enumerate(kept):
            at = linalg.IndexOp(loop).result
            at = at if steps[d] == 1 else arith.muli(at, index(steps[d]))
            place[d] = at if begins[d] == 0 else arith.addi(at, index(begins[d]))
        for view in reversed(cut.views):
            place = flattened(view, place) if view.name == "tensor.expand_shape" else collapsed(view)(place)
        return [tensor.extract(maker.results[0], place)]

    with ir.InsertionPoint(cut.op), cut.op.location:
        out = tensor.EmptyOp(list(type_.shape), type_.element_type).result
        made = build([], [out], [ir.AffineMap.get_identity(type_.rank)], [PARALLEL] * type_.rank, fill, cut.op.location)
    if not reads_whole_sectors(maker, next(iter(walk(made, "tensor.extract")))):
        made.erase()
        return
    cut.op.results[0].replace_all_uses_with(made.results[0])
    for old in (cut.op, *reversed(cut.views)):
        old.erase()


def _is_of_sums(op: ir.Operation) -> bool:
    """Whether sums, or other reductions, are among what an operation is made of by elementwise ones."""
    pending, seen = [op], set()
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        makers = [m for m in (owner(root_of(v)) for v in inputs(op)) if m is not None]
        if any(is_reduction(m) or (not is_generic(m) and m.name.startswith(("linalg.", "tm_tensor."))) for m in makers):
            return True
        pending += [m for m in makers if is_elementwise(m)]
    return False


def _lift(maker: ir.Operation, cut: _Cut) -> list[ir.Operation]:
    """Compute what a slice takes of an operation's result for the slice alone; the slices of which that is made."""
    order = dims(maps(maker)[-1])
    with ir.InsertionPoint(cut.op), cut.op.location:
        part = compute_part(maker, [cut.parts[0][order.index(d)] for d in range(len(order))], range(len(order)))
        value, wanted = part.results[0], cut.op.results[0].type.shape
        views = cut.views if value.type.shape != wanted else ()  # a reshape and its inverse would go around what reads the part
        for view, parts in zip(views, cut.parts[1:]):
            sizes, groups = [n for _, n, _ in parts], reassociation_attribute(reassociation(view))
            type_ = ir.RankedTensorType.get(sizes, value.type.element_type)
            if view.name == "tensor.expand_shape":
                value = tensor.expand_shape(type_, value, groups, [], sizes)
            else:
                value = tensor.CollapseShapeOp(type_, value, groups).result
        cut.op.results[0].replace_all_uses_with(reshape(value, wanted))
    cut.op.erase()
    for view in reversed(cut.views):
        if not is_read(view.results[0]):
            view.erase()
    return [made for made in map(owner, inputs(part)) if made is not None and made.name == "tensor.extract_slice"]

"""Move a reshape between two elementwise operations behind the second one, which gets the loops of the first: then both are fused.

What unpacks a weight of four bits, scales it by groups and gives it back as a matrix, what cuts an image into patches and normalises them, what shuffles
pixels and adds an image, flattens or splits dimensions on its way, which no indexing map says.  ``propagate-reshapes`` collapses loops, where all that is read
allows it; here they are split, of the maker of what is split, and of the reader of what is flattened.

Only where the reshape is the one reader and maps are all that reads it, none of them the end of a contraction, which has loops of its own.  A map whose
result is split for reductions is split as well: scaled heads, of which a norm is taken, or groups of channels.
"""

from math import prod

from inferno.mlir import ir, is_unread, owner, tensor, users, walk
from inferno.passes.contraction import ended_contraction, is_convolution, is_sum_of_products
from inferno.passes.expand_loops import split
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.fuse_elementwise import bytes_of
from inferno.passes.generics import (
    inputs, is_copy, is_elementwise, is_reduction, is_widening, maps, only_user, use_count,
)
from inferno.passes.name_symbols import expand
from inferno.passes.parts import taken_by
from inferno.passes.programs import RESHAPES, readers, root_of
from inferno.passes.selected_products import product_of
from inferno.passes.shapes import reassociation, reassociation_attribute

_MOST_LOOPS = 8  # of an operation that is made: a limit to the reshapes that may be split ever finer (no measurement chose it)
_REPEATS = 8  # times that each number is there, at least
_MOST_CHANGES = 16  # for each operation: a reshape passes few readers, and rewrites that undo each other must not go on for ever


def expand_maps(module: ir.Module) -> None:
    """Split loops of elementwise operations of known sizes.  Only modules for a GPU (``inferno.expand_pieces``) are changed: loops of a CPU are
    vectorized along the innermost one, which would be short."""
    if EXPAND not in module.operation.attributes:
        return
    del module.operation.attributes[EXPAND]  # no later pass asks
    changed, left = 1, _MOST_CHANGES * len(walk(module.operation, "linalg.generic")) + _MOST_CHANGES
    while changed and left > 0:
        read = _erase_unread(walk(module.operation, "linalg.generic", *RESHAPES))
        views = _join_equal([op for op in read if op.name != "linalg.generic"])
        # A change erases what is before the view, which was visited, and makes views that the next round comes to.
        changed = sum(_flatten_once(v) or _exchange(v) or split_maker(v) is not None or _split_reader(v) for v in views)
        left -= changed


def _erase_unread(operations: list[ir.Operation]) -> list[ir.Operation]:
    """What was split leaves behind what it was before, which would count as a reader.  Those that stay."""
    kept: list[ir.Operation] = []
    for op in reversed(operations):
        if is_unread(op):
            op.erase()
        else:
            kept.append(op)
    return kept[::-1]


def _join_equal(views: list[ir.Operation]) -> list[ir.Operation]:
    """What is split the same way several times is split once: the reshape may then be its only reader.  Those that stay."""
    first: dict[tuple, ir.Value] = {}
    kept: list[ir.Operation] = []
    for view in views:
        alone = view.name == "tensor.expand_shape" and len(view.operands) == 1
        key = (view.operands[0], str(view.results[0].type), str(reassociation(view))) if alone else None
        if alone and (known := first.setdefault(key, view.results[0])) != view.results[0]:
            view.results[0].replace_all_uses_with(known)
            view.erase()
        else:
            kept.append(view)
    return kept


def _flatten_once(view: ir.Operation) -> bool:
    """Let what is flattened twice be flattened once, so that its reader gets the loops that it had at first."""
    first = owner(view.operands[0])
    if view.name != "tensor.collapse_shape" or first is None or first.name != "tensor.collapse_shape" or use_count(first.results[0]) != 1:
        return False
    inner = reassociation(first)
    with ir.InsertionPoint(view), view.location:
        groups = reassociation_attribute([[d for i in group for d in inner[i]] for group in reassociation(view)])
        view.results[0].replace_all_uses_with(tensor.CollapseShapeOp(view.results[0].type, first.operands[0], groups).result)
    view.erase()
    first.erase()
    return True


def _exchange(view: ir.Operation) -> bool:
    """Let what is flattened and then split be split and then flattened."""
    flat = owner(view.operands[0])
    if view.name != "tensor.expand_shape" or flat is None or flat.name != "tensor.collapse_shape" or not _meets(flat, view):
        return False
    source = flat.operands[0].type.shape
    sizes, within, groups = [], [], []  # of what is between, in which dimensions of the source are split, and those of the result are flattened
    for group, parts in zip(reassociation(flat), reassociation(view)):
        common = refined([source[d] for d in group], [view.results[0].type.shape[d] for d in parts])
        if common is None:
            return False
        for found, of in ((common[1], within), (common[2], groups)):
            of += [[len(sizes) + i for i in g] for g in found]
        sizes += common[0]
    if len(sizes) > _MOST_LOOPS:
        return False
    with ir.InsertionPoint(view), view.location:
        between = expand(flat.operands[0], sizes, within, view) if any(len(g) > 1 for g in within) else flat.operands[0]
        back = any(len(g) > 1 for g in groups)  # a reshape to the same shape would go behind one reader after the other for ever
        made = tensor.CollapseShapeOp(view.results[0].type, between, reassociation_attribute(groups)).result if back else between
    view.results[0].replace_all_uses_with(made)
    view.erase()
    flat.erase()
    return True


def refined(source: list[int], result: list[int]) -> tuple[list[int], list[list[int]], list[list[int]]] | None:
    """The coarsest sizes of which both shapes are products of neighbours, and of which each of theirs is; None where there are none."""
    sizes: list[int] = []
    within, groups = [[]], [[]]
    i = j = 0
    left, right = source[0], result[0]
    while True:
        small, large = min(left, right), max(left, right)
        if small == 0 or large % small:
            return None
        within[-1].append(len(sizes))
        groups[-1].append(len(sizes))
        sizes.append(small)
        left, right = left // small, right // small
        if left == 1 and i + 1 < len(source) and (right > 1 or source[i + 1] == 1 or j + 1 < len(result)):
            i, left = i + 1, source[i + 1]
            within.append([])
        if right == 1 and j + 1 < len(result) and (left > 1 or result[j + 1] == 1):
            j, right = j + 1, result[j + 1]
            groups.append([])
        if left == right == 1:
            whole = i + 1 == len(source) and j + 1 == len(result) and within[-1] and groups[-1]
            return (sizes, within, groups) if whole else None


def _meets(first: ir.Operation, last: ir.Operation, sums: bool = False) -> bool:
    """Whether what reshapes of a map's result lead to is read by maps alone, and by reductions with ``sums``, which could be one with it."""
    maker = owner(first.operands[0])
    if use_count(first.operands[0]) != 1 or (first != last and use_count(first.results[0]) != 1) or not _is_map(maker):
        return False
    found = list(users(last.results[0]))
    if sums and first == last and _is_cut(last.results[0]):
        return True
    return bool(found) and all((sums and reduces(u)) or (_is_map(u) and not _feeds_product(maker, u)) for u in found)


def _is_cut(value: ir.Value) -> bool:
    """Whether slices alone read it, and each element no more than once on average: ``hoist-slices`` computes these of what the maker reads."""
    cuts = [(user, taken_by(user, drops=True)) for user in users(value)]
    return bool(cuts) and all(t is not None for _, t in cuts) and sum(prod(n for _, n, _ in t) for _, t in cuts) <= prod(value.type.shape)


def reduces(op: ir.Operation) -> bool:
    """Whether it is a reduction of rows, and no product."""
    plain = is_reduction(op) and not is_sum_of_products(op) and not is_convolution(op)
    return plain and all(isinstance(e, ir.AffineDimExpr) for m in maps(op) for e in m.results)


def _is_map(op: ir.Operation | None) -> bool:
    """Whether it is an elementwise operation of known sizes whose loops may be split, and not the end of a contraction or convolution, or what selects
    of a product of all matrices: one kernel computes what is selected, of loops as the product has them."""
    if not is_elementwise(op) or len(op.results) != 1 or (is_widening(op) and any(map(is_sum_of_products, users(op.results[0])))):
        return False
    plain = (ir.AffineDimExpr, ir.AffineConstantExpr)
    known = all(not isinstance(v.type, ir.RankedTensorType) or v.type.has_static_shape for v in op.operands)
    simple = known and all(isinstance(e, plain) for m in maps(op) for e in m.results)
    return simple and ended_contraction(op, reshaped=True) is None and product_of(op) is None


def _feeds_product(maker: ir.Operation, reader: ir.Operation) -> bool:
    """Whether a contraction reads what is made of a mere copy: it reads the copy's operand in its place (``fold-transposes``).  What repeats few numbers for
    the elements of another tensor, as scales of a weight's blocks, is none."""
    if not is_copy(maker) or not any(map(is_sum_of_products, readers(reader.results[0]))):
        return False
    made = bytes_of(maker.results[0])
    whole = any(m.is_permutation and owner(root_of(v)) != maker for v, m in zip(inputs(reader), maps(reader)))
    return not (whole and sum(map(bytes_of, inputs(maker))) * _REPEATS <= made)


def _ends_totals(maker: ir.Operation) -> bool:
    """Whether it makes something of totals alone, which their kernel does with them as long as no reshape is between."""
    read = [v for v in inputs(maker) if isinstance(v.type, ir.RankedTensorType)] if is_elementwise(maker) else []
    return bool(read) and all(is_reduction(owner(v)) for v in read)


def split_maker(view: ir.Operation) -> ir.Value | None:
    """Let what makes a tensor that is split have the loops that this has then; the tensor, None where that is left alone."""
    maker = owner(view.operands[0])
    if view.name != "tensor.expand_shape" or maker is None or _ends_totals(maker):
        return None
    user = only_user(view.results[0])
    if not _meets(view, user if user is not None and user.name == "tensor.collapse_shape" else view, sums=True):
        return None
    written = [ir.AffineDimExpr(e).position for e in maps(maker)[-1].results]
    sizes = view.results[0].type.shape
    parts = {written[d]: [sizes[i] for i in g] for d, g in enumerate(reassociation(view)) if len(g) > 1}
    if len(sizes) > _MOST_LOOPS or not parts:  # (one number has no loops)
        return None
    with ir.InsertionPoint(maker), maker.location:
        made = split(maker, parts)[0][0]
    view.results[0].replace_all_uses_with(made)
    view.erase()
    maker.erase()
    return made


def _split_reader(view: ir.Operation) -> bool:
    """Let what reads a flattened tensor have the loops that this had before, and flatten its result."""
    if view.name != "tensor.collapse_shape" or not _meets(view, view):
        return False
    source, groups = view.operands[0].type.shape, reassociation(view)
    reader = next(iter(users(view.results[0])))
    read = [m for v, m in zip(inputs(reader), maps(reader)) if v == view.results[0]]
    if len(set(map(str, read))) != 1 or any(isinstance(e, ir.AffineConstantExpr) and len(g) > 1 for e, g in zip(read[0].results, groups)):
        return False
    parts = {ir.AffineDimExpr(e).position: [source[d] for d in g] for e, g in zip(read[0].results, groups) if len(g) > 1}
    if not parts:  # one number has no loops
        return False
    if len(maps(reader)[-1].results) + sum(len(p) - 1 for p in parts.values()) > _MOST_LOOPS or any(prod(p) == 0 for p in parts.values()):
        return False
    with ir.InsertionPoint(reader), reader.location:
        new, flat = split(reader, parts)[0]
        made = tensor.CollapseShapeOp(reader.results[0].type, new, reassociation_attribute(flat)).result
    reader.results[0].replace_all_uses_with(made)
    reader.erase()
    if not use_count(view.results[0]):
        view.erase()
    return True

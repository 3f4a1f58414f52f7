"""Rewrite a convolution whose windows do not overlap as a product of matrices: of the image, in which each window is a row, and the weights.

That is what embeds the patches of a vision transformer, and what goes from one stage of a ConvNeXt to the next.  No element is in two windows, so
that the image is only seen in another shape: rows of windows, rows in a window, windows in a row, elements of a window in a row.
"""

from inferno.mlir import ir, owner, tensor, walk
from inferno.passes.contraction import is_sum_of_products, start_from_zero
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, inputs, kinds, loop_sizes, maps, outputs
from inferno.passes.shapes import function_of, reassociation_attribute


def expand_patches(module: ir.Module) -> None:
    """Rewrite every sum of products that reads one tensor by ``window * size + place``, for all of its elements, as a contraction of the tensor in a
    further shape; what the sum starts from, unless that is a fill, is added to it afterwards.  Only modules for a GPU (``inferno.expand_pieces``)
    are changed: the libraries of others take convolutions."""
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "linalg.generic"):
        if function_of(op) == op.parent and is_sum_of_products(op) and any(parts := [_parts(op, number) for number in (0, 1)]) and None not in parts:
            _rewrite(op, parts)


def _parts(op: ir.Operation, number: int) -> dict[int, tuple[int, int]] | None:
    """By dimension of a factor that is walked along windows side by side, the loops over windows and inside of one; None if any is walked otherwise
    than so or by one loop."""
    value, found, sizes = inputs(op)[number], {}, loop_sizes(op)
    if not value.type.has_static_shape or any(not isinstance(n, int) for n in sizes):
        return None
    for d, expression in enumerate(maps(op)[number].results):
        if isinstance(expression, ir.AffineDimExpr):
            continue
        loops = _window_and_place(expression, sizes)
        if loops is None or sizes[loops[0]] * sizes[loops[1]] != value.type.shape[d]:
            return None
        if kinds(op)[loops[0]] != PARALLEL or kinds(op)[loops[1]] != REDUCTION:
            return None
        found[d] = loops
    every = [d for e in found.values() for d in e]
    plain = [ir.AffineDimExpr(e).position for e in maps(op)[number].results if isinstance(e, ir.AffineDimExpr)]
    return found if len({*every, *plain}) == len(every) + len(plain) else None


def _window_and_place(expression: ir.AffineExpr, sizes: list[int]) -> tuple[int, int] | None:
    """The loops of ``window * size of place + place``."""
    if not isinstance(expression, ir.AffineAddExpr):
        return None
    terms = ir.AffineBinaryExpr(expression)
    for window, place in ((terms.lhs, terms.rhs), (terms.rhs, terms.lhs)):
        if not isinstance(window, ir.AffineMulExpr) or not isinstance(place, ir.AffineDimExpr):
            continue
        factors = ir.AffineBinaryExpr(window)
        inner = ir.AffineDimExpr(place).position
        if isinstance(factors.lhs, ir.AffineDimExpr) and factors.rhs == ir.AffineConstantExpr.get(sizes[inner]):
            return ir.AffineDimExpr(factors.lhs).position, inner
    return None


def _rewrite(op: ir.Operation, parts: list[dict[int, tuple[int, int]]]) -> None:
    start = owner(outputs(op)[0])
    if start is None or start.name != "linalg.fill":
        op = start_from_zero(op)
    with ir.InsertionPoint(op), op.location:
        count, indexing = len(kinds(op)), maps(op)
        factors = [_expanded(op, number, part) for number, part in enumerate(parts)]
        for number, part in enumerate(parts):
            results = [e for d, r in enumerate(indexing[number].results) for e in (map(ir.AffineDimExpr.get, part[d]) if d in part else (r,))]
            indexing[number] = ir.AffineMap.get(count, 0, results)
        same = [ir.AffineDimExpr.get(i) for i in range(count)]
        new = build(factors, outputs(op), indexing, kinds(op), lambda a: clone_body(body(op), a, same), op.location)
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _expanded(op: ir.Operation, number: int, part: dict[int, tuple[int, int]]) -> ir.Value:
    """A factor with a dimension for windows and one for places in the place of each that has both."""
    value, sizes = inputs(op)[number], loop_sizes(op)
    if not part:
        return value
    shape, groups = [], []
    for d, size in enumerate(value.type.shape):
        these = [sizes[n] for n in part[d]] if d in part else [size]
        groups.append(list(range(len(shape), len(shape) + len(these))))
        shape += these
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.ExpandShapeOp(type_, value, reassociation_attribute(groups), [], shape).result

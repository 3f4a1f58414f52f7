"""Slice off what no window reaches.

A strided convolution or pooling may leave the last rows of its input unread.  Where it has a single window along a
dimension, upstream's folding of unit extents makes an operation of it that does not verify: the window's size would have
to be the input's, or, where another size varies, one that reads beyond the window.  So the unread rows are sliced off before.
"""

from inferno.mlir import arith, ir, linalg, tensor, walk
from inferno.passes.generics import loops_of

_VARIES = ir.ShapedType.get_dynamic_size()


def trim_windows(module: ir.Module) -> None:
    """Slice the inputs of convolutions, of poolings and of what is written like them, in dimensions with a single window."""
    for op in walk(module.operation):
        if op.name.startswith(("linalg.conv", "linalg.depthwise_conv", "linalg.pooling", "linalg.generic")):
            _trim(op)


def _trim(op: ir.Operation) -> None:
    maps = [m.value for m in linalg.get_indexing_maps(op)]
    if not all(isinstance(v.type, ir.RankedTensorType) for v in op.operands):
        return
    extents: dict[int, int] = {}
    for map_, value in zip(maps, op.operands):
        for size, expression in zip(value.type.shape, map_.results):
            if isinstance(expression, ir.AffineDimExpr) and size != _VARIES:
                extents[ir.AffineDimExpr(expression).position] = size
    for i, (map_, value) in enumerate(zip(maps, list(op.opview.inputs))):
        sizes = [_read(e, extents, size) for size, e in zip(value.type.shape, map_.results)]
        if sizes != list(value.type.shape):
            op.operands[i] = _slice(op, value, sizes)


def _read(expression: ir.AffineExpr, extents: dict[int, int], size: int) -> int:
    """How many of ``size`` elements, which may vary, a subscript reaches; all of them unless it is a sum over a single window."""
    if not isinstance(expression, ir.AffineAddExpr) or 1 not in (extents.get(d) for d in loops_of(expression)):
        return size
    last = _last(expression, extents)
    return size if last is None or 0 <= size <= last else last + 1


def _last(expression: ir.AffineExpr, extents: dict[int, int]) -> int | None:
    """The largest value of a sum of products; None for anything else, and for a loop that is not known or never runs."""
    if isinstance(expression, ir.AffineConstantExpr):
        value = ir.AffineConstantExpr(expression).value
        return value if value >= 0 else None
    if isinstance(expression, ir.AffineDimExpr):
        extent = extents.get(ir.AffineDimExpr(expression).position, 0)
        return extent - 1 if extent else None
    if isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr)):
        left, right = _last(expression.lhs, extents), _last(expression.rhs, extents)
        if left is not None and right is not None:
            return left + right if isinstance(expression, ir.AffineAddExpr) else left * right
    return None


def _slice(op: ir.Operation, value: ir.Value, sizes: list[int]) -> ir.Value:
    rank = len(sizes)
    with op.location, ir.InsertionPoint(op):
        varying = [tensor.DimOp(value, arith.constant(ir.IndexType.get(), d)).result for d, size in enumerate(sizes) if size == _VARIES]
        return tensor.ExtractSliceOp(
            ir.RankedTensorType.get(sizes, value.type.element_type, value.type.encoding), value, [], varying, [], [0] * rank, sizes, [1] * rank,
        ).result

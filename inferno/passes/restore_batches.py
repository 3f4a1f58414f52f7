"""Restore the batch dimension of a single image, which upstream's folding of unit extents removes: kernels of convolutions expect it."""

from inferno.mlir import arith, ir, owner, walk
from inferno.passes.contraction import has_windows, pads_convolutions
from inferno.passes.generics import dims, maps
from inferno.passes.movements import pad, reshape
from inferno.passes.padding import padding


def restore_batches(module: ir.Module) -> None:
    """Expand the image of every convolution with windows whose first dimension a window walks along; what pads it pads that."""
    for op in walk(module.operation, "linalg.generic"):
        if has_windows(op) and op.operands[0].type.has_static_shape and dims(_first(maps(op)[0])) is None:
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = _in_batch(op.operands[0])
            image, *rest = maps(op)
            whole = ir.AffineMap.get(image.n_dims, 0, [ir.AffineConstantExpr.get(0), *image.results])
            op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in (whole, *rest)])


def _first(map_: ir.AffineMap) -> ir.AffineMap:
    return ir.AffineMap.get(map_.n_dims, 0, list(map_.results)[:1])


def _in_batch(value: ir.Value) -> ir.Value:
    """A batch of the one image, at the insertion point."""
    made = owner(value)
    if not pads_convolutions(made):
        return reshape(value, [1, *value.type.shape])
    low, high = padding(made)
    type_ = ir.RankedTensorType.get([1, *value.type.shape], value.type.element_type)
    return pad(reshape(made.operands[0], [1, *made.operands[0].type.shape]), type_, [0, *low], [0, *high], arith.constant(type_.element_type, 0.0))

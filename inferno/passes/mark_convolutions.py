"""Mark convolutions, and let them start from zero, so that later passes can tell a 1x1 one from other contractions, and fuse its bias."""

from inferno.mlir import ir, owner, walk
from inferno.passes.contraction import CONVOLUTION, CONVOLUTIONS, EXACT, is_sum_of_products, start_from_zero
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import REDUCTION, body, inputs, kinds, knows_sizes, loop_sizes, maps, outputs

_ELEMENTS = ("f32", "bf16", "f16")
# cuDNN 9 rounds nothing to TF32 where a group has few channels, or loads for tensor cores, of 16 bytes, are not whole: float32's error on an H200 was 1e-7
# with 3, 4, 8 and 16 channels, and 1e-4 with 20 and more.
_FEW, _WHOLE = 20, 4  # channels


def mark_convolutions(module: ir.Module) -> None:
    """Put ``inferno.convolution`` on the multiplication of every sum of products that reads a tensor by sums of loops, of the types that tensor
    cores multiply; what such a sum starts from, unless that is a fill, is added to it afterwards.

    Only modules for a GPU (``inferno.expand_pieces``) are changed: the libraries of others take convolutions as they are.
    """
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "linalg.generic"):
        if op.parent.name == "func.func" and _is_convolution(op):
            product = next(o.operation for o in body(op).operations if o.operation.name == "arith.mulf")
            for mark in (CONVOLUTION, EXACT) if _is_exact(op) else (CONVOLUTION,):
                product.attributes[mark] = ir.UnitAttr.get(module.context)
            module.operation.attributes[CONVOLUTIONS] = ir.UnitAttr.get(module.context)
            start = owner(outputs(op)[0])
            if start is None or start.name != "linalg.fill":
                start_from_zero(op)


def _is_convolution(op: ir.Operation) -> bool:
    if not is_sum_of_products(op) or not knows_sizes(op):
        return False
    elements = {str(v.type.element_type) for v in inputs(op)}
    windows = [any(not isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in m.results) for m in maps(op)]
    return len(elements) == 1 and elements <= set(_ELEMENTS) and windows == [True, False, False]


def _is_exact(convolution: ir.Operation) -> bool:
    """Whether a group has so few channels that torch computes in float32 even where TF32 is allowed."""
    channels, sizes = 1, loop_sizes(convolution)
    for e in maps(convolution)[0].results:
        if isinstance(e, ir.AffineDimExpr) and kinds(convolution)[d := ir.AffineDimExpr(e).position] == REDUCTION:
            channels *= sizes[d]
    return str(inputs(convolution)[0].type.element_type) == "f32" and (channels < _FEW or channels % _WHOLE != 0)

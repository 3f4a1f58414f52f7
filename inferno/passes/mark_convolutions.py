"""Convolutions are marked, and start from zero, so that later passes can tell one of 1x1, which is a contraction like any other, and fuse its bias."""

from inferno.mlir import ir, owner, walk
from inferno.passes.contraction import CONVOLUTION, CONVOLUTIONS, is_sum_of_products, start_from_zero
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import body, inputs, knows_sizes, maps, outputs
from inferno.passes.programs import takes_unmeasured

_ELEMENTS = ("f32", "bf16", "f16")


def mark_convolutions(module: ir.Module) -> None:
    """Put ``inferno.convolution`` on the multiplication of every sum of products that reads a tensor by sums of loops, of the types that tensor
    cores multiply; what such a sum starts from, unless that is a fill, is added to it afterwards.

    Only modules for a GPU (``inferno.expand_pieces``) that take what was not measured yet (``inferno.unmeasured``) are changed.
    """
    if EXPAND not in module.operation.attributes or not takes_unmeasured(module.operation):
        return
    for op in walk(module.operation, "linalg.generic"):
        if op.parent.name == "func.func" and _is_convolution(op):
            next(o.operation for o in body(op).operations if o.operation.name == "arith.mulf").attributes[CONVOLUTION] = ir.UnitAttr.get(module.context)
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

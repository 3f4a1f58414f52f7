"""Tell sums of elementwise products from products of matrices, which are the same operation after fusion: only the latter may be rounded to TF32."""

from inferno.mlir import ir, walk
from inferno.passes.contraction import EXACT
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import body, is_reduction, outputs

_TERM = "inferno.term"


def mark_terms(module: ir.Module) -> None:
    """Put ``inferno.term`` on the multiplications of float32 numbers that are elementwise, before any of them is fused with a sum.

    Only modules for a GPU (``inferno.expand_pieces``) are changed: nothing else has TF32.
    """
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "linalg.generic"):
        if not is_reduction(op):
            for product in _products(op):
                product.attributes[_TERM] = ir.UnitAttr.get(module.context)


def keep_exact(module: ir.Module) -> None:
    """Of these marks only those stay whose product is what a sum adds up, as ``inferno.exact``."""
    for op in walk(module.operation, "linalg.generic"):
        for product in _products(op):
            if _TERM in product.attributes:
                del product.attributes[_TERM]
                if is_reduction(op) and _is_added_up(op, product):
                    product.attributes[EXACT] = ir.UnitAttr.get(module.context)


def _products(op: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in body(op).operations if o.operation.name == "arith.mulf" and str(o.operation.results[0].type) == "f32"]


def _is_added_up(op: ir.Operation, product: ir.Operation) -> bool:
    """Whether a product is added to a value that the loops carry."""
    carried = list(body(op).arguments)[-len(outputs(op)):]
    adds = [o.operation for o in body(op).operations if o.operation.name == "arith.addf"]
    return any(product.results[0] in list(a.operands) and any(c in list(a.operands) for c in carried) for a in adds)

"""Which elementwise operations a GPU's generators take: bodies that can be cloned, on types that have registers of their own."""

from inferno.mlir import ir, walk
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.pointwise import Pointwise


@kept_with
def supported(point: Pointwise) -> bool:
    """Whether the body holds only what can be cloned, on types that have registers of their own."""
    places = [*point.destinations, *(s for s in point.sources if s is not None)]
    elements = [p.element for p in places] + [ir.RankedTensorType(v.type).element_type for v, _ in point.tables]
    return supported_body(point.generic) and all(supported_element(e) for e in elements)


_OTHERS = ("linalg.yield", "linalg.index", "tensor.extract")


def supported_body(generic: ir.Operation) -> bool:
    """Whether the body of a ``linalg.generic`` holds only operations that ``inline_body`` clones and the GPU computes."""
    for op in walk(generic):
        if op == generic:
            continue
        if not op.name.startswith(("arith.", "math.", "scf.")) and op.name not in _OTHERS:
            return False
        values = [v for v in (*op.operands, *op.results) if not isinstance(v.type, ir.RankedTensorType)]
        if any(not supported_element(v.type) and not isinstance(v.type, ir.IndexType) for v in values):
            return False
    return True


def supported_element(type_: ir.Type) -> bool:
    """Types that have registers of their own."""
    if isinstance(type_, ir.IntegerType):
        return type_.is_signless and type_.width in (1, 8, 16, 32, 64)
    return isinstance(type_, (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type))

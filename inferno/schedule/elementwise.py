"""The schedule of elementwise kernels: each thread computes ``unroll`` vectors of ``vector`` neighbouring points."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func, ir, walk
from inferno.schedule.cost import bit_width
from inferno.schedule.pointwise import Pointwise, parse_pointwise
from inferno.target import Target


@dataclass(frozen=True)
class Elementwise:
    """``threads`` a block; the vectors of one thread are a whole block's vectors apart."""

    generator: ClassVar[str] = "elementwise"

    threads: int = 256
    vector: int = 4
    unroll: int = 1


def choose(kernel: func.FuncOp, target: Target) -> Elementwise | None:
    """A schedule if ``kernel`` is elementwise on types that the GPU has; None otherwise."""
    if target.kind != "nvptx":
        return None
    point = parse_pointwise(kernel)
    if point is None or not supported(point):
        return None
    # One vector of 16 bytes a thread, 256 threads: at the rate of a copy for every case measured (H200: f32 and bf16
    # multiply-add-sigmoid 100 to 104% of a copy, unrolling gained nothing).
    vector = max(1, min(8, 16 // _narrowest(point)))
    threads = 256
    while threads > 64 and point.points < target.multiprocessors * threads * vector:
        threads //= 2
    while vector > 1 and point.points < target.multiprocessors * threads * vector:
        vector //= 2
    return Elementwise(threads=threads, vector=vector)


def _narrowest(point: Pointwise) -> int:
    """Bytes of the narrowest element that is stored or read once a point."""
    elements = [d.element for d in point.destinations]
    elements += [s.element for s in point.sources if s is not None and point.flat(s)]
    return min(bit_width(e) for e in elements) // 8


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
    return str(type_) in ("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64")

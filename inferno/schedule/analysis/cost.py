"""What a kernel costs at least: operations and bytes, counted on its structure."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from inferno.element_sizes import element_bytes
from inferno.mlir import constant_number, func, ir, walk
from inferno.passes.shapes import shape
from inferno.schedule.analysis.kept_operands import COPY, PARTS, kept
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.analysis.written_parts import touched_elements
from inferno.symbolic import Int, hint, product
from inferno.target import SECTOR

CLOCK = 1.7e3
"""MHz of a busy H200."""
MEMORY_RATE = 4.3e6
"""Bytes a microsecond that an H200 reads or writes."""
KERNEL_TIME, KERNEL_RATE = 0.9, 3.9e6
"""Microseconds of a small kernel behind others, and bytes that one moves in one: on an H200 the two of an RMSNorm of 65536x1024 took 209 us, the three of a
log_softmax 291, the four of a LayerNorm of 16x1024 3.7."""

_FREE = {"linalg.yield", "linalg.index", "arith.constant", "arith.extf", "arith.truncf", "arith.index_cast", "arith.select"}


At = Callable[[Int], int]
"""What a size that varies is taken to be: ``hint``, as in the example, or another of the sizes that it may have."""


def fastest(candidates: Iterable[tuple[float, Any]]) -> tuple[float, Any]:
    """The (estimate in microseconds, schedule) with the lowest estimate, the first of equal ones; (inf, None) where there are no candidates."""
    return min(candidates, key=lambda item: item[0], default=(math.inf, None))


@kept_with
def moved_bytes(contraction, at: At = hint, more: tuple = ()) -> int:
    """Bytes of all tensors that a ``Contraction`` reads or writes, each once, and of ``more``."""
    c = contraction
    moved = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations), *more]
    return sum(accessed_bytes(a, c.sizes, at) for a in moved)


def accessed_bytes(access, sizes: Sequence[Int], at: At = hint) -> int:
    """Bytes that loops of these sizes read or write of a tensor, of which that may be a part, each once."""
    count = min(at(product(access.shape)), at(product(n for n, stride in zip(sizes, access.strides) if stride != 0)))
    return count * element_bytes(access.element)


def tensor_bytes(type_: ir.Type) -> int:
    """Bytes of a tensor or buffer of static shape."""
    shaped = ir.ShapedType(type_)
    return math.prod(shaped.shape) * element_bytes(shaped.element_type)


def example_bytes(value: ir.Value) -> int:
    """Bytes of a tensor or buffer, with the example's sizes where they vary."""
    return math.prod(_sizes(value)) * element_bytes(value.type.element_type)


def count_bytes(kernel: func.FuncOp) -> int:
    """Bytes that the kernel must move through memory: each argument once, destinations and inputs alike, but for those that it has in
    another form, and of tensors that it changes parts of these parts.  Sizes that vary count as in the example."""
    instead, touched = {*kept(kernel, PARTS), *kept(kernel, COPY)}, touched_elements(kernel)
    tensors = [a for i, a in enumerate(kernel.entry_block.arguments) if not isinstance(a.type, ir.IndexType) and i not in (*instead, *touched)]
    parts = sum(hint(count) * element_bytes(kernel.entry_block.arguments[i].type.element_type) for i, count in touched.items())
    return sum(map(example_bytes, tensors)) + parts


def extracted_bytes(generic: ir.Operation) -> int:
    """Bytes that a body's ``tensor.extract`` bring: a sector of memory each, at most all of the tensor."""
    tables = [op.operands[0] for op in walk(generic, "tensor.extract")]
    points = _points(generic)[0] if tables else 0
    return sum(min(SECTOR * points, example_bytes(v)) for v in tables)


def count_flops(kernel: func.FuncOp) -> int:
    """Arithmetic operations: those of every structured operation's body times its points.

    A function such as exp counts as one.  The epilogue of a fused contraction, which runs at the last step of the
    reduction only, counts once for each result.
    """
    total = 0
    for op in walk(kernel):
        if op.name.startswith(("linalg.", "tm_tensor.")) and len(op.regions) and op.name != "linalg.yield":
            total += _times(op) * _structured(op)
    return total


def _times(op: ir.Operation) -> int:
    """How often an operation is done by the loops around it."""
    times = 1
    while (op := op.parent.operation).name not in ("func.func", "builtin.module"):
        if op.name == "scf.for":
            ends = [constant_number(v) for v in list(op.operands)[:3]]
            if None not in ends:
                times *= len(range(*ends))
    return times


def _structured(op: ir.Operation) -> int:
    body = [o for o in walk(op) if o != op and not o.name.startswith("linalg.fill")]
    work = [o for o in body if o.name not in _FREE]
    if op.name in ("linalg.fill", "linalg.transpose", "linalg.broadcast", "linalg.copy") or not work:
        return 0
    points, results = _points(op)
    if op.name == "linalg.generic" and any(o.name == "linalg.index" for o in body) and points > results:
        # The two operations of a multiply-add run at every point, the comparison and the epilogue at the last.
        return 2 * points + max(0, len(work) - 3) * results
    return len(work) * points


def _sizes(value: ir.Value) -> list[int]:
    return [hint(s) for s in shape(value)]


def _points(op: ir.Operation) -> tuple[int, int]:
    """The size of the iteration space, and of the result."""
    out = math.prod(_sizes(op.operands[len(op.operands) - 1])) if len(op.operands) else 0
    if op.name != "linalg.generic":
        sizes = [math.prod(_sizes(v)) for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
        if op.name.startswith(("linalg.matmul", "linalg.batch_matmul")):
            return out * _sizes(op.operands[0])[-1], out
        if op.name.startswith(("linalg.conv", "linalg.depthwise", "linalg.pooling")) and len(sizes) > 1:
            kernel = _sizes(op.operands[1])
            per = math.prod(kernel) if "depthwise" in op.name or "pooling" in op.name else math.prod(kernel[1:])
            return out * (per // kernel[0] if "depthwise" in op.name else per), out
        return max(sizes, default=0), out
    extent: dict[int, int] = {}
    for operand, map_ in zip(op.operands, op.opview.indexing_maps):
        map_ = map_ if isinstance(map_, ir.AffineMap) else map_.value
        if not isinstance(operand.type, ir.RankedTensorType):
            continue
        for size, expr in zip(_sizes(operand), map_.results):
            if isinstance(expr, ir.AffineDimExpr):
                extent[ir.AffineDimExpr(expr).position] = size
    return math.prod(extent.values()), out

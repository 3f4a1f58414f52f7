"""The schedule of a program of small operations that one block of threads goes through, with barriers in the place of launches.

A launch behind others takes about a microsecond, however little it does; a block that has all of a small tensor takes a fraction of that for an
operation.  The more points there are the longer that takes: a block has one multiprocessor.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from inferno.mlir import func, ir, walk
from inferno.passes.generics import is_reduction
from inferno.passes.programs import VIEWS, operations_in
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import filled, loop_sizes
from inferno.schedule.analysis.combiners import scan_combiner
from inferno.schedule.analysis.cost import CLOCK, count_bytes
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.maps.supported import supported_body, supported_element

_COPY = "linalg.copy"
_OTHERS = {"linalg.fill", "arith.constant", "tensor.empty", "func.return", *VIEWS}
_LARGEST = 1 << 16  # points of an operation
_LANES = 110 * CLOCK  # operations a microsecond, of 128 lanes
_LAUNCH, _ONE = 1.0, 6e4  # microseconds of a kernel; bytes a microsecond of a multiprocessor
# Microseconds until the last thread has come from one barrier to the next, where there is little to do: of a map, of what threads tell each other.
_MAP, _EXCHANGE = 0.08, 0.25
_OPERAND, _COSTLY = 5, 12  # operations for a place in a tensor, and of a function or a quotient
_SCANNED = 24  # operations of a point that is scanned


@dataclass(frozen=True)
class OneBlock:
    """A block of ``threads``."""

    generator: ClassVar[str] = "one_block"

    threads: int = 512


def fits(kernel: func.FuncOp) -> bool:
    """Whether the generator takes a kernel: maps, reductions and scans of known sizes, none of which is large."""
    arguments = kernel.entry_block.arguments
    known = all(isinstance(a.type, ir.RankedTensorType) and a.type.has_static_shape and supported_element(a.type.element_type) for a in arguments)
    if ATTRIBUTE in kernel.attributes or not known or symbol_arguments(kernel.operation):
        return False
    return all(_takes(o.operation) for o in kernel.entry_block.operations)


def _takes(op: ir.Operation) -> bool:
    if op.name == "linalg.generic":
        sizes = loop_sizes(op)
        return sizes is not None and all(isinstance(s, int) for s in sizes) and 0 < prod(sizes) <= _LARGEST and supported_body(op)
    if op.name == "tm_tensor.scan":
        inclusive = "inclusive" in op.attributes and ir.BoolAttr(op.attributes["inclusive"]).value
        return inclusive and scan_combiner(op) is not None and 0 < prod(op.operands[0].type.shape) <= _LARGEST
    if op.name == _COPY:
        return 0 < _points(op) <= _LARGEST
    if op.name == "tensor.extract_slice":
        return len(op.operands) == 1
    return op.name in _OTHERS


def pick(kernel: func.FuncOp) -> OneBlock:
    """More threads where a map has more points than few of them do soon."""
    return OneBlock(1024 if max(map(_points, _structured(kernel))) > 2048 else 512)


def estimate(kernel: func.FuncOp) -> float:
    """Microseconds."""
    return _LAUNCH + count_bytes(kernel) / _ONE + work(kernel)


def work(kernel: func.FuncOp) -> float:
    """Microseconds of a kernel's operations, where a block does them between others."""
    return sum(map(_time, _structured(kernel)))


def _structured(kernel: func.FuncOp) -> list[ir.Operation]:
    operations = operations_in(kernel)
    return [o for o in operations if o.name in ("tm_tensor.scan", _COPY) or (o.name == "linalg.generic" and filled(o.results[0]) is None)]


def _points(op: ir.Operation) -> int:
    return prod(loop_sizes(op)) if op.name == "linalg.generic" else prod(op.operands[0].type.shape)


def _time(op: ir.Operation) -> float:
    if op.name == "tm_tensor.scan":
        return _EXCHANGE + _points(op) * _SCANNED / _LANES
    if op.name == _COPY:
        return _MAP + _points(op) * 2 * _OPERAND / _LANES
    body = [o for o in walk(op) if o != op and o.name not in ("arith.constant", "linalg.yield", "linalg.index")]
    each = sum(_COSTLY if o.name.startswith("math.") or o.name in ("arith.divf", "arith.remsi", "arith.divsi") else 1 for o in body)
    each += _OPERAND * (len(op.operands) + sum(o.name == "tensor.extract" for o in body))
    return (_EXCHANGE if is_reduction(op) else _MAP) + _points(op) * each / _LANES

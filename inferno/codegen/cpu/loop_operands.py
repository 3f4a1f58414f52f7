"""Where the operands of a nest of loops on the CPU lie in their buffers."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.mlir import ir, owner
from inferno.passes.affine import linear
from inferno.schedule.analysis.accesses import steps_in_memory
from inferno.symbolic import Int, product

_VIEWS = {"memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.expand_shape", "memref.collapse_shape"}


def root_of(value: ir.Value) -> ir.Value:
    """The buffer that a view is of."""
    while (op := owner(value)) is not None and op.name in _VIEWS:
        value = op.operands[0]
    return value


@dataclass(frozen=True)
class Operand:
    """Where an operand lies in its buffer ``root``: the flat offset as an affine expression of the loops, and, where it is
    linear, as strides and a constant.  A scalar has no root."""

    value: ir.Value
    root: ir.Value | None
    expr: ir.AffineExpr | None
    strides: tuple[Int, ...] | None
    offset: Int = 0


@dataclass(frozen=True)
class Result:
    """A result: ``combiner`` is the operation that adds a value to the running one, None for any other body; ``running`` is the
    running value's type, wider than ``element`` for float sums.  ``start`` is what it starts from where that is a known
    scalar; ``stored`` is False where nothing reads it."""

    operand: Operand
    number: int
    combiner: str | None
    element: ir.Type
    stored: bool
    running: ir.Type
    start: ir.Value | None = None


def operand_of(value: ir.Value, map_: ir.AffineMap) -> Operand | None:
    """None where the buffer's strides are not known."""
    if not isinstance(value.type, ir.MemRefType):
        return Operand(value, None, None, ())
    strides, offset = value.type.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    if unknown in (*strides, offset) or not value.type.has_static_shape:
        return _varying_operand(value, map_)
    expr = ir.AffineConstantExpr.get(offset)
    for stride, part in zip(strides, map_.results):
        expr = expr + part * stride
    expr = ir.AffineMap.get(map_.n_dims, 0, [expr]).results[0]  # the class of an expression that was simplified
    found = linear(expr, map_.n_dims)
    return Operand(value, root_of(value), expr, *((None, 0) if found is None else found))


def _varying_operand(value: ir.Value, map_: ir.AffineMap) -> Operand | None:
    """The same where sizes, and so strides, vary; only for maps that are linear."""
    found = steps_in_memory(value, map_)
    return None if found is None else Operand(value, root_of(value), None, *found)


def operand_of_dense(shape: Sequence[Int], map_: ir.AffineMap) -> tuple[Int, ...]:
    """Strides by loop in a contiguous buffer."""
    strides = [0] * map_.n_dims
    for i, expr in enumerate(map_.results):
        if isinstance(expr, ir.AffineDimExpr):
            strides[ir.AffineDimExpr(expr).position] = product(shape[i + 1:])
    return tuple(strides)

"""Online softmax: sums of exponentials below a row's maximum, accumulated in the pass that looks for the maximum.

Each thread's sum is relative to the largest that it has seen, and is scaled when that grows, and once more by what the row's largest is beyond it: rows
are read once less ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018).
"""

from inferno.codegen.builders.elements import splat
from inferno.codegen.builders.inline import inline_body
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.row_maxima import FINITE, OnlineSum
from inferno.schedule.rows.row_steps import RowStep


def bound(x: OnlineSum, value: ir.Value) -> ir.Value:
    """A maximum in float32, or the finite number next to it."""
    most, f32 = FINITE[str(x.element)], ir.F32Type.get()
    value = value if value.type == f32 else arith.extf(f32, value)
    low, high = (arith.constant(value.type, ir.FloatAttr.get(value.type, y)) for y in (-most, most))
    return arith.maximumf(arith.minimumf(value, high), low)


def scaled(x: OnlineSum, total: ir.Value, point: ir.Value, base: ir.Value) -> ir.Value:
    """A total relative to ``point``, a float32 that is one of the points, as one relative to ``base``."""
    point = point if point.type == x.element else arith.truncf(x.element, point)
    known = {x.point: point, x.base: base}
    if x.made is not None:
        known[x.exponential] = _inline(x.made, known)
    return arith.mulf(total, x.combiner.to_total(x.combiner.widen(_inline(x.step, known))))


def _inline(step: RowStep, known: dict[Access | int, ir.Value]) -> ir.Value:
    arguments = [splat(ir.IntegerType.get_signless(1), 0) if s is None else known[s] for s in step.sources]
    arguments += [splat(ir.IntegerType.get_signless(1), 0)] * (len(step.block.arguments) - len(arguments))
    return inline_body(step.block, arguments)[0]

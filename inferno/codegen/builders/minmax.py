"""Fold a comparison and a selection into a maximum or minimum with a constant: one instruction on the GPU.

``select(x > c, x, c)``, PyTorch's relu and clamp, is ``maximumf(x, c)`` where the comparison is true of NaN.  Only where the
two agree on the sign of zero: for -0 against c = +0 the selection gives c, as maximumf does.
"""

from math import copysign, isnan

from inferno.mlir import arith, constant_number, ir, is_read, owner, walk

_UGT, _UGE, _ULT, _ULE = 9, 10, 11, 12  # values of arith.cmpf's predicates: true of NaN


def recognise_maximum(op: ir.Operation) -> None:
    """Rewrite the selections below ``op``, in place."""
    for select in walk(op, "arith.select"):
        value = _extreme(select)
        if value is not None:
            compare = owner(select.operands[0])
            select.results[0].replace_all_uses_with(value)
            select.erase()
            if not is_read(compare.results[0]):
                compare.erase()


def _extreme(select: ir.Operation) -> ir.Value | None:
    condition, x, bound = select.operands
    compare = owner(condition)
    if compare is None or compare.name != "arith.cmpf" or list(compare.operands) != [x, bound]:
        return None
    number = constant_number(bound)
    predicate = ir.IntegerAttr(compare.attributes["predicate"]).value
    if number is None or isnan(number):
        return None
    negative = copysign(1.0, number) < 0
    with ir.InsertionPoint(select):
        if (predicate == _UGT and not (number == 0 and negative)) or (predicate == _UGE and number != 0):
            return arith.maximumf(x, bound)
        if predicate in (_ULT, _ULE) and number != 0:
            return arith.minimumf(x, bound)
    return None

"""Rewrite running sums of one number as maps: places are counted by ``ones.cumsum(0)``, in DETR's and SAM's encodings of positions, or by a mask's when it is
all ones.

The sum of the first i is i times the number, which takes no scan, and fuses with what reads it.
"""

from collections.abc import Callable

from inferno.mlir import arith, ir, is_read, owner, walk
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, loop

_SUMS = "arith.addf", "arith.addi"


def fold_scans(module: ir.Module) -> None:
    """Rewrite inclusive sums, of float32, float64 and integers as exact as they are, and of 16 bits as exact as float32's."""
    for op in walk(module.operation, "tm_tensor.scan"):
        if (number := _summed(op)) is not None:
            _fold(op, number)


def _summed(op: ir.Operation) -> Callable[[], ir.Value] | None:
    """What makes the number whose multiples a scan gives."""
    combiner = list(body(op).operations)
    if not ir.BoolAttr(op.attributes["inclusive"]).value or is_read(op.results[1]) or len(combiner) != 2 or combiner[0].operation.name not in _SUMS:
        return None
    return _number(op.operands[0]) if combiner[0].operands[0] != combiner[0].operands[1] else None


def _number(value: ir.Value) -> Callable[[], ir.Value] | None:
    """What makes the number that all elements of a tensor are, at the insertion point."""
    made = owner(value)
    if made is not None and made.name == "linalg.fill":
        return lambda: made.operands[0]
    if not is_elementwise(made) or len(made.results) != 1 or walk(made, "linalg.index", "tensor.extract", "scf.if"):
        return None
    numbers = [_number(v) for v in inputs(made)]
    if None in numbers:
        return None
    return lambda: clone_body(body(made), [*(number() for number in numbers), None])[0]


def _fold(op: ir.Operation, number: Callable[[], ir.Value]) -> None:
    along, element = ir.IntegerAttr(op.attributes["dimension"]).value, op.results[0].type.element_type
    start = owner(op.operands[1])
    room = start.operands[1] if start is not None and start.name == "linalg.fill" else op.operands[1]
    rank = op.results[0].type.rank
    narrow = isinstance(element, ir.FloatType) and element.width < 32

    def multiple(_: list[ir.Value]) -> list[ir.Value]:
        i64 = ir.IntegerType.get_signless(64)
        count = arith.index_cast(i64, arith.addi(loop(along), arith.constant(ir.IndexType.get(), 1)))
        wide = ir.F32Type.get() if narrow else element
        if isinstance(element, ir.IntegerType):
            return [arith.muli(number(), count if element == i64 else arith.trunci(element, count))]
        made = arith.mulf(arith.extf(wide, number()) if narrow else number(), arith.sitofp(wide, count))
        return [arith.truncf(element, made) if narrow else made]

    with ir.InsertionPoint(op), op.location:
        made = build([], [room], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, multiple, op.location)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()

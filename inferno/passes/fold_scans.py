"""Rewrite running sums of one number as maps: places are counted by ``ones.cumsum(0)``, in DETR's and SAM's encodings of positions, or by a mask's when it is
all ones.

The sum of the first i is i times the number, which takes no scan, and fuses with what reads it.
"""

from inferno.mlir import arith, ir, is_read, owner, walk
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, loop

_SUMS = "arith.addf", "arith.addi"


def fold_scans(module: ir.Module) -> None:
    """Rewrite inclusive sums, of float32, float64 and integers as exact as they are, and of 16 bits as exact as float32's."""
    for op in walk(module.operation, "tm_tensor.scan"):
        if (makers := _summed(op)) is not None:
            _fold(op, makers)


def _summed(op: ir.Operation) -> list[ir.Operation] | None:
    """What makes the number whose multiples a scan gives."""
    combiner = list(body(op).operations)
    if not ir.BoolAttr(op.attributes["inclusive"]).value or is_read(op.results[1]) or len(combiner) != 2 or combiner[0].operation.name not in _SUMS:
        return None
    return _makers(op.operands[0]) if combiner[0].operands[0] != combiner[0].operands[1] else None


def _makers(value: ir.Value) -> list[ir.Operation] | None:
    """What makes a tensor, each operation behind those that it reads; None where its elements may be several numbers."""
    found: dict[ir.Operation, None] = {}
    pending = [value]
    while pending:
        made = owner(pending[-1])
        if made is None:
            return None
        if made in found or made.name == "linalg.fill":
            found[made] = None
            pending.pop()
            continue
        if not is_elementwise(made) or len(made.results) != 1 or walk(made, "linalg.index", "tensor.extract", "scf.if"):
            return None
        if behind := [v for v in inputs(made) if owner(v) is None or owner(v) not in found]:
            pending += behind
        else:
            found[made] = None
    return list(found)


def _number(makers: list[ir.Operation]) -> ir.Value:
    """The number that all elements of what the last operation makes are, at the insertion point."""
    numbers: dict[ir.Operation, ir.Value] = {}
    for made in makers:
        if made.name == "linalg.fill":
            numbers[made] = made.operands[0]
        else:
            numbers[made] = clone_body(body(made), [*(numbers[owner(v)] for v in inputs(made)), None])[0]
    return numbers[makers[-1]]


def _fold(op: ir.Operation, makers: list[ir.Operation]) -> None:
    along, element = ir.IntegerAttr(op.attributes["dimension"]).value, op.results[0].type.element_type
    start = owner(op.operands[1])
    room = start.operands[1] if start is not None and start.name == "linalg.fill" else op.operands[1]
    rank = op.results[0].type.rank
    narrow = isinstance(element, ir.FloatType) and element.width < 32

    def multiple(_: list[ir.Value]) -> list[ir.Value]:
        i64 = ir.IntegerType.get_signless(64)
        count = arith.index_cast(i64, arith.addi(loop(along), arith.constant(ir.IndexType.get(), 1)))
        wide, number = ir.F32Type.get() if narrow else element, _number(makers)
        if isinstance(element, ir.IntegerType):
            return [arith.muli(number, count if element == i64 else arith.trunci(element, count))]
        made = arith.mulf(arith.extf(wide, number) if narrow else number, arith.sitofp(wide, count))
        return [arith.truncf(element, made) if narrow else made]

    with ir.InsertionPoint(op), op.location:
        made = build([], [room], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, multiple, op.location)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()

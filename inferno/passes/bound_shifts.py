"""Define shifts by a negative number, or by at least as many bits as there are: torch's give 0, or the sign; arith's result is undefined."""

from inferno.mlir import arith, ir, owner, walk

_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")


def bound_shifts(module: ir.Module) -> None:
    """Make every shift by a number that is not known one by fewer than the bits; what is shifted out to the end is 0, or all sign."""
    for op in walk(module.operation, *_SHIFTS):
        by = op.operands[1]
        made = owner(by)
        if not isinstance(by.type, ir.IntegerType) or (made is not None and made.name == "arith.constant"):
            continue
        with ir.InsertionPoint(op), op.location:
            last = arith.constant(by.type, by.type.width - 1)
            inside = arith.cmpi(arith.CmpIPredicate.ule, by, last)
            op.operands[1] = arith.select(inside, by, last)
        if op.name != "arith.shrsi":
            with ir.InsertionPoint.after(op), op.location:
                found = arith.select(inside, op.results[0], arith.constant(by.type, 0))
            op.results[0].replace_all_uses_except(found, owner(found))

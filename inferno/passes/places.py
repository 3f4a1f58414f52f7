"""Indices of ``tensor.extract`` in bodies, as loops of the operation."""

from inferno.mlir import dim_of, ir, owner
from inferno.passes.generics import body, dims, maps

Place = tuple[int | None, int, int]
"""A loop, or none, what its number is multiplied by, and what is added."""


# What makes places of numbers of loops that are in no regular order, as buckets of distances are.
_BENDING = {"math.absi", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui", "arith.fptosi", "arith.fptoui"}


def is_looked_up(gather: ir.Operation, bent: bool = False) -> bool:
    """Whether an element is gathered at a place that another tensor says; if ``bent`` also one that numbers of loops say in no regular order."""
    pending, seen = list(gather.operands)[1:], set()
    while pending:
        made = owner(pending.pop())
        if made is None or (bent and made.name in _BENDING):  # an argument of the body
            return True
        if made not in seen:
            seen.add(made)
            pending += made.operands
    return False


def place_of(number: ir.Value) -> Place | None:
    """What an index of a body is, where that is one loop's number, or its distance from a number."""
    op = owner(number)
    if op is None:
        return None
    if op.name == "arith.constant":
        return None, 0, ir.IntegerAttr(op.attributes["value"]).value
    if op.name == "linalg.index":
        return dim_of(op), 1, 0
    if op.name not in ("arith.addi", "arith.subi"):
        return None
    a, b = (place_of(v) for v in op.operands)
    if a is None or b is None or (a[0] is not None and b[0] is not None):
        return None
    sign = 1 if op.name == "arith.addi" else -1
    return (a[0], a[1], a[2] + sign * b[2]) if a[0] is not None else (b[0], sign * b[1], a[2] + sign * b[2])


def loops_behind(value: ir.Value, generic: ir.Operation) -> set[int]:
    """The loops along which a number of a body is another one, as far as that is known."""
    read = dict(zip(body(generic).arguments, maps(generic)))
    found: set[int] = set()
    pending, seen = [value], set()
    while pending:
        value = pending.pop()
        made = owner(value)
        if value in read:
            found |= set(dims(read[value]) or ())
        elif made is None or made.parent.operation == generic.parent.operation or made in seen:
            continue
        elif made.name == "linalg.index":
            found.add(dim_of(made))
        else:
            seen.add(made)
            pending += made.operands
    return found

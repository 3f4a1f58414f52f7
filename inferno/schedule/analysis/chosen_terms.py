"""Terms of sums that are read from the pieces of a concatenation: a body chooses the piece by the term's index (``scf.if``), and reads it by
``tensor.extract``."""

from math import gcd

from inferno.mlir import arith, func, ir, owner, walk
from inferno.passes.generics import kinds
from inferno.passes.places import loops_behind
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access, argument_index
from inferno.schedule.analysis.affine_extracts import linear_place, walk_of


def table_accesses(kernel: func.FuncOp, generic: ir.Operation) -> list[Access]:
    """Where ``tensor.extract`` reads arguments at places that are linear in the loops, as if it did in all of these."""
    loops, found = len(kinds(generic)), []
    for op in walk(generic, "tensor.extract"):
        if (place := walk_of(op, loops)) is not None:
            type_ = ir.RankedTensorType(op.operands[0].type)
            found.append(Access(argument_index(kernel, op.operands[0]), type_.element_type, *place, tuple(type_.shape)))
    return list(dict.fromkeys(found))


def followed_tables(kernel: func.FuncOp, generic: ir.Operation) -> list[Access]:
    """In which order ``tensor.extract`` goes over arguments at places that are not linear in the loops, as those of an enlarged image: the strides are those
    of the closest elements whose places a loop has a part in."""
    found = []
    for op in walk(generic, "tensor.extract"):
        type_, strides = ir.RankedTensorType(op.operands[0].type), [0] * len(kinds(generic))
        for place, step in zip(list(op.operands)[1:], row_major(type_.shape)):
            for d in loops_behind(place, generic):
                strides[d] = min(strides[d] or step, step)
        found.append(Access(argument_index(kernel, op.operands[0]), type_.element_type, tuple(strides), 0, tuple(type_.shape)))
    return list(dict.fromkeys(found))


def chosen_together(generic: ir.Operation, loop: int, size: int) -> int:
    """Of how many neighbours along ``loop`` as many as a divisor of this number, beginning at a multiple of that, are always in one piece."""
    together = size
    for op in walk(generic, "scf.if"):
        together = gcd(together, *_changes(op.operands[0], loop, len(kinds(generic))))
    return together


def _changes(condition: ir.Value, loop: int, loops: int) -> list[int]:
    """Numbers at multiples of whose divisors alone a condition may change along ``loop``; 1 where nothing is known."""
    op = owner(condition)
    if op is None:
        return [1]
    if op.name in ("arith.andi", "arith.ori") and condition.type == ir.IntegerType.get_signless(1):
        return [n for v in op.operands for n in _changes(v, loop, loops)]
    if op.name != "arith.cmpi" or not isinstance(op.operands[0].type, ir.IndexType):
        return [1]
    place, bound = (linear_place(v, loops) for v in op.operands)
    if place is None or bound is None or any(bound[0]):
        return [1]
    if not place[0][loop]:
        return []
    ordered = ir.IntegerAttr(op.attributes["predicate"]).value == arith.CmpIPredicate.ult
    # What is below 0 is above all bounds, as a number without a sign: there the condition changes as well.
    return [abs(place[1]), abs(place[1] - bound[1])] if ordered and place[0][loop] == 1 and sum(map(abs, place[0])) == 1 else [1]

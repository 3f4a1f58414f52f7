"""Which maps in front of a scan may read their points anywhere: those that pick neighbours, or nothing, by where a point is."""

from inferno.mlir import ir, owner, walk
from inferno.schedule.accesses import iterators

_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi")


def picks_neighbours(generic: ir.Operation) -> bool:
    """Whether all that a map extracts is along its last loop as the points are, shifted maybe, and may be read whatever its conditions say.

    Of a choice one side at most reads: of two tensors beside each other one would be read for nothing.  Nor may a side divide by whole numbers, of
    which one may be 0 where the other side is taken.
    """
    extracts = walk(generic, "tensor.extract")
    if any(0 in e.operands[0].type.shape or not _is_shifted(e, generic) for e in extracts):
        return False
    for choice in walk(generic, "scf.if"):
        sides = [[op for o in region.blocks[0].operations for op in walk(o)] for region in choice.regions]
        names = {op.name for side in sides for op in side}
        if not names.isdisjoint(_DIVISIONS) or sum(any(op.name == "tensor.extract" for op in side) for side in sides) > 1:
            return False
        if not names.isdisjoint(("scf.for", "scf.while")) or len(sides) != 2 or any(len(r.blocks) != 1 for r in choice.regions):
            return False
    return True


def _is_shifted(extract: ir.Operation, generic: ir.Operation) -> bool:
    """Whether it reads a tensor of neighbours along the last loop, and is elsewhere only as other loops go on."""
    last = len(iterators(generic)) - 1
    *others, inner = list(extract.operands)[1:] or [None]
    if inner is None or (found := shifted_index(inner)) is None or found[0] != last:
        return False
    return all((at := shifted_index(v)) is not None and at[0] != last for v in others)


def shifted_index(index: ir.Value) -> tuple[int | None, int] | None:
    """The loop whose number this is, and what is added to it; no loop of a constant, None of anything else."""
    op = owner(index)
    if op is None:
        return None
    if op.name == "linalg.index":
        return ir.IntegerAttr(op.attributes["dim"]).value, 0
    if op.name == "arith.constant" and isinstance(index.type, ir.IndexType):
        return None, ir.IntegerAttr(op.attributes["value"]).value
    if op.name not in ("arith.addi", "arith.subi"):
        return None
    first, second = (shifted_index(v) for v in op.operands)
    if first is None or second is None or second[0] is not None:
        return None
    return first[0], first[1] + (second[1] if op.name == "arith.addi" else -second[1])

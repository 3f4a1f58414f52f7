"""Which maps in front of a scan may gather: those that read neighbours, or nothing, by a point's index."""

from inferno.mlir import ir, walk
from inferno.passes.generics import kinds
from inferno.passes.places import place_of

_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi")


def gathers_neighbours(generic: ir.Operation) -> bool:
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
    last = len(kinds(generic)) - 1
    *others, inner = list(extract.operands)[1:] or [None]
    if inner is None or (found := place_of(inner)) is None or found[:2] != (last, 1):
        return False
    return all((at := place_of(v)) is not None and at[0] != last for v in others)

"""Reads of tables at places that are computed, as resizing, pooling and rotary embeddings have them: how far apart those of neighbouring points are."""

from inferno.mlir import constant_number, dim_of, ir, owner, walk
from inferno.passes.generics import loop_of
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import is_multiple


def resizes_images(point: Pointwise) -> bool:
    """Whether several elements are read for each point, at places that are computed."""
    taps, step = taps_of(point)
    return len(taps) > 1 and step == 0


def taps_of(point: Pointwise) -> tuple[list[ir.Operation], float]:
    """The reads of tables, and by how many elements windows of these are apart along the innermost loop, where they overlap; 1 where they do not, or lie
    where another loop is, as pieces that are stacked; 0 where places are computed otherwise."""
    taps, found = _places(point)
    if found is None:
        return taps, 0
    steps = {step for step, _ in found}
    return taps, 1 if len(steps) != 1 or len(found) <= max(steps) else max(steps)


def _places(point: Pointwise) -> tuple[list[ir.Operation], set[tuple[float, int]] | None]:
    """The reads of tables, and where these are in their last dimension: so many elements apart along the innermost loop, from there on.  None where places
    are computed otherwise."""
    taps = walk(point.generic, "tensor.extract")
    last, found, groups = (point.runs[-1][-1] if point.runs else -1), set(), groups_of(point)
    for tap in taps:
        value, step, constant = tap.operands[len(tap.operands) - 1], 1, 0
        while (op := owner(value)) is not None and op.name in ("arith.addi", "arith.subi", "arith.muli", "arith.divui"):
            by = constant_number(op.operands[1])
            if by is None:
                return taps, None
            if op.name == "arith.divui":
                if (loop_of(op.operands[0]), by) not in groups:
                    return taps, None
                step /= by
            else:
                step, constant = (step * by, constant) if op.name == "arith.muli" else (step, constant + step * (by if op.name == "arith.addi" else -by))
            value = op.operands[0]
        if op is None or op.name != "linalg.index":
            return taps, None
        if dim_of(op) == last:
            found.add((step, constant))
        elif step != 1 or constant or point.sizes[last] not in (2, 4, 8):  # of another number, which lane has which piece differs from vector to vector
            return taps, None
    return taps, found


def groups_of(point: Pointwise) -> set[tuple[int, int]]:
    """Loops, and of how many neighbours a branch tells one from another, as of pairs that are rotated: what is read for each group lies side by side."""
    found = set()
    for op in walk(point.generic, "arith.remui"):
        loop, number = loop_of(op.operands[0]), constant_number(op.operands[1])
        if loop is not None and number is not None:
            found.add((loop, number))
    return found


def lane_by_lane(point: Pointwise, vector: int) -> bool:
    """Whether windows that do not overlap are read along rows that vectors do not divide: an access of a warp's lanes is of places a vector of windows apart,
    and costs the L1 cache as much as one of neighbours for each of them."""
    taps, found = _places(point)
    inner = point.run_sizes[-1] if point.runs else 1
    return bool(found) and isinstance(point.points, int) and len(taps) > 1 and min(step for step, _ in found) > 1 and not is_multiple(inner, vector)

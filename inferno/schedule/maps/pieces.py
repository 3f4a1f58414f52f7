"""Maps that read the pieces of a concatenation, of which each point is in one: how many lanes of a vector are."""

from inferno.mlir import constant_number, dim_of, ir, owner, walk
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import is_multiple

MOST_MIXED = 3  # choices that the lanes of a vector may differ in: three pieces of odd lengths were at 78% of a copy
# Lanes of a vector that may lie in two pieces, elements of a piece from which none may, and points of rows of pieces: (x + y) * z beside w, each of 129 rows of
# 126793, took an H200 102 us in float32 by 4 lanes, 92 one by one, as rows of 126794 107 by 4 and 92 by 2, in bf16 71 by 8, 61 by 4, and 54 by 4, 50 by 2; x
# beside y 62 us by 4 and 65 one by one, 68 by 4 and 63 by 2, in bf16 36 by 8, 35 by 4, and 35 by 8, 33 by 2; x, y * 2 and z of 6000x2501 in bf16 62 by 8, 57
# by 4, of 129x126794 69 by 8, 56 by 2.
_MIXED_LANES, _MANY_READ, _LONG_PIECES = 4, 3, 64


def by_pieces(point: Pointwise, vector: int) -> tuple[int, int]:
    """Points that a thread has in all, and those of a vector, whose lanes are read from one piece of a concatenation or from few."""
    row, full = point.run_sizes[-1] if point.runs else 1, vector
    if vector == 8 and walk(point.generic, "scf.if") and row not in (2, 4) and is_multiple(row, 4) and not is_multiple(row, 8):
        vector = 4  # which lie in one row each, and are read at once
    vector = _in_pieces(point, vector)
    while vector > 1 and across_pieces(point, vector) > MOST_MIXED:
        full = vector = vector // 2
    return full, vector


def across_pieces(point: Pointwise, vector: int) -> int:
    """Choices between pieces that the lanes of one vector may differ in: both pieces are read then."""
    inner, found = point.run_sizes[-1] if point.runs else 1, 0
    for op in walk(point.generic, "scf.if"):
        plain = any(all(o.operation.name in ("arith.constant", "scf.yield") for o in r.blocks[0].operations) for r in op.regions)
        if _alternates(point, op.operands[0], vector):
            continue
        numbers, loops = _constants_and_loops(op.operands[0])
        depends = bool(point.runs) and bool(loops & set(point.runs[-1]))
        if not plain and inner != vector and (not is_multiple(inner, vector) or (depends and any(n % vector for n in numbers))):
            found += 1
    return found


def _alternates(point: Pointwise, condition: ir.Value, vector: int) -> bool:
    """Whether a remainder of the last loop decides that is the same for a lane of every vector, as of what is stacked last: neighbours are chosen in turns."""
    compared = owner(condition)
    place = owner(compared.operands[0]) if compared is not None and compared.name == "arith.cmpi" else None
    if place is None or place.name != "arith.remui" or constant_number(compared.operands[1]) is None:
        return False
    loop, period = owner(place.operands[0]), constant_number(place.operands[1])
    if loop is None or loop.name != "linalg.index" or not period or not point.runs or dim_of(loop) != point.runs[-1][-1]:
        return False
    return vector % period == 0 and is_multiple(point.sizes[dim_of(loop)], period)


def _in_pieces(point: Pointwise, vector: int) -> int:
    """Lanes of a vector that lies in one piece, for which those of ``vector`` may lie in two; half of 8 and all of 4 where none does, but one where a piece is
    computed of so many elements that reading both is what takes long."""
    together, row = vector, point.run_sizes[-1] if point.runs else 1
    if not isinstance(row, int) or row < _LONG_PIECES:
        return vector
    while together > 1 and across_pieces(point, together):
        together //= 2
    if together > 1 or vector == 1:
        return together
    if vector > _MIXED_LANES:
        return _MIXED_LANES
    most = max(sum(o.operation.name == "tensor.extract" for o in r.blocks[0].operations) for choice in walk(point.generic, "scf.if") for r in choice.regions)
    return 1 if most >= _MANY_READ else vector


def _constants_and_loops(value: ir.Value) -> tuple[list[int], set[int]]:
    """What a condition is computed of: numbers, other than divisors, and loops."""
    op = owner(value)
    if op is None:
        return [], set()
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        return ([attribute.value] if isinstance(attribute, ir.IntegerAttr) else []), set()
    if op.name == "linalg.index":
        return [], {dim_of(op)}
    operands = list(op.operands)[:1] if op.name in ("arith.remui", "arith.divui") else list(op.operands)
    numbers, loops = [], set()
    for operand in operands:
        more, others = _constants_and_loops(operand)
        numbers += more
        loops |= others
    return numbers, loops

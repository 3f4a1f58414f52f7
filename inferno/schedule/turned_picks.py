"""Elements that a map picks in branches, as of a concatenation's pieces, which lie side by side along another loop than the result does.

Each such ``tensor.extract`` is read for a tile of points along the loop in which its tensor lies, only where its branch is taken, and picked from shared
memory.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, ir, owner, walk
from inferno.schedule.accesses import Access, row_major
from inferno.schedule.cost import bit_width
from inferno.schedule.pointwise import Pointwise
from inferno.schedule.strewn_extracts import linear

_LEAST = 16  # points along both loops that a tile is worth it for
_MOST = 4  # tiles of a block
_SHARE = 0.25  # of all points, of which less may be read strewn
_BELOW = (arith.CmpIPredicate.ult, arith.CmpIPredicate.slt, arith.CmpIPredicate.uge, arith.CmpIPredicate.sge)


@dataclass(frozen=True)
class Pick:
    """``op`` reads ``access``, whose strides are those of loops; where its branches are not taken that may be outside of the tensor."""

    op: ir.Operation
    access: Access


@dataclass(frozen=True)
class TurnedPicks:
    """Picks and operands, the latter by their numbers, that lie side by side along the run ``across``."""

    across: int
    numbers: tuple[int, ...]
    picks: tuple[Pick, ...]


def turned_picks(point: Pointwise) -> TurnedPicks | None:
    """What tiles are for in a kernel whose picks are all at sums and differences of loops; None where there are none, or too many, or along several loops."""
    sizes, last, extracts = point.run_sizes, len(point.runs) - 1, [op.operation for op in walk(point.generic, "tensor.extract")]
    if last < 1 or not extracts or not all(isinstance(n, int) for n in point.sizes) or sizes[last] < _LEAST:
        return None
    if point.run_strides(point.destinations[0])[last] != 1:
        return None
    arguments = dict(point.tables)
    every = [_access(point, op, arguments[op.operands[0]]) for op in extracts]
    if None in every:
        return None
    beside = [{r for r in range(last) if abs(point.run_strides(a)[r]) == 1} if abs(point.run_strides(a)[last]) > 1 else set() for a in every]
    found = [Pick(op, a) for op, a, runs in zip(extracts, every, beside) if runs]
    along = set().union(*beside)
    if len(along) != 1 or sum(_share(p.op, point) for p in found) < _SHARE:
        return None
    across = min(along)
    numbers = tuple(
        n for n, s in enumerate(point.sources) if s is not None and point.run_strides(s)[across] == 1 and point.run_strides(s)[last] > 1
    )
    return TurnedPicks(across, numbers, tuple(found)) if sizes[across] >= _LEAST and len(numbers) + len(found) <= _MOST else None


def _share(op: ir.Operation, point: Pointwise) -> float:
    """Of how many points an extract's branch is taken, as far as that is known."""
    share = 1.0
    for condition, holds in taken_branches(op, point.generic) or ():
        below = owner(condition)
        if below.name != "arith.cmpi" or ir.IntegerAttr(below.attributes["predicate"]).value != arith.CmpIPredicate.ult:
            continue
        number, bound = (linear(v, len(point.sizes)) for v in below.operands)
        if number is not None and bound is not None and sorted(number[0]) == [0] * (len(number[0]) - 1) + [1] and not any(bound[0]):
            part = min(1.0, max(0.0, (bound[1] - number[1]) / point.sizes[number[0].index(1)]))
            share *= part if holds else 1 - part
    return share


def _access(point: Pointwise, op: ir.Operation, argument: int) -> Access | None:
    """Where an extract reads, by loops; None where that is no sum of them, or runs are walked with several strides."""
    table, loops = op.operands[0].type, len(point.sizes)
    places = [linear(v, loops) for v in list(op.operands)[1:]]
    if not table.has_static_shape or any(p is None for p in places):
        return None
    steps = row_major(table.shape)
    strides = tuple(sum(s * p[0][d] for s, p in zip(steps, places)) for d in range(loops))
    for run in point.runs:
        if any(strides[d] != strides[run[-1]] * prod(point.sizes[e] for e in run[i + 1:]) for i, d in enumerate(run)):
            return None
    return Access(argument, table.element_type, strides, sum(s * p[1] for s, p in zip(steps, places)), tuple(table.shape))


def taken_branches(op: ir.Operation, generic: ir.Operation) -> list[tuple[ir.Value, bool]] | None:
    """The conditions under which an operation of a body is computed, and whether each holds then; None where one is of more than loops' numbers."""
    found, inner, around = [], op, op.parent
    while around != generic:
        if around.name != "scf.if" or not _counts(around.operands[0]):
            return None
        found.append((around.operands[0], any(o.operation == inner for o in around.regions[0].blocks[0].operations)))
        inner, around = around, around.parent
    return found


def _counts(value: ir.Value) -> bool:
    """Whether a value is computed of loops' numbers alone."""
    op = owner(value)
    if op is None or not (op.name in ("linalg.index", "arith.constant") or (op.name.startswith("arith.") and not len(op.regions))):
        return False
    return all(map(_counts, op.operands))


def brought_together(point: Pointwise, turned: TurnedPicks) -> int:
    """Neighbours that can be brought to a tile at once: 2 of 16 bits that lie in one word, in one branch, and 1 otherwise."""
    run, every = turned.across, [*(point.sources[n] for n in turned.numbers), *(p.access for p in turned.picks)]
    if len(point.runs[run]) > 1 or point.sizes[point.runs[run][0]] % 2 or any(bit_width(a.element) != 16 for a in every):
        return 1
    for a in every:
        strides = point.run_strides(a)
        if strides[run] != 1 or a.offset % 2 or any(s % 2 for r, s in enumerate(strides) if r != run):
            return 1
    conditions = [taken_branches(p.op, point.generic) for p in turned.picks]
    alike = all(taken is not None and all(_is_of_pairs(c, point, point.runs[run][0]) for c, _ in taken) for taken in conditions)
    return 2 if alike else 1


def _is_of_pairs(condition: ir.Value, point: Pointwise, loop: int) -> bool:
    """Whether a condition is the same for both of a pair along a loop."""
    op = owner(condition)
    if op.name != "arith.cmpi" or ir.IntegerAttr(op.attributes["predicate"]).value not in _BELOW:
        return False
    number, bound = (linear(v, len(point.sizes)) for v in op.operands)
    if number is None or bound is None or any(bound[0]):
        return False
    others = [c for d, c in enumerate(number[0]) if d != loop]
    return number[0][loop] == 0 or (number[0][loop] == 1 and not any(c % 2 for c in others) and (bound[1] - number[1]) % 2 == 0)

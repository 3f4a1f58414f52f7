"""Gathers of a map in branches, such as of a concatenation's pieces, that are contiguous along another loop than the result.

Each such ``tensor.extract`` is read for a tile of points along the loop in which its tensor lies, only where its branch is taken, and gathered from shared
memory.  The tensor's other places may be what a table says, as of rows that are gathered.
"""

from dataclasses import dataclass
from math import prod

from inferno.element_sizes import bit_width
from inferno.mlir import arith, dim_of, ir, owner, walk
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.affine_extracts import linear_place
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.pointwise import Pointwise

_LEAST = 16  # points along both loops that a tile is worth it for
_MOST = 4  # tiles of a block
_SHARE = 0.25  # of all points, of which less may be read uncoalesced
_BELOW = (arith.CmpIPredicate.ult, arith.CmpIPredicate.slt, arith.CmpIPredicate.uge, arith.CmpIPredicate.sge)


@dataclass(frozen=True)
class Gather:
    """``op`` reads ``access``, whose strides are those of loops; where its branches are not taken that may be outside of the tensor.  ``moved``: by so
    many elements besides for each place that follows from what is read at a point, of the loops ``read``."""

    op: ir.Operation
    access: Access
    moved: tuple[int, ...] = ()
    read: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TransposedGathers:
    """Gathers and operands, the latter by their numbers, that lie side by side along the run ``across``."""

    across: int
    numbers: tuple[int, ...]
    gathers: tuple[Gather, ...]


@kept_with
def transposed_gathers(point: Pointwise) -> TransposedGathers | None:
    """What tiles are for in a kernel whose gathers are all at sums and differences of loops, or at what follows from operands; None where there are none, or
    too many, or along several loops."""
    sizes, last, extracts = point.run_sizes, len(point.runs) - 1, [op.operation for op in walk(point.generic, "tensor.extract")]
    if last < 1 or not extracts or not all(isinstance(n, int) for n in point.sizes) or sizes[last] < _LEAST:
        return None
    if point.run_strides(point.destinations[0])[last] != 1:
        return None
    arguments = dict(point.tables)
    every = [_gather(point, op, arguments[op.operands[0]]) for op in extracts]
    if None in every:
        return None
    beside = [_beside(point, p) for p in every]
    found = [p for p, runs in zip(every, beside) if runs]
    along = set().union(*beside)
    if len(along) != 1 or sum(_share(p.op, point) for p in found) < _SHARE:
        return None
    across = min(along)
    numbers = tuple(
        n for n, s in enumerate(point.sources) if s is not None and point.run_strides(s)[across] == 1 and point.run_strides(s)[last] > 1
    )
    return TransposedGathers(across, numbers, tuple(found)) if sizes[across] >= _LEAST and len(numbers) + len(found) <= _MOST else None


def _share(op: ir.Operation, point: Pointwise) -> float:
    """Of how many points an extract's branch is taken, as far as that is known."""
    share = 1.0
    for condition, holds in taken_branches(op, point.generic) or ():
        below = owner(condition)
        if below.name != "arith.cmpi" or ir.IntegerAttr(below.attributes["predicate"]).value != arith.CmpIPredicate.ult:
            continue
        number, bound = (linear_place(v, len(point.sizes)) for v in below.operands)
        if number is not None and bound is not None and sorted(number[0]) == [0] * (len(number[0]) - 1) + [1] and not any(bound[0]):
            part = min(1.0, max(0.0, (bound[1] - number[1]) / point.sizes[number[0].index(1)]))
            share *= part if holds else 1 - part
    return share


def _beside(point: Pointwise, gather: Gather) -> set[int]:
    """Runs in front of the last one along which a gather's elements lie side by side, if they do not along the last."""
    strides, last = point.run_strides(gather.access), len(point.runs) - 1
    if abs(strides[last]) <= 1 and not gather.read & set(point.runs[last]):
        return set()
    return {r for r in range(last) if abs(strides[r]) == 1 and not gather.read & set(point.runs[r])}


def _gather(point: Pointwise, op: ir.Operation, argument: int) -> Gather | None:
    """Where an extract reads; None where that is neither a sum of loops nor told by operands, or runs are walked with several strides."""
    table, loops = op.operands[0].type, len(point.sizes)
    if not table.has_static_shape:
        return None
    steps, read = row_major(table.shape), set()
    strides, offset, moved = [0] * loops, 0, []
    for step, value in zip(steps, list(op.operands)[1:]):
        place = linear_place(value, loops)
        if place is not None:
            strides, offset = [n + step * c for n, c in zip(strides, place[0])], offset + step * place[1]
            continue
        of = _loops_of(value, point)
        in_branch = op.parent != point.generic
        if of is None or (in_branch and (taken_branches(op, point.generic) is None or not _is_read(value))):
            return None  # (pieces whose places take computing, as resized ones, are kernels of their own: ``split_pieces.py``)
        read |= of
        moved.append(step)
    for run in point.runs:
        if any(strides[d] != strides[run[-1]] * prod(point.sizes[e] for e in run[i + 1:]) for i, d in enumerate(run)):
            return None
    return Gather(op, Access(argument, table.element_type, tuple(strides), offset, tuple(table.shape)), tuple(moved), frozenset(read))


def _loops_of(value: ir.Value, point: Pointwise) -> set[int] | None:
    """The loops that a value follows by what is read, of operands and at every point of tables, and computed of that; None where it follows from something
    else."""
    sources, tables, found, left, seen = dict(zip(point.block.arguments, point.sources)), dict(point.tables), set(), [value], set()
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.BlockArgument):
            if sources.get(value) is None:
                return None
            found |= {d for d, stride in enumerate(sources[value].strides) if stride}
            continue
        op = owner(value)
        if op.name == "linalg.index":
            found.add(dim_of(op))
        elif op.name.startswith(("arith.", "math.")) and not len(op.regions):
            left += op.operands
        elif op.name == "tensor.extract" and op.parent == point.generic and op.operands[0] in tables:
            left += list(op.operands)[1:]
        else:
            return None
    return found


def _is_read(value: ir.Value) -> bool:
    """Whether a value is made of what is read, and not of loops' numbers alone."""
    op = owner(value)
    return op is None or op.name == "tensor.extract" or any(map(_is_read, op.operands))


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


def brought_together(point: Pointwise, transposed: TransposedGathers) -> int:
    """Neighbours that can be brought to a tile at once: 2 of 16 bits that lie in one word, in one branch, and 1 otherwise."""
    run, every = transposed.across, [*(point.sources[n] for n in transposed.numbers), *(p.access for p in transposed.gathers)]
    if len(point.runs[run]) > 1 or point.sizes[point.runs[run][0]] % 2 or any(bit_width(a.element) != 16 for a in every):
        return 1
    if any(step % 2 for p in transposed.gathers for step in p.moved):
        return 1
    for a in every:
        strides = point.run_strides(a)
        if strides[run] != 1 or a.offset % 2 or any(s % 2 for r, s in enumerate(strides) if r != run):
            return 1
    conditions = [taken_branches(p.op, point.generic) for p in transposed.gathers]
    alike = all(taken is not None and all(_is_of_pairs(c, point, point.runs[run][0]) for c, _ in taken) for taken in conditions)
    return 2 if alike else 1


def _is_of_pairs(condition: ir.Value, point: Pointwise, loop: int) -> bool:
    """Whether a condition is the same for both of a pair along a loop."""
    op = owner(condition)
    if op.name != "arith.cmpi" or ir.IntegerAttr(op.attributes["predicate"]).value not in _BELOW:
        return False
    number, bound = (linear_place(v, len(point.sizes)) for v in op.operands)
    if number is None or bound is None or any(bound[0]):
        return False
    others = [c for d, c in enumerate(number[0]) if d != loop]
    return number[0][loop] == 0 or (number[0][loop] == 1 and not any(c % 2 for c in others) and (bound[1] - number[1]) % 2 == 0)

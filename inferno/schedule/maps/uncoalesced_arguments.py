"""Which arguments of a kernel are read uncoalesced: points that are neighbours in the result read one element of a sector each, because the argument
is contiguous along another loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from inferno.mlir import dim_of, func, ir, owner, walk
from inferno.passes.generics import dims, inputs, maps
from inferno.passes.shapes import row_major

SIDE = 16  # elements along both orders that a transpose is worth it for
# Elements a µs that are read of a sector each: on an H100 four maps of 4x256, 16x16 to 128x128, resized to 4x128x128x1024 in bf16, four elements a point, took
# 1031 µs; on an H200 8 M points of one each (``split_pieces``) 66.
_RATE = 250e3


@dataclass(frozen=True)
class Uncoalesced:
    """An argument of a kernel that is to have its dimensions in this order, and the loop along which its elements lie side by side now; ``reads``: so many
    elements of it are read.  ``tables``: arguments that say where, along the innermost of either order: they must be computed of nothing but their own
    numbers, as those of a resized image, for places that anyone may give may be anywhere.  ``short``: it is not worth to be transposed in front of the kernel:
    rows of it in that order, or of the result, are too short, or no rows of the result then."""

    argument: int
    order: tuple[int, ...]
    along: int
    reads: float
    tables: frozenset[int] = frozenset()
    short: bool = False


def uncoalesced_arguments(kernel: func.FuncOp, generic: ir.Operation) -> list[Uncoalesced]:
    """The arguments whose neighbours are not read for neighbours of the result, and had better be."""
    loops = dims(maps(generic)[-1])
    sizes = dict(zip(loops, generic.results[0].type.shape))
    if not loops:
        return []
    points, last, found = prod(sizes.values()), loops[-1], []

    def lies_apart(along: int) -> bool:
        """Whether the result has many neighbours for each place along a loop, in rows that may be short themselves, as of a small image."""
        return prod(sizes[d] for d in loops[loops.index(along) + 1:]) >= SIDE

    places: dict[int, list[list[ir.Value]]] = {}
    for op in walk(generic, "tensor.extract"):
        places.setdefault(_argument(op.operands[0]), []).append(list(op.operands)[1:])
    for number, read in places.items():
        shape = kernel.entry_block.arguments[number].type.shape if number is not None else []
        seen = {_dimensions(place, last, shape) for place in read}
        along = {_only_loop(place[-1]) for place in read} if shape else set()
        if len(seen) == 1 and None not in seen and len(along) == 1 and None not in along and lies_apart(*along):
            (walked,) = seen
            (d, *more), rest = walked, [i for i in range(len(shape)) if i not in walked]
            tables = frozenset(n for place in read for at in (*(place[i] for i in walked), place[-1]) for n in _tables(at, generic))
            share = 1.0 if more or any(_tables(place[d], generic) for place in read) else min(1.0, shape[d] / sizes[last])  # of a piece beside others
            short = bool(more) or min(shape[d], sizes[last]) < SIDE
            found.append(Uncoalesced(number, (*rest, *walked), along.pop(), share * points * len(read), tables, short))
    for value, map_ in zip(inputs(generic), maps(generic)):
        order, number = dims(map_), _argument(value)
        if number is None or number in places or order is None or last not in order or list(inputs(generic)).count(value) > 1:
            continue
        d = order.index(last)
        if d < len(order) - 1 and value.type.shape[-1] >= SIDE and row_major(value.type.shape)[d] >= SIDE and lies_apart(order[-1]):
            found.append(Uncoalesced(number, (*(i for i in range(len(order)) if i != d), d), order[-1], points, short=sizes[last] < SIDE))
    return found


def _argument(value: ir.Value) -> int | None:
    """The number of a kernel's argument."""
    return ir.BlockArgument(value).arg_number if owner(value) is None else None


def _dimensions(place: Sequence[ir.Value], last: int, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions that are walked along the last loop alone, where others lie inside of them: one, or several, as of channels in another order, which are
    computed of the loop.  None where there are none, or others depend on the loop."""
    depends = tuple(d for d, v in enumerate(place) if last in _loops(v))
    if not depends or depends[-1] == len(place) - 1 or shape[-1] < SIDE:
        return None
    return depends if all(_loops(place[d]) == {last} for d in depends) else None


def _tables(place: ir.Value, generic: ir.Operation) -> set[int]:
    """The arguments of the kernel that hold what a place is computed of."""
    found, pending, seen = set(), [place], set()
    while pending:
        value = pending.pop()
        op = owner(value)
        if value in seen:
            continue
        seen.add(value)
        if op is not None:
            pending += list(op.operands)
        elif isinstance(value.type, ir.RankedTensorType):
            found.add(ir.BlockArgument(value).arg_number)
        elif (number := ir.BlockArgument(value).arg_number) < len(inputs(generic)):
            pending.append(inputs(generic)[number])
    return found


def _only_loop(value: ir.Value) -> int | None:
    found = _loops(value)
    return found.pop() if len(found) == 1 else None


def _loops(value: ir.Value) -> set[int]:
    """The loops that a place is computed of; tables of places are read along theirs."""
    found, pending, seen = set(), [value], set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = owner(value)
        if op is None:
            argument = ir.BlockArgument(value)
            holder = argument.owner.owner
            if holder.name == "linalg.generic":
                found |= {ir.AffineDimExpr(e).position for e in maps(holder.operation)[argument.arg_number].results if isinstance(e, ir.AffineDimExpr)}
        elif op.name == "linalg.index":
            found.add(dim_of(op))
        else:
            pending += list(op.operands)
    return found


def reads_in_order(kernel: func.FuncOp, generic: ir.Operation, last: int, uncoalesced: set[int], points: int) -> bool:
    """Whether anything large is read for neighbours of the result where it lies side by side."""
    tables = {_argument(op.operands[0]): list(op.operands)[-1] for op in walk(generic, "tensor.extract")}
    along = {n for n, v in tables.items() if n is not None and last in _loops(v)}
    for value, map_ in zip(inputs(generic), maps(generic)):
        if isinstance(value.type, ir.RankedTensorType) and value.type.rank and map_.results[-1] == ir.AffineDimExpr.get(last):
            along.add(_argument(value))
    large = {n for n, a in enumerate(kernel.entry_block.arguments) if prod(a.type.shape) * SIDE > points}
    return bool(None in along or (along & large) - uncoalesced)


def uncoalesced_time(kernel: func.FuncOp, generic: ir.Operation) -> float:
    """Microseconds that reading them takes, as they lie."""
    return read_time(uncoalesced_arguments(kernel, generic))


def read_time(uncoalesced: Sequence[Uncoalesced]) -> float:
    """Microseconds that reading these takes where they are not in the order."""
    return sum(s.reads for s in uncoalesced) / _RATE

"""Reduce large windows that overlap along one dimension after the other: ``avg_pool2d(x, 7, 1)``, the maxima of spatial pyramids, SSIM's local moments.

What a column of a window comes to is in all windows of its row, and is computed once for these: 14 terms a point instead of 49.  What is between the two is
as large as an image, and float32 for sums.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import clone_onto, ir, is_read, linalg, owner, tensor, walk
from inferno.passes.affine import factors_in, projection, renumber
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.fold_reductions import combiner_of
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, clone_body, dims, inputs, is_generic, kinds, loop_sizes, loops_of, maps, outputs, substitute, yielded,
)

_MOST = 32  # terms that ``expand-windows`` takes, of a window and of a side
_GAIN = 2  # times fewer terms, from which on what is written and read between is worth it


@dataclass(frozen=True)
class _Side:
    """A side of windows: loop ``along`` goes ``gap`` elements at a time, and the windows' own loop ``place`` ``step``."""

    along: int
    place: int
    step: int
    gap: int


def split_windows(module: ir.Module) -> None:
    """Rewrite such reductions of known sizes.  Only modules that ask for it (``inferno.expand_pieces``) are changed."""
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "linalg.generic"):
        while (side := _first(op)) is not None:
            op = _split(op, *side)


def _first(op: ir.Operation) -> tuple[_Side, list[_Side]] | None:
    """The side to reduce first, and the others; None where an operation is no such reduction, or that is not worth it."""
    reduced = [d for d, k in enumerate(kinds(op)) if k == REDUCTION] if is_generic(op) else []
    if len(reduced) < 2 or not _combines(op) or not all(isinstance(n, int) for n in loop_sizes(op)):
        return None
    sides = [_side(op, d) for d in reduced]
    sizes = loop_sizes(op)
    counts = [sizes[d] for d in reduced]
    if None in sides or len({s.place for s in sides}) != len(sides) or prod(counts) <= _MOST or max(counts) > _MOST:
        return None
    first = max(sides, key=lambda s: s.step)
    others = [s for s in sides if s != first]
    between = sizes[first.along] * prod(s.step for s in others) + prod(sizes[s.along] for s in others)
    return (first, others) if _GAIN * between <= prod(counts) else None


def _combines(op: ir.Operation) -> bool:
    """Whether terms of elements as they come are combined in any order, beginning with a number."""
    start, known = owner(outputs(op)[0]), len(op.results) == 1 and combiner_of(op) != ""
    plain = known and start is not None and start.name == "linalg.fill" and maps(op)[-1].is_projected_permutation
    return plain and not walk(op, "linalg.index", "tensor.extract", "scf.if")


def _side(op: ir.Operation, along: int) -> _Side | None:
    """How a loop walks all that is read along it; None where that is not one side of a window: a convolution's weight is walked by it alone."""
    found: set[_Side] = set()
    for argument, map_ in zip(body(op).arguments, maps(op)[:len(inputs(op))]):
        if not is_read(argument):
            continue
        every = [factors_in(e, map_.n_dims) for e in map_.results]
        walked = [factors for factors in every if factors is None or along in factors]
        if None in walked or len(walked) != 1 or len(walked[0]) != 2:
            return None
        (factors,) = walked
        (place,) = set(factors) - {along}
        if kinds(op)[place] != PARALLEL or sum(place in f for f in every) != 1:
            return None
        found.add(_Side(along, place, factors[place], factors[along]))
    return found.pop() if len(found) == 1 else None


def _split(op: ir.Operation, first: _Side, others: list[_Side]) -> ir.Operation:
    """Reduce the first side, for each place of the image along the others, and then these: the operation that does."""
    with ir.InsertionPoint(op), op.location:
        made = _of_places(op, _of_image(op, first, others), first.along, others)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made


def _of_image(op: ir.Operation, first: _Side, others: list[_Side]) -> ir.Value:
    """The windows along the first side, at each place of the image along the others."""
    sizes, kept = loop_sizes(op), [i for i in range(len(inputs(op))) if is_read(body(op).arguments[i])]
    ends = {s.place: (sizes[s.place] - 1) * s.step + (sizes[s.along] - 1) * s.gap + 1 for s in others}
    loops = [*(d for d, k in enumerate(kinds(op)) if k == PARALLEL), first.along]
    order = dims(maps(op)[-1])

    def read(map_: ir.AffineMap) -> ir.AffineMap:
        places = [loops_of(e) & ends.keys() for e in map_.results]
        found = [ir.AffineExpr.get_dim(min(place)) if place else e for e, place in zip(map_.results, places)]
        return substitute(ir.AffineMap.get(len(sizes), 0, found), renumber(loops, len(sizes)), len(loops))

    def term(arguments: list[ir.Value]) -> list[ir.Value]:
        known = dict(zip(kept, arguments))
        return clone_body(body(op), [*(known.get(i) for i in range(len(inputs(op)))), arguments[-1]])

    element = op.results[0].type.element_type
    empty = tensor.empty([ends.get(d, sizes[d]) for d in order], element)
    return build(
        [*(inputs(op)[i] for i in kept), tensor.empty([sizes[first.along]], element)], [linalg.fill(owner(outputs(op)[0]).operands[0], outs=[empty])],
        [*(read(maps(op)[i]) for i in kept), projection([len(loops) - 1], len(loops)), projection([loops.index(d) for d in order], len(loops))],
        [PARALLEL] * (len(loops) - 1) + [REDUCTION], term, op.location,
    ).results[0]


def _of_places(op: ir.Operation, image: ir.Value, reduced: int, sides: list[_Side]) -> ir.Operation:
    """The operation without the loop that is ``reduced`` already, of windows of an ``image`` along these sides."""
    sizes, side_of = loop_sizes(op), {s.place: s for s in sides}
    loops = [d for d in range(len(sizes)) if d != reduced]
    last, total = owner(yielded(op)[0]), list(body(op).arguments)[-1]
    named = renumber(loops, len(sizes))

    def walked(d: int) -> ir.AffineExpr:
        side = side_of.get(d)
        return named[d] if side is None else named[d] * side.step + named[side.along] * side.gap

    def combine(arguments: list[ir.Value]) -> list[ir.Value]:
        value, running = arguments[0], arguments[-1]
        return [clone_onto(last, {v: running if v == total else value for v in last.operands}).results[0]]

    order, along = dims(maps(op)[-1]), [s.along for s in sides]
    return build(
        [image, tensor.empty([sizes[d] for d in along], op.results[0].type.element_type)], outputs(op),
        [ir.AffineMap.get(len(loops), 0, found) for found in ([walked(d) for d in order], [named[d] for d in along], [named[d] for d in order])],
        [kinds(op)[d] for d in loops], combine, op.location,
    )

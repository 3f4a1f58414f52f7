"""Reduce large windows that overlap along one dimension after the other: ``avg_pool2d(x, 7, 1)``, the maxima of spatial pyramids, SSIM's local moments.

What a column of a window comes to is in all windows of its row, and is computed once for these: 14 terms a point instead of 49.  What is between the two is
as large as an image, and float32 for sums.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import clone_onto, ir, is_read, linalg, owner, tensor, walk
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.fold_reductions import combiner_of
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, inputs, is_generic, kinds, loop_sizes, maps, outputs, yielded

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
        every = [_linear(e) for e in map_.results]
        walked = [terms for terms in every if terms is None or along in terms]
        if None in walked or len(walked) != 1 or len(walked[0]) != 2:
            return None
        (terms,) = walked
        (place,) = set(terms) - {along}
        if kinds(op)[place] != PARALLEL or sum(place in terms for terms in every) != 1:
            return None
        found.add(_Side(along, place, terms[place], terms[along]))
    return found.pop() if len(found) == 1 and min(next(iter(found)).step, next(iter(found)).gap) > 0 else None


def _linear(expression: ir.AffineExpr) -> dict[int, int] | None:
    """The factors of the loops that an index is the sum of; None where it is anything else."""
    if isinstance(expression, ir.AffineConstantExpr):
        return {} if ir.AffineConstantExpr(expression).value == 0 else None
    if isinstance(expression, ir.AffineDimExpr):
        return {ir.AffineDimExpr(expression).position: 1}
    if isinstance(expression, ir.AffineAddExpr):
        a, b = (_linear(e) for e in (ir.AffineAddExpr(expression).lhs, ir.AffineAddExpr(expression).rhs))
        return {**a, **b} if a is not None and b is not None and not a.keys() & b.keys() else None
    if isinstance(expression, ir.AffineMulExpr):
        loop, factor = ir.AffineMulExpr(expression).lhs, ir.AffineMulExpr(expression).rhs
        if isinstance(loop, ir.AffineDimExpr) and isinstance(factor, ir.AffineConstantExpr):
            return {ir.AffineDimExpr(loop).position: ir.AffineConstantExpr(factor).value}
    return None


def _split(op: ir.Operation, first: _Side, others: list[_Side]) -> ir.Operation:
    """Reduce the first side, for each place of the image along the others, and then these: the operation that does."""
    sizes, count, kept = loop_sizes(op), len(inputs(op)), [i for i, a in enumerate(body(op).arguments) if is_read(a)][:-1]
    whole = {s.place: (sizes[s.place] - 1) * s.step + (sizes[s.along] - 1) * s.gap + 1 for s in others}
    loops = [d for d, k in enumerate(kinds(op)) if k == PARALLEL]
    number = {d: i for i, d in enumerate(loops)} | {first.along: len(loops)}
    places, order = {s.place for s in others}, [ir.AffineDimExpr(e).position for e in maps(op)[-1].results]
    last, total = owner(yielded(op)[0]), list(body(op).arguments)[-1]

    def of_image(map_: ir.AffineMap) -> ir.AffineMap:
        return ir.AffineMap.get(len(loops) + 1, 0, [_sum({number[d]: n for d, n in _of_image(e, places).items()}) for e in map_.results])

    def combine(arguments: list[ir.Value]) -> list[ir.Value]:
        value, running = arguments[0], arguments[-1]
        known = {v: running if v == total else value for v in last.operands}
        return [clone_onto(last, known).results[0]]

    def term(arguments: list[ir.Value]) -> list[ir.Value]:
        given = [None] * count
        for i, value in zip(kept, arguments):
            given[i] = value
        return clone_body(body(op), [*given, arguments[-1]])

    with ir.InsertionPoint(op), op.location:
        element, start = op.results[0].type.element_type, owner(outputs(op)[0]).operands[0]
        empty = tensor.empty([whole.get(d, sizes[d]) for d in order], element)
        between = build(
            [*(inputs(op)[i] for i in kept), tensor.empty([sizes[first.along]], element)], [linalg.fill(start, outs=[empty])],
            [*(of_image(maps(op)[i]) for i in kept), _map(len(loops) + 1, [len(loops)]), _map(len(loops) + 1, [number[d] for d in order])],
            [PARALLEL] * len(loops) + [REDUCTION], term, op.location,
        ).results[0]
        rest = {d: i for i, d in enumerate(d for d in range(len(sizes)) if d != first.along)}
        of = {s.place: s for s in others}
        walked = [_sum({rest[d]: of[d].step, rest[of[d].along]: of[d].gap} if d in of else {rest[d]: 1}) for d in order]
        along = [s.along for s in others]
        made = build(
            [between, tensor.empty([sizes[d] for d in along], element)], outputs(op),
            [ir.AffineMap.get(len(rest), 0, walked), _map(len(rest), [rest[d] for d in along]), _map(len(rest), [rest[d] for d in order])],
            [k for d, k in enumerate(kinds(op)) if d != first.along], combine, op.location,
        )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made


def _of_image(expression: ir.AffineExpr, places: set[int]) -> dict[int, int]:
    """The loops of an index where windows along other sides, at these ``places``, are the image itself."""
    terms = _linear(expression) or {}
    inside = places & terms.keys()
    return {inside.pop(): 1} if inside else terms


def _sum(terms: dict[int, int]) -> ir.AffineExpr:
    found = None
    for loop, factor in terms.items():
        part = ir.AffineExpr.get_dim(loop) * factor if factor != 1 else ir.AffineExpr.get_dim(loop)
        found = part if found is None else found + part
    return ir.AffineExpr.get_constant(0) if found is None else found


def _map(count: int, loops: list[int]) -> ir.AffineMap:
    return ir.AffineMap.get(count, 0, [ir.AffineExpr.get_dim(d) for d in loops])

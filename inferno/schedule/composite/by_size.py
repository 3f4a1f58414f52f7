"""The schedule of a contraction whose sizes vary: several kernels, of which each call launches the one that fits its sizes.

A tile that is good for 4096 rows leaves most of a GPU idle for 64, and float32 products with vectors have to be added as exactly as
eager adds them, which CUDA cores do.  Every kernel here is right for every size that it may get; the choice is one of speed, but
for the products with vectors.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isqrt
from typing import Any

from inferno.dialect.sizes import SYMBOL, read_symbol, symbol_attributes
from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, isolated_copy
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.composite import siblings
from inferno.schedule.composite.size_ranges import EDGES, BySize, Point, Span, Table, along, at_point, cover, in_range, spans_of
from inferno.schedule.convolution import im2col
from inferno.schedule.matmul import bf16x6, dual, mma, simt, vectors, wgmma, wgmma_schedule
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.size_forms import as_python
from inferno.symbolic import LARGEST, UNBOUNDED, Int, Size, Symbol, bounds, evaluate, hint, is_unbounded, maximum, minimum, product, size_of, symbols_of
from inferno.target import Target

_SCALES = tuple(4.0**i for i in range(-4, 6))
"""The sizes that schedules are compared at: the example's, times these."""
_MORE, _OF_SEVERAL = 8, 5
"""The most schedules for rows whose number alone varies, and there for several contractions, each of which is compiled."""


def choose(kernel: func.FuncOp, target: Target) -> Any | None:
    """Schedules for ranges of sizes, or one for all, if ``kernel`` is a contraction of loops that vary, or two that meet."""
    images = im2col.parse_unfolded(kernel, target)
    if images is not None and images.lhs.has_windows and images.varies and _within_words(images):
        return _by_rows(images.M, lambda point, most: _least(im2col.at_size(kernel, images, target, at_point(point), most)))
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None and target.hopper and (pair := dual.parse_pair(kernel)) is not None and not isinstance(pair.contraction.M, int):
        return _by_rows(pair.contraction.M, lambda point, most: _least(dual.candidates(kernel, pair, target, at_point(point), most)))
    if c is None:
        parts = siblings.parse_parts(kernel, target)
        return None if parts is None or not parts.joined.varies else _together(parts, target)
    if not c.varies:
        return None
    if _within_words(c) or any(hint(count) > LARGEST for count in _counts(c)):
        return _choose(kernel, c, target)
    # Tensor cores take offsets of 32 bits only; sizes that these do not reach are rare, and left to CUDA cores.
    module = _changed(kernel, without_bounds)
    narrow = module.body.operations[0]
    few = parse_contraction(narrow)
    small, large = _choose(narrow, few, target), _choose(kernel, c, target)
    if small is None or not any(_uses(small, kind) for kind in (wgmma_schedule.Wgmma, bf16x6.Bf16x6, mma.Mma)):
        return large
    while isinstance(large, BySize):
        large = large.large
    counts = list(dict.fromkeys(count for count in (*_counts(few), *_copied(few)) if not isinstance(count, int)))
    counts = [a for a in counts if not any(a != b and bounds(b - a)[0] >= 0 for b in counts)]
    return BySize(as_python(functools.reduce(maximum, counts)), LARGEST, small, large, narrow=True)


def _together(parts: siblings.Parts, target: Target) -> Any | None:
    """Schedules for ranges of rows of independent contractions; None where one launch is not faster than one for each, by the estimates for all
    ranges together, and for the example."""
    side = parts.joined.M
    times: dict[tuple[tuple, Any], siblings.Siblings] = {}

    def table(point: Point, most: int) -> Table:
        where = siblings.At(at_point(point), at_point(along(side, min(most, 2 * EDGES[-1]))), most)
        found: Table = {}
        for time, s in siblings.at_size(parts, target, where):
            alike = replace(s, together=0, apart=0)
            if time < found.get(alike, inf):
                found[alike], times[tuple(point.items()), alike] = time, s
        return found

    chosen = _by_rows(side, table, _OF_SEVERAL)
    if chosen is None:
        return None
    reached = {}
    for point, s in times:
        if s == _member(chosen, evaluate(side, dict(point).__getitem__)):
            reached[point] = times[point, s]
    example = [s for point, s in reached.items() if all(v == symbol.hint for symbol, v in point)]
    gained = sum(s.together / s.apart for s in reached.values()) / len(reached)
    best = example[0] if example else next(iter(reached.values()))
    return _say(chosen, best) if best.pays and gained < 1 else None


def _member(schedule: Any, size: int) -> Any:
    """The one for a size."""
    while isinstance(schedule, BySize):
        schedule = schedule.small if size <= schedule.limit else schedule.large
    return schedule


def _say(schedule: Any, example: siblings.Siblings) -> Any:
    """The schedules with the example's estimates."""
    if isinstance(schedule, BySize):
        return replace(schedule, small=_say(schedule.small, example), large=_say(schedule.large, example))
    return replace(schedule, together=example.together, apart=example.apart)


def _changed(kernel: func.FuncOp, change: Callable[[ir.Operation], None]) -> ir.Module:
    """A module with a copy of a kernel, whose sizes have other bounds."""
    with kernel.context, ir.Location.unknown():
        module = isolated_copy(kernel)
        change(module.body.operations[0].operation)
        return module


def without_bounds(function: ir.Operation) -> None:
    """Let a kernel function's sizes have no upper bound: whoever launches it sees to it that they are not too large."""
    _change(function, lambda symbol: replace(symbol, high=UNBOUNDED))


def bound(function: ir.Operation, size: Int, least: int = 0, most: int = UNBOUNDED) -> None:
    """Let a kernel function say that ``size`` lies between these, where a symbol's range can: whoever launches it sees to it."""
    if not isinstance(size, Size) or len(size.terms) != 1:
        return
    (atoms, factor), = size.terms
    if len(atoms) != 1 or not isinstance(atoms[0], Symbol):
        return

    def within(symbol: Symbol) -> Symbol:
        low = max(symbol.low, min(symbol.high, -(-least // factor)))
        high = symbol.high if most == UNBOUNDED else max(low, min(symbol.high, most // factor))  # a share of no bound would be one
        return replace(symbol, low=low, high=high) if symbol.name == atoms[0].name else symbol

    _change(function, within)


def _change(function: ir.Operation, change: Callable[[Symbol], Symbol]) -> None:
    entries = [{e.name: e.attr for e in ir.DictAttr(a)} for a in function.attributes["arg_attrs"]]
    for entry in entries:
        if SYMBOL in entry:
            entry.update(symbol_attributes(change(read_symbol(entry))))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def _within_words(c: Contraction) -> bool:
    """Whether offsets of 32 bits reach everything, or nothing is said of how far they would have to."""
    return all(bounds(count)[1] < 2**31 or is_unbounded(count) for count in _counts(c))


def _counts(c: Contraction) -> list[Int]:
    """The elements of each tensor."""
    return [product(a.shape) for a in (*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations))]


def _copied(c: Contraction) -> list[Int]:
    """The elements of each temporary that a schedule may have."""
    width, either = element_bytes(c.lhs.element), (True, False)
    tilings = [tile_contraction(c, width, only_along_k, rewrite) for only_along_k in either for rewrite in either]
    return [product(s.shape) for t in tilings if t is not None for s in (t.lhs, t.rhs) if s.copied]


def _choose(kernel: func.FuncOp, c: Contraction, target: Target) -> Any | None:
    """The same, where offsets are as wide as the symbols' ranges ask."""
    varying = [name for name in ("B", "M", "N", "K") if not isinstance(getattr(c, name), int)]
    if varying in (["M"], ["N"]):
        side = getattr(c, varying[0])
        return _by_rows(side, lambda point, most: _table(kernel, c, target, point, most))
    symbols = list(dict.fromkeys(s for size in c.sizes for s in symbols_of(size)))
    size = size_of(symbols[0]) if len(symbols) == 1 else c.B * c.M * c.N * c.K

    points = _points(c, symbols)
    starts = {tuple(p.items()): 0 if before is None else _between(size, before, p) + 1 for before, p in zip([None, *points], points)}

    @functools.cache
    def beyond(least: int) -> tuple[ir.Module, Contraction]:
        """The kernel where it is known that there are so many: of long sums several blocks may each have a part."""
        module = _changed(kernel, lambda function: bound(function, size, least))
        return module, parse_contraction(module.body.operations[0])

    def table(point: Point, most: int) -> Table:
        least = starts[tuple(point.items())]
        if varying != ["K"] or not least:
            return _table(kernel, c, target, point)
        (module, bounded), sizes = beyond(least), {s.name: size for s, size in point.items()}
        return _table(module.body.operations[0], bounded, target, {s: sizes[s.name] for s in symbols_of(bounded.K)})

    # Products with vectors: bf16x6 has no schedules there.
    few = [side for side in (c.M, c.N) if bounds(side)[0] <= simt.VECTOR]
    if few and any(isinstance(s, bf16x6.Bf16x6) for p in points for s in table(p, 0)):
        least = few[0] if len(few) == 1 else minimum(*few)
        many = [p for p in points if evaluate(least, p.__getitem__) > simt.VECTOR]
        large = cover(size, _spans_between(size, many), table)
        if _uses(large, bf16x6.Bf16x6):
            if isinstance(large, BySize) and large.size == as_python(least) and isinstance(large.small, simt.Simt):
                return large
            return BySize(as_python(least), simt.VECTOR, _for_vectors(c, target, least), large)

        def exact(point: Point, most: int) -> Table:
            return {s: t for s, t in table(point, most).items() if not isinstance(s, bf16x6.Bf16x6)}

        return cover(size, _spans_between(size, points), exact)
    return cover(size, _spans_between(size, points), table)


def _by_rows(side: Int, table: Callable[[Point, int], Table], kernels: int = _MORE) -> Any | None:
    """Schedules for ranges of the number of rows, or columns, which alone varies."""
    return cover(side, spans_of(side, lambda size: along(side, size)), table, kernels)


def _spans_between(size: Int, points: Sequence[Point]) -> list[Span]:
    """A span for each point, which end between two."""
    return [Span(LARGEST if after is None else _between(size, p, after), (p,)) for p, after in zip(points, [*points[1:], None])]


def _between(size: Int, a: Point, b: Point) -> int:
    return isqrt(evaluate(size, a.__getitem__) * evaluate(size, b.__getitem__))


def _points(c: Contraction, symbols: Sequence[Symbol]) -> list[Point]:
    """Sizes from small to large, none of them twice; the example's are among them."""
    found: list[Point] = []
    for scale in (0, *_SCALES):
        point = {s: in_range(s, round(s.hint * scale)) for s in symbols}
        whole = evaluate(product((c.B, c.M, c.N)), point.__getitem__) <= LARGEST
        if point not in found and (whole or scale <= 1):
            found.append(point)
    return found


def _table(kernel: func.FuncOp, c: Contraction, target: Target, point: Point, most: int | None = None) -> Table:
    """The schedules of the generators of choice at a size; for float32 those of both, which are as exact as each other.  ``most``: where
    one side's size alone varies, the largest that it has to be right and fast for."""
    at = at_point(point)
    rows = most if isinstance(c.N, int) else None
    found: list = wgmma.candidates(kernel, c, target, at, rows)
    if not found and mma.takes(target):
        found = mma.candidates(kernel, c, target, at)
    few = [] if most is None else vectors.candidates(c, target, at, most=most)
    if not found:  # where vectors can be read as such, tiles on CUDA cores take twice as long as is estimated (8x4096x4096: 40 us, and 24)
        found = [*(() if few else simt.candidates(c, target, at)), *bf16x6.candidates(kernel, c, target, at, rows)]
    return _least([*found, *few])


def _least(found: Sequence[tuple[float, Any]]) -> Table:
    table: Table = {}
    for time, schedule in found:
        table[schedule] = min(time, table.get(schedule, inf))
    return table


def _for_vectors(c: Contraction, target: Target, least: Int) -> Any:
    """The best schedule on CUDA cores for few rows or columns, ``least``."""
    symbols = dict.fromkeys(s for size in c.sizes for s in symbols_of(size))
    point = {s: in_range(s, min(s.hint, simt.VECTOR) if s in symbols_of(least) else s.hint) for s in symbols}
    found = [*simt.candidates(c, target, at_point(point)), *vectors.candidates(c, target, at_point(point), swapped=least == c.N)]
    return fastest(found)[1]


def _uses(schedule: Any, kind: type) -> bool:
    if isinstance(schedule, BySize):
        return _uses(schedule.small, kind) or _uses(schedule.large, kind)
    return isinstance(schedule, kind)

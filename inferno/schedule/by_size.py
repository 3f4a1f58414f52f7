"""The schedule of a contraction whose sizes vary: several kernels, of which each call launches the one that fits its sizes.

A tile that is good for 4096 rows leaves most of a GPU idle for 64, and float32 products with vectors have to be added as exactly as
eager adds them, which CUDA cores do.  Every kernel here is right for every size that it may get; the choice is one of speed, but
for the products with vectors.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isqrt
from typing import Any, ClassVar

from inferno.dialect.sizes import SYMBOL, read_symbol, symbol_attributes
from inferno.mlir import func, ir
from inferno.schedule import bf16x6, mma, simt, vectors, wgmma
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.cost import bit_width
from inferno.schedule.tiling import tile_contraction
from inferno.symbolic import (
    LARGEST, UNBOUNDED, Int, Symbol, as_python, bounds, evaluate, hint, is_unbounded, maximum, minimum, product, size_of, symbols_of,
)
from inferno.target import Target


@dataclass(frozen=True)
class BySize:
    """``small`` where ``size``, a Python expression of the kernel's symbols, is at most ``limit``, else ``large``; both are schedules
    of other generators, or of this one.  ``narrow``: where it is, offsets of 32 bits reach everything, whatever the symbols' ranges."""

    generator: ClassVar[str] = "by_size"

    size: str
    limit: int
    small: Any
    large: Any
    narrow: bool = False


_SCALES = tuple(4.0**i for i in range(-4, 6))
"""The sizes that schedules are compared at: the example's, times these."""
_SLOWER = (1.25, 1.5, 2, 3, inf)
"""How much slower than the best one a schedule may be at another size than the example's, the first that takes few kernels."""
_KERNELS = 3

Table = dict[Any, float]  # the microseconds of each schedule


def choose(kernel: func.FuncOp, target: Target) -> Any | None:
    """Schedules for ranges of sizes, or one for all, if ``kernel`` is a contraction of loops that vary."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None or not c.varies:
        return None
    counts = _counts(c)
    if all(bounds(count)[1] < 2**31 or is_unbounded(count) for count in counts) or any(hint(count) > LARGEST for count in counts):
        return _choose(kernel, c, target)
    # Tensor cores take offsets of 32 bits only; sizes that these do not reach are rare, and left to CUDA cores.
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        module.body.append(kernel.operation.clone(ip=False))
        narrow = module.body.operations[0]
        without_bounds(narrow.operation)
    few = parse_contraction(narrow)
    small, large = _choose(narrow, few, target), _choose(kernel, c, target)
    if small is None or not any(_uses(small, kind) for kind in (wgmma.Wgmma, bf16x6.Bf16x6, mma.Mma)):
        return large
    while isinstance(large, BySize):
        large = large.large
    counts = list(dict.fromkeys(count for count in (*_counts(few), *_copied(few)) if not isinstance(count, int)))
    counts = [a for a in counts if not any(a != b and bounds(b - a)[0] >= 0 for b in counts)]
    return BySize(as_python(functools.reduce(maximum, counts)), LARGEST, small, large, narrow=True)


def without_bounds(function: ir.Operation) -> None:
    """Let a kernel function's sizes have no upper bound: whoever launches it sees to it that they are not too large."""
    entries = [{e.name: e.attr for e in ir.DictAttr(a)} for a in function.attributes["arg_attrs"]]
    for entry in entries:
        if SYMBOL in entry:
            entry.update(symbol_attributes(replace(read_symbol(entry), high=UNBOUNDED)))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def _counts(c: Contraction) -> list[Int]:
    """The elements of each tensor."""
    return [product(a.shape) for a in (*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations))]


def _copied(c: Contraction) -> list[Int]:
    """The elements of each temporary that a schedule may have."""
    width, either = bit_width(c.lhs.element) // 8, (True, False)
    tilings = [tile_contraction(c, width, only_along_k, rewrite) for only_along_k in either for rewrite in either]
    return [product(s.shape) for t in tilings if t is not None for s in (t.lhs, t.rhs) if s.copied]


def _choose(kernel: func.FuncOp, c: Contraction, target: Target) -> Any | None:
    """The same, where offsets are as wide as the symbols' ranges ask."""
    symbols = list(dict.fromkeys(s for size in c.sizes for s in symbols_of(size)))
    points = _points(c, symbols)
    tables = [_table(kernel, c, target, p) for p in points]
    size = size_of(symbols[0]) if len(symbols) == 1 else c.B * c.M * c.N * c.K
    # Products with vectors: bf16x6 has no schedules there.
    few = [side for side in (c.M, c.N) if bounds(side)[0] <= simt.VECTOR]
    if few and any(isinstance(s, bf16x6.Bf16x6) for table in tables for s in table):
        least = few[0] if len(few) == 1 else minimum(*few)
        many = [i for i, p in enumerate(points) if evaluate(least, p.__getitem__) > simt.VECTOR]
        large = _cover(size, [points[i] for i in many], [tables[i] for i in many])
        if _uses(large, bf16x6.Bf16x6):
            if isinstance(large, BySize) and large.size == as_python(least) and isinstance(large.small, simt.Simt):
                return large
            return BySize(as_python(least), simt.VECTOR, _for_vectors(c, target, least), large)
        tables = [{s: t for s, t in table.items() if isinstance(s, simt.Simt)} for table in tables]
    return _cover(size, points, tables)


Point = dict[Symbol, int]


def _points(c: Contraction, symbols: Sequence[Symbol]) -> list[Point]:
    """Sizes from small to large, none of them twice; the example's are among them."""
    found: list[Point] = []
    for scale in (0, *_SCALES):
        point = {s: _within(s, round(s.hint * scale)) for s in symbols}
        whole = evaluate(product((c.B, c.M, c.N)), point.__getitem__) <= LARGEST
        if point not in found and (whole or scale <= 1):
            found.append(point)
    return found


def _within(symbol: Symbol, value: int) -> int:
    return max(symbol.low, 1, min(value, symbol.high))


def _table(kernel: func.FuncOp, c: Contraction, target: Target, point: Point) -> Table:
    """The schedules of the generator of choice at a size; for float32 those of both, which are as exact as each other."""
    at = _at(point)
    found: list = wgmma.candidates(kernel, c, target, at)
    if not found and mma.takes(target):
        found = mma.candidates(kernel, c, target, at)
    if not found:
        found = [*simt.candidates(c, target, at), *bf16x6.candidates(kernel, c, target, at)]
    table: Table = {}
    for time, schedule in found:
        table[schedule] = min(time, table.get(schedule, inf))
    return table


def _at(point: Point) -> Callable[[Int], int]:
    return lambda size: evaluate(size, point.__getitem__)


def _for_vectors(c: Contraction, target: Target, least: Int) -> Any:
    """The best schedule on CUDA cores for few rows or columns, ``least``."""
    symbols = dict.fromkeys(s for size in c.sizes for s in symbols_of(size))
    point = {s: _within(s, min(s.hint, simt.VECTOR) if s in symbols_of(least) else s.hint) for s in symbols}
    found = [*simt.candidates(c, target, _at(point)), *vectors.candidates(c, target, _at(point), swapped=least == c.N)]
    return min(found, key=lambda item: item[0])[1]


def _cover(size: Int, points: Sequence[Point], tables: Sequence[Table]) -> Any | None:
    """Few schedules that are good at all points together, each for a range of ``size``: the best one at the example's sizes."""
    if not points or not all(tables):
        return None
    for slower in _SLOWER:
        parts = _parts(points, tables, slower)
        if len(parts) <= _KERNELS:
            break
    found = parts[-1][1]
    for (last, schedule), (following, _) in reversed([((parts[i + 1][0] - 1, parts[i][1]), parts[i + 1]) for i in range(len(parts) - 1)]):
        below, above = (evaluate(size, points[i].__getitem__) for i in (last, following))
        found = BySize(as_python(size), isqrt(below * above), schedule, found)
    return found


def _parts(points: Sequence[Point], tables: Sequence[Table], slower: float) -> list[tuple[int, Any]]:
    """(the first point, the schedule) of as few ranges as there can be."""
    def allowed(i: int) -> dict[Any, float]:
        best = min(tables[i].values())
        most = 1 if all(v == s.hint for s, v in points[i].items()) else slower
        return {s: t / best for s, t in tables[i].items() if t <= most * best}

    parts, i = [], 0
    while i < len(points):
        first, total = i, allowed(i)
        while (i := i + 1) < len(points) and (both := {s: total[s] + t for s, t in allowed(i).items() if s in total}):
            total = both
        parts.append((first, min(total, key=total.__getitem__)))
    return parts


def _uses(schedule: Any, kind: type) -> bool:
    if isinstance(schedule, BySize):
        return _uses(schedule.small, kind) or _uses(schedule.large, kind)
    return isinstance(schedule, kind)

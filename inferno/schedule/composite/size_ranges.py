"""Several schedules for one kernel function whose sizes vary: ranges of a size, each with one that is good at all points of the range.

Schedules are compared at points, which are values of the symbols; the ranges are those that together lose least beside the best at each point."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf
from typing import Any, ClassVar

from inferno.size_forms import as_python
from inferno.symbolic import Int, Symbol, bounds, divisor, evaluate, hint, symbols_of

EDGES = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Where the number of rows, if it alone varies, may be cut into ranges."""
_FEW = 64  # rows up to which schedules are made for so many
_KERNELS = 3  # the most schedules, where nobody says another number
_GAIN = 0.05
"""What a further schedule has to gain, by the squares of the shares of time that are lost: a fifth at one size, a tenth at five."""
_EXAMPLE = 0.1
"""What it loses, so counted, not to have the best one at the example's sizes."""
_UNSEEN = 1.0  # microseconds of a launch that others hide, beside which a short kernel's time is worth little

Point = dict[Symbol, int]
Table = dict[Any, float]  # the microseconds of each schedule


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

    @property
    def pads(self) -> bool:
        """Whether all take zeros for what lies outside of an image."""
        return all(getattr(s, "pads", False) for s in (self.small, self.large))


@dataclass(frozen=True)
class Span:
    """Sizes up to ``limit``, from the span before it on, and points among them."""

    limit: int
    points: tuple[Point, ...]


def spans_of(side: Int, at: Callable[[int], Point], edges: Sequence[int] = EDGES) -> list[Span]:
    """Spans of the rows, or columns, whose number alone varies.  Their points are the largest of each, the example's, and one more than three
    quarters of the largest, as most numbers are no multiples of a tile.  ``edges``: where they may end; none does in front of the least number that
    is not 0."""
    low, high = max(bounds(side)[0], 1, divisor(side)), bounds(side)[1]
    edges = [e for e in edges if low <= e < high]
    found = []
    for first, limit in zip([low, *(e + 1 for e in edges)], [*edges, high]):
        last = min(limit, max(2 * EDGES[-1], first))
        sizes = {min(max(first, last * 3 // 4 + 1), last), last} | ({hint(side)} if first <= hint(side) <= limit else set())
        points = [at(size) for size in sorted(sizes)]
        found.append(Span(limit, tuple(p for i, p in enumerate(points) if p not in points[:i])))
    return found


def along(side: Int, size: int) -> Point:
    """The example's symbols, all as many times as large, where ``side`` is as large as it can be up to ``size``."""
    symbols = list(symbols_of(side))

    def scaled(by: float) -> Point:
        return {s: in_range(s, round(s.hint * by)) for s in symbols}

    few, many = 0.0, 2.0 * size
    for _ in range(50):
        middle = (few + many) / 2
        few, many = (middle, many) if evaluate(side, scaled(middle).__getitem__) <= size else (few, middle)
    return scaled(few)


def in_range(symbol: Symbol, value: int) -> int:
    """The value that a symbol can have that is nearest, and not 0."""
    return max(symbol.low, 1, min(value, symbol.high))


def at_point(point: Point) -> Callable[[Int], int]:
    """How large a size is at a point; symbols that it does not name, as of an image of which some places are read, are the example's."""
    return _at(tuple(point.items()))


@lru_cache(256)  # one function for a point, with which estimates are kept
def _at(point: tuple[tuple[Symbol, int], ...]) -> Callable[[Int], int]:
    known = dict(point)
    return cache(lambda size: evaluate(size, lambda symbol: known.get(symbol, max(symbol.hint, 1))))


def cover(size: Int, spans: Sequence[Span], table: Callable[[Point, int], Table], kernels: int = _KERNELS, gain: float | None = None) -> Any | None:
    """Few schedules that are good at all points together, each for some of the spans: the best one at the example's sizes.  ``table``: the
    times at a point of schedules that are right up to a size; ``gain``: what each further one has to."""
    parts = _parts(spans, table, kernels, _GAIN if gain is None else gain) if spans else None
    if parts is None:
        return None
    found = parts[-1][1]
    for last, schedule in reversed(parts[:-1]):
        found = BySize(as_python(size), spans[last].limit, schedule, found)
    return found


def _parts(spans: Sequence[Span], table: Callable[[Point, int], Table], kernels: int, gain: float) -> list[tuple[int, Any]] | None:
    """(the last span, the schedule) of ranges that together lose least, of as few as that takes."""
    limits = [s.limit for s in spans]
    held: dict[tuple[int, int, int], Table] = {}

    def at(i: int, p: int, j: int) -> Table:
        """At a point of span ``i``, for a range that ends with span ``j``; beyond few rows it does not matter where."""
        end = j if limits[j] <= _FEW else len(spans) - 1
        if (i, p, end) not in held:
            held[i, p, end] = table(spans[i].points[p], limits[end])
        return held[i, p, end]

    each = [[min(at(i, p, i).values(), default=inf) for p in range(len(s.points))] for i, s in enumerate(spans)]
    if any(best == inf for bests in each for best in bests):
        return None
    ranges = {key: min(found.items(), key=lambda item: item[1], default=None) for key, found in _ranges(spans, at, each).items()}
    best: dict[int, tuple[float, list]] = {0: (0.0, [])}  # by the number of spans: what they lose, and their ranges
    chosen = None
    for _ in range(kernels):
        longer: dict[int, tuple[float, list]] = {}
        for (i, j), found in ranges.items():
            if found is not None and i in best and best[i][0] + found[1] < longer.get(j + 1, (inf,))[0]:
                longer[j + 1] = best[i][0] + found[1], [*best[i][1], (j, found[0])]
        if len(spans) in longer and (chosen is None or longer[len(spans)][0] < chosen[0] - gain):
            chosen = longer[len(spans)]
        best = longer
    return None if chosen is None else chosen[1]


def _ranges(spans: Sequence[Span], at: Callable[[int, int, int], Table], each: Sequence[Sequence[float]]) -> dict[tuple[int, int], Table]:
    """For the spans from one to another what each schedule loses that all their points may have: the square of the share that it takes longer
    than the best one, of all points, and more if it is not the best one for the example.  ``each``: the least time at each point."""
    found = {}
    for j in range(len(spans)):
        total: dict[Any, float] | None = None
        for i in range(j, -1, -1):
            for p, point in enumerate(spans[i].points):
                times = at(i, p, j)
                example, here = all(v == s.hint for s, v in point.items()), min(times.values(), default=inf)
                losses = {s: ((t - each[i][p]) / (each[i][p] + _UNSEEN)) ** 2 + _EXAMPLE * (example and t > here) for s, t in times.items()}
                total = losses if total is None else {s: loss + losses[s] for s, loss in total.items() if s in losses}
            found[i, j] = total
    return found

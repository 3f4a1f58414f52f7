"""The schedule of scans whose sizes vary: blocks walk all tiles of their rows, however many these are, or look back where rows are few and long.

What is chosen is right for all sizes, and fast for those like the example's, but whether rows are few and long is asked at each call.
"""

from dataclasses import replace
from math import prod

from inferno.mlir import func
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.scans.kernel import ScanKernel
from inferno.schedule.scans.scan_schedule import Scans
from inferno.schedule.scans.scans import FEW, enough, pick, read_sized, spread, walking
from inferno.size_forms import as_python
from inferno.symbolic import Int, Size, Symbol, bounds, divisor, hint
from inferno.target import Target

__all__ = ["choose"]

_THREADS, _ITEMS = 512, 4  # of a row that many others do not wait for, of which a later call may have many more points
_LONG = 16  # tiles of a block that walks, which rows are taken to be that others look back for
_MOST = 256  # rows that are asked whether blocks look back, and what half, a quarter ... of them do


def choose(kernel: func.FuncOp, target: Target) -> BySize | Scans | None:
    """Schedules for ranges of sizes, or one for all, if ``kernel`` is a scan that can be generated."""
    c = read_sized(kernel, target)
    if c is None:
        return None
    whole, (rows, parts) = walks(c, target), looks_back(c, target)
    if parts is None:
        return whole
    return _by(c.outer, rows, _by(c.length, FEW * whole.tile(c), whole, parts), whole)


def _by(size: Int, limit: int, small: BySize | Scans, large: BySize | Scans) -> BySize | Scans:
    """One of two by a size, where its range says nothing."""
    least, most = bounds(size)
    if most <= limit or small == large:
        return small
    return large if least > limit else BySize(as_python(size), limit, small, large)


def walks(c: ScanKernel, target: Target) -> Scans:
    """What sizes like the example's ask for, in blocks that walk all tiles of their rows."""
    known = _known(c)
    s = spread(pick(known, target), known, target)
    s = walking(known) if s.group else s
    if c.along and not isinstance(c.length, int) and known.outer * s.lanes < enough(target):
        while s.lanes < _THREADS and known.outer * s.lanes < enough(target):
            s = replace(s, lanes=2 * s.lanes)
        s = replace(s, threads=max(s.threads, s.lanes), items=max(s.items, _ITEMS))
    return s


def looks_back(c: ScanKernel, target: Target) -> tuple[int, Scans | None]:
    """What few long rows ask for, and how many these are at most; None for no number of rows."""
    if not isinstance(c.inner, int) or not _has_ends(c.outer):
        return 0, None
    length = hint(c.length) if isinstance(c.length, int) else max(hint(c.length), _LONG * walking(_known(c)).tile(c))
    rows = c.outer if isinstance(c.outer, int) else _MOST
    while rows > 1 and not pick(_known(c, rows, length), target).group:
        rows = rows // 2 if rows != c.outer else 0
    if rows < 1:
        return 0, None
    s = pick(_known(c, min(rows, max(1, hint(c.outer))), length), target)
    few = c if isinstance(c.outer, int) else replace(c, sizes=(rows, *[1] * (c.begin - 1), *c.sizes[c.begin:]))
    return rows, s if s.group and s.fits(few) else None


def _has_ends(size: Int) -> bool:
    """Whether a kernel can know how large this is where it is launched for a range: a number, or so many times one symbol."""
    return isinstance(size, int) or (isinstance(size, Size) and len(size.terms) == 1 and len(atoms := size.terms[0][0]) == 1 and isinstance(atoms[0], Symbol))


def _known(c: ScanKernel, outer: int = 0, length: int = 0) -> ScanKernel:
    """The scan of sizes like the example's, or of so many rows of so many points; no vector divides neighbours that does not divide all there may be."""
    sizes = [max(1, hint(x)) for x in c.sizes]
    if outer and c.begin:
        sizes[:c.begin] = [outer] + [1] * (c.begin - 1)
    if length and c.end > c.begin:
        sizes[c.begin] = -(-length // prod(sizes[c.begin + 1:c.end]))
    if not isinstance(c.neighbours, int):
        step = divisor(c.neighbours) & -divisor(c.neighbours)
        sizes[-1] = sizes[-1] // (2 * step) * 2 * step + step
    return replace(c, sizes=tuple(sizes))

"""Which rows of a cache a block of threads that computes attention writes before it reads keys and values there.

Rows are told apart by where they are in memory.  Of an update the dimensions that a table says and those that it has all of make its offset.  What a
block reads begins at an offset that its place in the grid makes, and has a stride for each key: an update is among it if the difference of both is
that of a key that the block has.  Of pages, which may be anybody's, all updates of its heads count.  A block that reads a row writes it itself, before:
no block waits for another one, and those that write one row write the same to it.
"""

from dataclasses import dataclass

from inferno.passes.shapes import row_major
from inferno.schedule.attention.cache_writes import CacheWrite
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.tiles.tiling import Axis

_MOST_UPDATES, _MOST_OF_PAGES = 128, 8
"""Places that each block of threads looks at, and rows of each head that it writes to pages.  With a launch in front, and without: 8x32x512x128 of 8 heads of
keys, 4 queries, 256 places 15.7 and 16.3 us, of 4 heads, 128 places 9.8 and 9.5; pages of 64 rows, 8x32x4096x128 38.6 and 37.8, 64x32x4096x128 253 and 279."""


@dataclass(frozen=True)
class Window:
    """A dimension of a cache that updates have all of: its number, size and stride, and which part of the place along which axis of the grid it is."""

    dim: int
    size: int
    stride: int
    axis: int
    part: int


@dataclass(frozen=True)
class RowWrite:
    """Rows of ``width`` elements that lie together.  ``begin``: the cache's strides along the axes of the grid, ``row``: that of ``rows`` keys, 0 of pages."""

    write: CacheWrite
    width: int
    begin: tuple[int, ...]
    row: int
    rows: int
    windows: tuple[Window, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """The cache's, by its dimensions."""
        return row_major(self.write.shape)


def row_writes(a: AttentionKernel, grid: tuple[Axis, ...], keys: Axis, depth: Axis, width: Axis) -> tuple[RowWrite, ...] | None:
    """How the kernel writes to caches; None where it is not understood."""
    found = []
    for write in a.writes:
        read = [(o, inner) for o, inner in ((a.k, depth), (a.v, width)) if o.access is not None and o.access.argument == write.cache]
        others = [x for x in (a.q.access, *a.score_extras, *a.extras, *a.sinks) if x is not None]
        if len(read) != 1 or any(x.argument == write.cache for x in others):
            return None
        found.append(_rows(write, *read[0], grid, keys))
    return None if None in found else tuple(found)


def _rows(write: CacheWrite, o: Operand, inner: Axis, grid: tuple[Axis, ...], keys: Axis) -> RowWrite | None:
    shape, strides = write.shape, row_major(write.shape)
    sizes = [*(a.size for a in grid), keys.size, inner.size]
    if o.access.offset != 0 or o.element.width != 16 or not all(isinstance(n, int) for n in sizes):
        return None
    begin, row = tuple(a.stride(o.access) for a in grid), keys.stride(o.access)
    rows = [(row, keys.size)] if o.pages is None else [(row, o.pages.rows), (o.pages.of.step, o.pages.of.count)]
    used = sorted((s, n) for s, n in [*zip(begin, sizes), *rows, (inner.stride(o.access), inner.size)] if n > 1 and s != 0)
    end = 1
    for stride, size in used:  # the axes walk over each element once
        if stride != end:
            return None
        end *= size
    rank = len(shape)
    if end != strides[0] * shape[0] or rank - 1 in write.along or shape[-1] != inner.size or write.steps[-1] != 1 or inner.size % 8:
        return None
    windows = []
    for d in range(rank - 1):
        if d in write.along or shape[d] == 1:
            continue
        axis = next((i for i, (s, a) in enumerate(zip(begin, grid)) if s and strides[d] % s == 0 and s * a.size % (strides[d] * shape[d]) == 0), None)
        if axis is None:
            return None
        windows.append(Window(d, shape[d], strides[d], axis, strides[d] // begin[axis]))
    most = _MOST_UPDATES if o.pages is None else _MOST_OF_PAGES
    if not 0 < write.updates <= most or write.updates * write.size >= 2**31:
        return None
    return RowWrite(write, inner.size, begin, row if o.pages is None else 0, keys.size, tuple(windows))

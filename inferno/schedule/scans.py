"""The schedule of running sums, products and extrema: who has which elements, and how what lies in front of them gets there."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.mlir import func, ir, walk
from inferno.schedule.accesses import Access
from inferno.schedule.elementwise import supported_body, supported_element
from inferno.schedule.scan_kernel import ScanKernel, parse_scan_kernel
from inferno.target import Target

_WARP = 32
_SHARED = 48 << 10  # bytes of a block whose arrays have sizes that the code says
_BYTES = 64  # that a thread holds of a tile, and where tiles are few twice as many
_COLUMNS = 4  # running values of a thread across rows
# Bytes of neighbours that the threads across a row read at once: whole lines of the cache, or two where there are many rows.
_LINE = 128
_BLOCKS = 2  # a multiprocessor, below which there are too few for blocks that walk whole rows
_HOP = 8 << 20  # bytes that are read and written while one group of tiles learns from the one in front of it what the running value is


@dataclass(frozen=True)
class Scans:
    """A block of ``threads`` has tiles, a thread ``items`` vectors of ``vector`` neighbours of each.

    Along memory ``lanes`` threads have a row, next to each other; across memory a row's neighbours are ``lanes`` threads', and those behind each
    other walk next to each other ``items`` places each.  Without ``group`` a block walks all of its rows' tiles.  With it each tile is a block's,
    which looks for what is in front of it: parts of the tiles of its group of so many, and the sum of all groups before; ``workers`` blocks
    take one tile after the other, or if it is 0 there is a block for each.  ``stages``: so many tiles that a block has next wait in
    shared memory.  ``whole``: groups leave their own sums, which each block adds up from its last tile on; so they need not wait for each other.
    """

    generator: ClassVar[str] = "scans"

    threads: int
    lanes: int
    vector: int
    items: int
    group: int = 0
    workers: int = 0
    stages: int = 0
    whole: bool = False

    def columns(self, c: ScanKernel) -> int:
        """Running values of a tile."""
        return 1 if c.along else self.lanes * self.vector

    def tile(self, c: ScanKernel) -> int:
        """Places of a row that a block has at once."""
        return self.lanes * self.vector * self.items if c.along else self.threads // self.lanes * self.items

    def tiles(self, c: ScanKernel) -> int:
        """Of a row."""
        return ceil(c.length / self.tile(c))

    def chains(self, c: ScanKernel) -> int:
        """Groups of rows that have tiles of their own."""
        return ceil(c.outer / (self.threads // self.lanes)) if c.along else c.outer * ceil(c.inner / (self.lanes * self.vector))

    def blocks(self, c: ScanKernel) -> int:
        tiles = self.chains(c) * (self.tiles(c) if self.group else 1)
        return min(tiles, self.workers) if self.workers and self.group else tiles


    def arrays(self, c: ScanKernel) -> list[int]:
        """Running values in shared memory.  Along memory what the warps come to, twice: while some still read one tile's, others write the next
        one's.  Across it what the parts of a tile come to, what is in front of each, and what the tile comes to; parts have odd lengths, for
        threads go over columns of them."""
        if c.along:
            return [2 * (self.threads // _WARP)] if self.lanes > _WARP else []
        parts = self.threads // max(_WARP, self.lanes)
        return [parts * (self.columns(c) + 1)] * 2 + [self.columns(c)]

    def staged(self, c: ScanKernel) -> tuple[Access, ...]:
        """What of a tile can wait in shared memory: vectors of 4, 8 or 16 bytes that are aligned."""
        def fits(at: Access) -> bool:
            neighbours = bool(at.strides) and (at.strides[-1] == 1 or self.vector == 1)
            return neighbours and self.vector * _bytes(at.element) in (4, 8, 16) and all(x % self.vector == 0 for x in (at.offset, *at.strides[:-1]))

        return tuple(at for at in c.reads if fits(at)) if self.stages else ()

    def fits(self, c: ScanKernel) -> bool:
        """Whether the generator takes the kernel with this schedule."""
        if self.threads % _WARP or not _WARP <= self.threads <= 1024 or self.lanes & (self.lanes - 1) or self.threads % self.lanes or self.items < 1:
            return False
        if (c.sizes[-1] if c.sizes else 1) % self.vector or self.group & (self.group - 1) or self.stages not in range(4):
            return False
        if (self.group or self.tiles(c) > 1) and c.along and self.lanes != self.threads:
            return False
        if self.whole and not self.workers:
            return False
        if self.workers and (not self.group or not self.stages or (c.along and self.lanes <= _WARP)):
            return False
        shared = sum(self.arrays(c), self.columns(c)) * _bytes(c.combiner.total) + 16
        shared += sum(self.stages * self.items * self.threads * self.vector * _bytes(at.element) for at in self.staged(c))
        return shared <= _SHARED and (not self.group or self.columns(c) <= self.threads)


def _bytes(element: ir.Type) -> int:
    return max(8, element.width) // 8


def read(kernel: func.FuncOp, target: Target) -> ScanKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated."""
    c = parse_scan_kernel(kernel) if target.kind == "nvptx" else None
    if c is None or any(not supported_body(s.generic) for s in c.steps):
        return None
    elements = [v.element for v in c.values] + [a.element for a in c.accesses]
    if any(walk(s.generic, "tensor.extract") for s in c.steps) or not all(map(supported_element, elements)):
        return None
    return c if all(a.strides[-1] in (0, 1) for a in c.accesses if a.strides) else None  # neighbours are read together


def choose(kernel: func.FuncOp, target: Target) -> Scans | None:
    """A schedule for every scan whose running values combine in any order."""
    c = read(kernel, target)
    return pick(c, target) if c is not None else None


def pick(c: ScanKernel, target: Target) -> Scans:
    """The schedule that the rows' length and their number ask for."""
    return _along(c, target) if c.along else _across(c, target)


def _vector(c: ScanKernel) -> int:
    """Neighbours that are read at once: 16 bytes of what is scanned, if they divide a row."""
    vector = max(1, 16 // c.bytes)
    while (c.sizes[-1] if c.sizes else 1) % vector:
        vector //= 2
    return vector


def _along(c: ScanKernel, target: Target) -> Scans:
    vector = _vector(c)
    vectors, items = max(1, c.length // vector), max(1, min(8, _BYTES // (vector * c.bytes)))
    lanes = min(_WARP, _power(vectors))
    lanes = max(lanes, _power(ceil(vectors / items)))
    if lanes <= 512:  # a row is one tile
        items = ceil(vectors / lanes)
        return Scans(max(_WARP, lanes, min(256, _power(c.outer) * lanes)), lanes, vector, items)
    if c.outer >= _BLOCKS * target.multiprocessors:
        return Scans(512, 512, vector, items)
    s = Scans(256, 256, vector, min(8, 2 * items))
    return replace(s, group=_group(s, c))


def _across(c: ScanKernel, target: Target) -> Scans:
    vector = min(_COLUMNS, _vector(c))
    lanes = min(_WARP, _power(ceil(c.inner / vector)), max(1, 2 * _LINE // (vector * c.bytes)))
    items = max(1, min(8, _BYTES // (vector * c.bytes)))

    def columns() -> int:
        return c.outer * ceil(c.inner / (lanes * vector))

    while lanes * vector * c.bytes > _LINE // 2 and columns() < (8 if lanes * vector * c.bytes > _LINE else _BLOCKS - 0.5) * target.multiprocessors:
        lanes //= 2
    if columns() < (_BLOCKS - 0.5) * target.multiprocessors:
        lanes = min(_WARP, _power(ceil(c.inner / vector)), max(1, _LINE // (vector * c.bytes)))
    threads = max(_WARP, min(512, lanes * _power(ceil(c.length / items))))
    s = Scans(threads, lanes, vector, items)
    if s.tiles(c) == 1 or s.blocks(c) >= (_BLOCKS - 0.5) * target.multiprocessors:
        return s
    s = Scans(256, lanes, vector, 8)
    return replace(s, group=_group(s, c))


def _group(s: Scans, c: ScanKernel) -> int:
    """Tiles of a group, such that memory and not the chain of groups is what takes the time."""
    bytes_ = 2 * s.threads * s.vector * s.items * c.bytes * s.chains(c)
    return min(128, _power(ceil(_HOP / bytes_)), _power(s.tiles(c)))


def _power(x: int) -> int:
    """The next power of two."""
    return 1 << max(0, x - 1).bit_length()

"""How a kernel of running sums, products and extrema is computed: tiles, the threads that have them, and what of them waits in shared memory."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.scans.kernel import ScanKernel
from inferno.symbolic import Int, bounds, ceildiv, is_multiple, minimum, product, reach
from inferno.target import STATIC_SHARED

WARP, THREADS = 32, 2048  # threads of a warp, and of a multiprocessor
_WAITING = 160 << 10  # bytes of a block's tiles that wait


def first_offset(at: Access, vector: int) -> Int:
    """Where the first in memory of so many neighbouring points of an access lies, of those that it begins with."""
    return at.offset - (vector - 1) if at.strides[-1:] == (-1,) else at.offset


@dataclass(frozen=True)
class Scans:
    """A block of ``threads`` has tiles, a thread ``items`` vectors of ``vector`` neighbours of each.

    Along memory ``lanes`` threads have a row, next to each other; across memory a row's neighbours are ``lanes`` threads', and those behind each
    other walk next to each other ``items`` places each.  Without ``group`` a block walks all of its rows' tiles, of which the next ``stages`` wait
    in shared memory, or one in registers.  With it each tile is a block's, which looks for what is in front of it: parts of the tiles of its group
    of so many, and the sum of all groups before.  ``resident``: so many blocks are to fit a multiprocessor at once, which bounds registers.
    ``packed``: along memory 16-bit numbers are added up again once it is known what is in front of them, and stay as they were read until then.
    """

    generator: ClassVar[str] = "scans"

    threads: int
    lanes: int
    vector: int
    items: int
    group: int = 0
    stages: int = 0
    resident: int = 0
    packed: bool = False

    def columns(self, c: ScanKernel) -> int:
        """Running values of a tile."""
        return 1 if c.along else self.lanes * self.vector

    def tile(self, c: ScanKernel) -> int:
        """Places of a row that a block has at once."""
        return self.lanes * self.vector * self.items if c.along else self.threads // self.lanes * self.items

    def tiles(self, c: ScanKernel) -> Int:
        """Of a row."""
        return ceildiv(c.length, self.tile(c))

    def walks(self, c: ScanKernel) -> bool:
        """Whether rows may be several tiles."""
        return bounds(self.tiles(c))[1] > 1

    def chains(self, c: ScanKernel) -> Int:
        """Groups of rows that have tiles of their own."""
        return ceildiv(c.outer, self.threads // self.lanes) if c.along else c.outer * ceildiv(c.inner, self.lanes * self.vector)

    def blocks(self, c: ScanKernel) -> Int:
        """Of a launch, 0 where rows have no places."""
        return self.chains(c) * (self.tiles(c) if self.group else minimum(c.length, 1))

    def arrays(self, c: ScanKernel) -> list[int]:
        """Running values in shared memory.  Along memory what the warps come to, twice: while some still read one tile's, others write the next
        one's.  Across it what the parts of a tile come to, what is in front of each, and what the tile comes to; parts have odd lengths, for
        threads go over columns of them."""
        if c.along:
            return [2 * (self.threads // WARP)] if self.lanes > WARP else []
        parts = self.threads // max(WARP, self.lanes)
        return [parts * (self.columns(c) + 1)] * 2 + [self.columns(c)]

    def staged(self, c: ScanKernel) -> tuple[Access, ...]:
        """What of a tile can wait in shared memory: vectors of 4, 8 or 16 bytes that are aligned.  Where a block looks back meanwhile, all that it reads
        of each place."""
        def fits(at: Access) -> bool:
            neighbours = bool(at.strides) and (at.strides[-1] in (1, -1) or self.vector == 1)
            whole = all(is_multiple(x, self.vector) for x in (first_offset(at, self.vector), *at.strides[:-1]))
            return neighbours and whole and self.vector * element_bytes(at.element) in (4, 8, 16)

        if not self.stages:
            return ()
        reads = c.all_reads if self.group else c.reads
        if self.group:  # and what is the same along rows waits for nobody
            reads = tuple(at for at in reads if all(at.strides[c.begin:c.end]))
        return tuple(at for at in reads if fits(at))

    def waiting_bytes(self, c: ScanKernel) -> int:
        """Of shared memory that the tiles take that wait there."""
        return self.stages * self.items * self.threads * self.vector * sum(element_bytes(at.element) for at in self.staged(c))

    def most_left(self, c: ScanKernel) -> int:
        """Values that blocks leave each other, at most, where rows' length or number varies: those of whole groups of tiles, and what is in front of each."""
        chains = bounds(self.chains(c))[1]
        tiles = reach(product(c.sizes)) // c.inner * ceildiv(c.inner, 1 if c.along else self.columns(c)) // self.tile(c) + chains
        return (tiles + chains * self.group + tiles // self.group + chains) * self.columns(c)

    def _is_counted(self, c: ScanKernel) -> bool:
        """Whether 31 bits count these, each of two words."""
        return isinstance(self.blocks(c), int) or (isinstance(c.inner, int) and 2 * self.most_left(c) < 2**31 - 1)

    def fits(self, c: ScanKernel) -> bool:
        """Whether the generator takes the kernel with this schedule."""
        if self.threads % WARP or not WARP <= self.threads <= 1024 or self.lanes & (self.lanes - 1) or self.threads % self.lanes or self.items < 1:
            return False
        if not is_multiple(c.neighbours, self.vector) or self.group & (self.group - 1) or self.stages not in range(4):
            return False
        if self.group and ((c.along and self.lanes != self.threads) or not self._is_counted(c)):
            return False
        if self.packed and not (c.along and c.bytes == 2 and isinstance(c.source, Access)):
            return False
        if self.resident * self.threads > THREADS or (self.resident and not self.group):
            return False
        if self.stages and (not self.walks(c) if not self.group else c.along or self.stages > 1):
            return False
        shared = sum(self.arrays(c), self.columns(c)) * element_bytes(c.combiner.total) + 16
        return shared <= STATIC_SHARED and self.waiting_bytes(c) <= _WAITING and (not self.group or self.columns(c) <= self.threads)

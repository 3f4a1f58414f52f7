"""How a kernel of reductions is computed: threads along and across sums, what a thread reads at once, and the parts that sums are cut into."""

from dataclasses import dataclass, replace
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.powers import next_power_of_two
from inferno.schedule.reductions import joined_rows, transposed_sums
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.symbolic import Int, ceildiv, floordiv, is_multiple, product
from inferno.target import WARP

TOGETHER = 8
"""Values of shared memory that a thread puts together by itself, when threads along sums side by side have halved their number so far."""
_APART = 4  # banks from a lane's values to the next one's


@dataclass(frozen=True)
class Reductions:
    """A block of ``across`` times ``along`` threads: ``along`` threads have the terms of a sum, of ``unroll`` vectors of ``vector`` elements at
    once.  Where neighbours in memory are terms of one sum ``across`` are different sums, otherwise different vectors of sums.

    A sum is cut into ``chunks``, whose results a second kernel puts together; ``interleaved``: what they have at once lies between what the others have,
    so that all end at the tensor's end (``turn_back.py``).  With ``rows`` so many rows of neighbours are read as one (``joined_rows.py``).  ``transposed``:
    sums side by side are neighbours in another tensor than terms are (``transposed_sums.py``).
    """

    generator: ClassVar[str] = "reductions"

    across: int
    along: int
    vector: int
    unroll: int = 8
    chunks: int = 1
    interleaved: bool = False
    rows: int = 0
    transposed: bool = False

    @property
    def threads(self) -> int:
        return self.across * self.along

    @property
    def beside(self) -> int:
        """Threads of a warp along sums that are neighbours in memory; where terms are, or rows are joined, they meet otherwise."""
        return 1 if self.rows else max(1, WARP // self.across)

    @property
    def pitch(self) -> int:
        """Values of a lane in shared memory; of joined rows, whose lanes are neighbours, so many that 32 of these are in as many banks."""
        return self.threads + (_APART - self.threads) % 32 if self.rows else self.threads

    def walked(self, c: ReductionKernel) -> ReductionKernel:
        """The sums that threads have, which may be parts of those of ``c``."""
        return transposed_sums.transposed(c) if self.transposed else c

    def cuts(self, c: ReductionKernel) -> int:
        """Parts of each sum that a second kernel puts together, if there is more than one."""
        return self.chunks * transposed_sums.parts(c, self.across) if self.transposed else self.chunks

    def joined(self, c: ReductionKernel) -> "Reductions":
        """What a block that has parts of one sum side by side puts them together by; others as they are."""
        return replace(self, across=1, along=self.threads, chunks=self.cuts(c), transposed=False) if self.walked(c).count != c.count else self

    def units(self, c: ReductionKernel) -> Int:
        """What threads along a sum share: vectors of it, or terms, of joined rows so many together."""
        c = self.walked(c)
        return floordiv(c.length, self.vector) if c.along else floordiv(c.length, self.rows) if self.rows else c.length

    def leaves(self, c: ReductionKernel) -> bool:
        """Whether there may be terms behind the last whole unit."""
        return not is_multiple(c.neighbours, self.vector) if not self.rows else not is_multiple(c.length, self.rows)

    def share(self, c: ReductionKernel) -> Int:
        """Units of a chunk; the last one's may be fewer, and of a length that varies several may have none."""
        each = ceildiv(self.units(c), self.chunks)
        return each if self.chunks == 1 else ceildiv(each, self.along) * self.along

    def fits(self, c: ReductionKernel) -> bool:
        """Whether the generator takes it: warps of threads, powers of two, vectors that divide what lies together, chunks that all have terms."""
        powers = all(x > 0 and (x & (x - 1) == 0 or self.rows) for x in (self.across, self.along))
        fits = powers and 32 <= self.threads <= 1024 and self.takes(c, self.vector) and self.chunks > 0
        if self.transposed and (transposed_sums.transposed_run(c) is None or not transposed_sums.parts(c, self.across)):
            return False
        return fits and (not isinstance(c.length, int) or (self.chunks - 1) * self.share(c) < self.units(c))

    def takes(self, c: ReductionKernel, vector: int) -> bool:
        """Whether vectors divide what lies together, or leave no more terms than there are threads to have one each."""
        if self.rows:
            return joined_rows.fits(replace(self, vector=vector), c)
        return is_multiple(c.neighbours, vector) or (c.is_flat and vector <= self.along)

    def shared_bytes(self, c: ReductionKernel) -> int:
        """Of shared memory, where lanes are different sums."""
        shared = not c.along and (self.along > self.beside or self.rows)
        return self.pitch // self.beside * self.vector * sum(element_bytes(k.total) for k in c.combiners) if shared else 0

    def tiles(self, c: ReductionKernel) -> Int:
        """Blocks for all sums, a chunk each."""
        c = self.walked(c)
        if c.along:
            return ceildiv(c.count, self.across)
        rows = 1 if self.spans(c) else product(map(c.size, c.points[:-1]))
        return rows * (1 if self.rows else ceildiv(self.row(c), self.across))

    def spans(self, c: ReductionKernel) -> bool:
        """Whether threads side by side are more than neighbouring sums ask for: they go on with what lies elsewhere."""
        known = not (c.along or self.rows or self.transposed) and len(c.points) > 1 and isinstance(c.count, int)
        return known and self.across > next_power_of_two(ceildiv(c.inner, self.vector))

    def row(self, c: ReductionKernel) -> Int:
        """Vectors of sums that blocks' threads side by side have one after the other: of neighbours, or of all."""
        return floordiv(c.count if self.spans(c) else c.inner, self.vector)

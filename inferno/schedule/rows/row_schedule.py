"""What a schedule of rows says, and what rows move."""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import extracted_bytes
from inferno.schedule.rows.kernel import Part, RowKernel
from inferno.schedule.rows.row_sectors import spread
from inferno.symbolic import Int, ceildiv, hint
from inferno.target import Target

PORTABLE, _LARGEST = 8, 16  # blocks of a cluster that any GPU with clusters has, and that Hopper's have
THREADS = 1024  # of a block, the most there can be
# Bits of points that a thread may hold; registers of a block of 512 threads are 128 each, of 1024 they are 64.
HELD, HELD_BY_MANY = 64 * 32, 32 * 32


def most_blocks(target: Target) -> int:
    """Blocks of a cluster."""
    return _LARGEST if target.hopper else PORTABLE if target.capability >= 90 else 1


def most_bits(threads: int) -> int:
    """Bits of points that a thread of a block of so many may hold."""
    return HELD if threads <= 512 else HELD_BY_MANY


@dataclass(frozen=True)
class Rows:
    """``across`` threads of a block of ``threads`` have a row, and each reads ``vector`` neighbours at once; with ``cluster`` > 1 a row is that many
    blocks'.  ``held``: what is read and computed of a point stays in registers until the row's reductions are known; otherwise it is read
    and computed again, ``unroll`` vectors at once; what ``kept`` of these turns read stays in shared memory.

    ``sends``: the blocks of a cluster send each other what they have, else they meet and read it.

    ``packed``: of what is held only what was read stays, as it was read, and the rest is computed again.  ``online``: sums of exponentials below the
    row's largest point are taken with it; see ``codegen/rows/online_sums.py``.

    ``ragged``: vectors lie as memory does, and rows begin anywhere in them.  ``reciprocals``: see ``codegen/rows/row_divisions.py``; ``approximate``: see
    ``codegen/rows/row_exponentials.py``.

    ``persistent``: so many blocks, or clusters, have all rows; see ``codegen/rows/persistent_rows.py``; ``common``: they keep what rows have in common, too.
    ``longest``: points that a row's threads have registers for, of rows whose length varies, which a call knows not to be longer (``sized_rows.py``).
    ``resident``: so many blocks are to fit a multiprocessor at once, which bounds registers.  ``backwards``: the first blocks have the last rows
    (``turn_back.py``).  ``gathers``: what lies apart is written by way of shared memory; see ``codegen/rows/gathered_results.py``.
    """

    generator: ClassVar[str] = "rows"

    threads: int
    across: int
    vector: int
    cluster: int = 1
    held: bool = True
    unroll: int = 4
    reciprocals: bool = False
    kept: int = 0
    approximate: bool = False
    ragged: bool = False
    sends: bool = False
    packed: bool = False
    online: bool = False
    persistent: int = 0
    common: bool = False
    resident: int = 0
    backwards: bool = False
    gathers: bool = False
    longest: int = 0

    def vectors(self, c: RowKernel) -> int:
        """Vectors of a row, of which the first and the last may be another row's in part."""
        if self.longest:
            return self.longest // self.vector
        return ceil((c.width + self.vector - 1) / self.vector) if self.ragged else ceil(c.width / self.vector)

    def chunks(self, c: RowKernel) -> int:
        """Vectors of a thread."""
        return ceil(self.vectors(c) / (self.across * self.cluster))

    def rounds(self, c: RowKernel) -> int:
        """Turns of a loop over a thread's vectors."""
        return ceil(self.chunks(c) / self.unroll)

    def kept_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block for what it keeps."""
        return sum(self.kept * self.unroll * self.threads * 16 * ceil(self.vector * a.element.width / 128) for a in self.keeps(c))

    def keeps(self, c: RowKernel) -> list[Access]:
        """What is kept of each point."""
        return [*c.repeated(), *(c.common() if self.common else [])]

    def exchanged_bytes(self, c: RowKernel) -> int:
        """At most so much more, for what warps and blocks leave each other."""
        values = sum(k is not None for step in c.steps for k in step.combiners)
        return (values * (self.threads // 32 + 2 * self.cluster) + 2 * c.phases + 2 * values + 2) * 8

    def blocks(self, c: RowKernel) -> Int:
        return (self.persistent or ceildiv(c.count, self.threads // self.across)) * self.cluster


def row_bytes(c: RowKernel, access: Access) -> int:
    """Bytes that all rows read of an access."""
    return hint(c.count) * (c.width if c.wide(access) else 1) * element_bytes(access.element)


def moved_bytes(c: RowKernel, beside: bool = False) -> float:
    """Bytes that rows read and write, what they have in common once, and sectors of which they read a part whole; ``beside``: rows are read side by side."""
    written = sum(row_bytes(c, d.access) * (d.share(c.sizes) if isinstance(d, Part) else 1) for d in c.destinations)
    known = {a for step in c.steps for a in step.extras}
    moved = written + sum(min(row_bytes(c, a), a.bytes) * (1.0 if beside else spread(c, a)) for a in known)
    return moved + sum(extracted_bytes(step.generic) for step in c.steps)


def narrowest(c: RowKernel) -> int:
    """Bytes of the narrowest element that a point has of its own."""
    places = [d.access for d in c.destinations] + [a for s in c.steps if not s.per_row for a in s.extras]
    gathered = [op.results[0].type for s in c.steps if not s.per_row for op in walk(s.generic, "tensor.extract")]
    return min((element_bytes(a.element) for a in places if c.wide(a)), default=min((element_bytes(t) for t in gathered), default=16))

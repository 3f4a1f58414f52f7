"""What a schedule of rows side by side says, what it keeps of them, and whether a kernel can have it."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.moments import met, moments
from inferno.schedule.rows.packed_rows import packs, staged_bytes, stages
from inferno.symbolic import Int, bounds, ceildiv, is_multiple
from inferno.target import STATIC_SHARED

# Blocks of a cluster, and of one where a block of fewer would be alone on a multiprocessor: an instance norm of 32x64x128x128 with channels last in float32
# took an H100 121 us by 8, whose loads wait for each other's reductions, and 109 by 16 (136 where blocks meet at barriers, for the mean and for the deviation),
# a group norm 124 and 109 (133).
PORTABLE, LARGEST = 8, 16
# Registers of a thread, for its points and one more of each: on an H100 softmax along the first dimension of 150x131072 in bf16 took 37.6 us, 28.9 held, of
# 64x65536 in float32 12.7 and 11.0, of 128x4096 in bf16 3.7 and 3.1; a gated one of 48x342258, less its mean, 88 and 60.
_REGISTERS = 96


@dataclass(frozen=True)
class Columns:
    """A block of ``threads`` has ``across`` vectors of ``vector`` rows that are neighbours; the other threads, and the blocks of a ``cluster``, have
    other points of the same rows.  Each goes over its points in turns of ``unroll``, of which the first ``kept`` stay in shared memory.  ``run`` of these are
    neighbours in their row, which a thread writes together where rows are written one behind the other.  ``held``: there is one turn, and what is read and
    computed of its points stays in registers until the rows' reductions are known.  ``sends``: blocks of a cluster send each other what they have, instead
    of a barrier of the cluster for each phase; ``once``: a row's mean and deviation are taken at once (``codegen/rows/column_moments.py``).  ``whole``:
    rows of a thread alone, one behind the other, come and go by way of shared memory (``codegen/rows/staged_rows.py``).  ``reciprocals``:
    see ``codegen/rows/row_divisions.py``; ``approximate``: see ``codegen/rows/row_exponentials.py``.  ``longest``: points that threads hold of rows whose
    length varies, which a call knows not to be longer (``sized_columns.py``)."""

    generator: ClassVar[str] = "columns"
    ragged: ClassVar[bool] = False
    persistent: ClassVar[int] = 0

    threads: int
    across: int
    vector: int
    cluster: int = 1
    unroll: int = 4
    kept: int = 0
    run: int = 1
    held: bool = False
    reciprocals: bool = False
    approximate: bool = False
    sends: bool = False
    once: bool = False
    whole: bool = False
    longest: int = 0

    @property
    def along(self) -> int:
        return self.threads // self.across

    def rounds(self, c: RowKernel) -> int:
        return ceil(c.width / self.points)

    def longest_of(self, c: RowKernel) -> int:
        """Points of a row at most."""
        return self.longest or bounds(c.width)[1]

    def vectors(self, c: RowKernel) -> int:
        """What the threads of a row share: its points."""
        return c.width

    def kept_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block for what it keeps."""
        return self.kept * self.unroll * self.threads * kept_point(c, self.vector)

    def dynamic_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block whose size the launch says."""
        return staged_bytes(c, self.vector, self.threads) if self.whole else self.kept_bytes(c)

    def blocks(self, c: RowKernel) -> Int:
        return ceildiv(ceildiv(c.count, self.vector), self.across) * self.cluster

    @property
    def points(self) -> int:
        """Of a row, in one turn."""
        return self.along * self.cluster * self.unroll

    def alone(self, c: RowKernel) -> bool:
        """Whether a thread has all points of its rows."""
        return self.along == self.cluster == c.together == 1

    def shares_lanes(self, c: RowKernel) -> bool:
        """Whether the lanes of a vector share their reductions."""
        return c.together > 1 and c.together % self.vector == 0

    @property
    def by_shuffles(self) -> bool:
        """Whether threads of a warp bring together what they have; otherwise all leave it in shared memory."""
        return 32 % self.across == 0

    def numbers(self, c: RowKernel) -> int:
        """Rows, or groups of rows, of a block that have a reduction each."""
        return self.across * self.vector // c.together

    def left_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block for what its threads leave each other, and other blocks."""
        if self.alone(c):
            return 0
        found, each = moments(c) if self.once else None, {}
        for phase in range(c.phases):
            widths = [element_bytes(k.total) for _, k in met(c, phase, found)]
            each.update({w: max(each.get(w, 0), widths.count(w)) for w in widths})
        parts = sum(w * n for w, n in each.items()) * (self.threads // 32 if self.by_shuffles else self.along)
        reduced = [k for s in c.steps for k in s.combiners if k is not None]
        wholes = sum(max(8, w) // 8 for k in reduced for w in (k.narrow.width, *[k.total.width] * (1 + (c.together > 1))))
        side = self.across * (1 if self.shares_lanes(c) else self.vector)
        sent = self.cluster * self.numbers(c) * 8 * len(reduced) + 8 * c.phases if self.sends else 0
        return side * (parts + wholes + 4 * self.once) + sent

    def fits(self, c: RowKernel) -> bool:
        side = self.across * self.vector
        alone = self.alone(c)
        whole = self.threads % 32 == 0 and (is_multiple(c.count, self.vector) or (alone and packs(c)))
        whole = whole and (side <= self.threads or alone) and side % c.together == 0
        whole = whole and (not self.once or (moments(c) is not None and not alone))
        whole = whole and (not self.sends or 1 < self.cluster <= self.threads // side or (self.cluster > 1 and self.by_shuffles))
        whole = whole and self.left_bytes(c) <= STATIC_SHARED and (not self.whole or (alone and self.held and stages(c)))
        whole = whole and self.unroll % self.run == 0 and c.width % self.run == 0 and not (self.held and (self.kept or self.longest_of(c) > self.points))
        return whole and (self.threads & (self.threads - 1) == 0 if alone or self.by_shuffles else c.together > 1 and self.threads % self.across == 0)


def kept_accesses(c: RowKernel) -> list[Access]:
    """What is worth keeping: read by several phases, and whole vectors."""
    return [a for a in c.repeated() if a.strides[c.rows[-1]] == 1]


def kept_point(c: RowKernel, vector: int) -> int:
    """Bytes that a thread keeps of a point."""
    return sum(16 * ceil(vector * a.element.width / 128) for a in kept_accesses(c))


def holding(s: Columns, c: RowKernel) -> Columns:
    """The same with less arithmetic, and in registers, if a thread's points are of one turn and few enough: nothing is computed anew, or goes through
    shared memory."""
    s = replace(s, reciprocals=True, approximate=True)
    bits = s.unroll * s.vector * (max(32, c.held_bits()) + 32)
    few = s.rounds(c) == 1 and bits <= _REGISTERS * 32 and c.together == 1 and s.cluster <= PORTABLE
    return replace(s, held=True, kept=0) if few else s


def keeping(s: Columns, c: RowKernel, most: int) -> Columns:
    """The same with as many turns in shared memory as have room."""
    each = s.kept_bytes(c)
    return replace(s, kept=min(s.rounds(c), most // each) if each else 0)

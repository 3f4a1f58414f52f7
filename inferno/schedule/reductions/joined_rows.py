"""Sums over rows of few columns that are contiguous in memory, read as if several rows were one.

Vectors of 16 bytes divide no row of 23 numbers, and threads side by side are no power of two of them.  But eight such rows are 23 vectors: a thread that
goes on by whole turns of so many rows has the same columns in each, a running value for each lane, and a block's threads read what lies together.
What lanes have of one column, in different rows, meets in shared memory at the end.
"""

from dataclasses import replace
from math import ceil, gcd
from typing import TYPE_CHECKING

from inferno.element_sizes import element_bytes
from inferno.mlir import walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.symbolic import alignment, hint, is_multiple
from inferno.target import WARP

if TYPE_CHECKING:
    from inferno.schedule.reductions.reduction_schedule import Reductions

_THREADS, _RESIDENT = 512, 1024  # of a block at most, which has so much to add up at its end once, and of a multiprocessor
_UNDER_WAY = 128  # bytes that a thread reads at once, in half of the registers that it has then
# Times the elements of a lane's load that are wanted, from which on rows are joined.  As they are and so an H200 took for 64 MB in bf16, of 23 columns, 29.7
# and 18.5 us for sums, 46.6 and 19.7 for the largest's places, 35.0 and 20.9 for variances, of two tensors for silu(x) * y 100 and 37; of 3 28.3 and 18.3, of
# 18 22.3 and 18.2, of 45 28.6 and 19.2, of 100 18.8 and 19.0, for silu(x) * y 56 and 38; in float32 of 23 20.8 and 17.6, 24.2 and 18.7, 28.0 and 19.2, 56 and
# 33.
_MORE = 1.25


def is_joined(at: Access, c: ReductionKernel) -> bool:
    """Whether the rows of a tensor lie one behind the other."""
    return at.strides[c.points[-1][-1]] == 1 and at.strides[c.terms[-1][-1]] == c.inner


def joins(c: ReductionKernel) -> bool:
    """Whether all tensors can be read so: those whose rows lie one behind the other, and what all rows, or all columns, have in common."""
    if c.along or not c.points or not c.terms or not isinstance(c.inner, int) or c.tables or c.reads or c.together or walk(c.generic, "scf.if"):
        return False
    inner, term, read = c.points[-1][-1], c.terms[-1][-1], [a for a in c.sources if a is not None]
    common = all(is_joined(a, c) or not (a.strides[inner] and a.strides[term]) for a in read)
    return common and all(is_joined(a, c) for a in c.stored) and any(is_joined(a, c) for a in (*read, *c.stored))


def fits(s: "Reductions", c: ReductionKernel) -> bool:
    """Whether a block's threads side by side have the vectors of so many rows, of which the last few may be fewer if there are no other terms."""
    whole = len(c.terms) == 1 or is_multiple(c.size(c.terms[-1]), s.rows)
    return joins(c) and s.vector > 1 and s.across * s.vector == s.rows * c.inner and whole


def joined(own: "Reductions", c: ReductionKernel, vector: int, unroll: int) -> "Reductions":
    """The schedule that joins rows, with vectors of so many elements and up to ``unroll`` of these at once, where a warp's loads bring clearly more than
    by ``own``."""
    if vector < 2 or not joins(c):
        return own
    rows = vector // gcd(vector, c.inner)
    across = rows * c.inner // vector
    if across > _THREADS or not all(_is_aligned(a, c, rows, vector) for a in (*c.sources, *c.stored) if a is not None and is_joined(a, c)):
        return own
    along = max(range(1, _THREADS // across + 1), key=lambda n: (resident(n * across) * n, n))
    s = replace(own, across=across, along=along, vector=vector, unroll=min(unroll, _under_way(c, vector)), rows=rows)
    vectors = c.inner // own.vector
    of_own = own.vector * vectors / (ceil(vectors / own.across) * own.across)
    long = hint(c.length) >= rows * along * s.unroll
    return s if long and fits(s, c) and vector * _filled(s.threads) >= _MORE * of_own else own


def _under_way(c: ReductionKernel, vector: int) -> int:
    """Vectors of all tensors that a thread reads at once."""
    each = {(a.argument, a.offset): element_bytes(a.element) for a in c.sources if a is not None and is_joined(a, c)}
    return max(1, _UNDER_WAY // (vector * max(1, sum(each.values()))))


def words(c: ReductionKernel) -> int:
    """Registers of a lane's running values; of an extremum its place has one."""
    return 2 if c.extremum is not None else sum(ceil(k.total.width / 32) for k in c.combiners)


def _is_aligned(at: Access, c: ReductionKernel, rows: int, vector: int) -> bool:
    """Whether vectors, or their pieces of 16 bytes, begin at multiples of these where so many rows begin."""
    others, wanted = [at.strides[run[-1]] for run in (*c.points[:-1], *c.terms[:-1])], min(vector, 16 // element_bytes(at.element))
    return alignment((at.offset, rows * c.inner, *others), wanted) >= wanted


def even(unroll: int, units: int) -> int:
    """Units at once, at most ``unroll``, of which the last time has as many as the others, or few less: what is not there is computed, too."""
    return ceil(units / ceil(units / unroll))


def resident(threads: int) -> int:
    """Blocks of so many threads that a multiprocessor has at once."""
    return max(1, _RESIDENT // _in_warps(threads))


def _filled(threads: int) -> float:
    """The part of the lanes of a block's warps that have something to do."""
    return threads / _in_warps(threads)


def _in_warps(threads: int) -> int:
    """The lanes of the warps that so many threads are."""
    return ceil(threads / WARP) * WARP

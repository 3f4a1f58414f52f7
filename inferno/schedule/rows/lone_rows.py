"""Rows side by side that are so short that a thread has all points of one, or of a few, in its registers: nothing meets anything.

Rows that lie one behind the other are packed: what these are of memory comes and goes in whole vectors (``packed_rows.py``)."""

from dataclasses import replace

from inferno.schedule.rows.column_schedule import Columns, holding
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.packed_rows import packs, stages, staging_threads, whole_pieces, whole_rows
from inferno.schedule.rows.row_schedule import row_bytes
from inferno.schedule.rows.transposed_results import lanes, transposes
from inferno.target import Target

# Points of rows that one thread has alone, and lanes of all of these: softmaxes of 2, 3, 4 and 8 channels, 168 MB in bf16, took an H100 790, 528, 394 and
# 198 us by 64 threads with 64 rows, which met at barriers, and take 115, 114, 113 and 114, as long as a copy; the logarithms of their sums 790, 526, 397 and
# 200, and take 90, 76, 69 and 64.  Of 24 channels alike by either.
_ALONE, _OWN_LANES, _OWN_VECTOR, OWN_THREADS = 24, 48, 4, 128
# Of what the L2 cache has: points of such rows, and threads of a multiprocessor from which each has two.  On an H200 softmaxes of 5x16512 in float16 took 0.9
# us by threads with a row each, 1.0 with two, 1.2 with four and 1.6 by the others, of 12x20000 1.4, 1.2, 1.5 and 1.8, of 5x200000 2.2, 1.7, 1.8 and 1.8, in
# float32 2.2, 2.5, 2.6 and 2.6, of 8x8192 1.1, 1.2, 1.5 and 1.3, of what is gelu before and centred behind in float16 1.1, 1.5, 1.8 and 1.6, of 5x16512 1.1,
# 1.2, 1.7 and 2.1.
_SHORTEST, _BUSY = 16, 512
_AT_ONCE_ALONE = 8  # blocks of a multiprocessor, with which threads that have rows alone keep memory busy
IN_CACHE = 50  # megabytes, up to which kernels were timed by which column_time was made


def megabytes(c: RowKernel) -> float:
    """What is moved."""
    read = {a for s in c.steps for a in s.extras if c.wide(a)}
    return sum(row_bytes(c, a) for a in (*read, *(d.access for d in c.destinations))) / 1e6


def threads_alone(c: RowKernel, most: int = 8) -> Columns | None:
    """A schedule whose threads have all points of their rows in registers."""
    short = packs(c)
    whole = short and stages(c)
    vector = min((whole_rows(c) if whole else whole_pieces(c)) if short else min(lanes(c), _OWN_VECTOR), most)
    while vector:
        threads = staging_threads(c, vector, OWN_THREADS) if whole else OWN_THREADS
        found = replace(holding(Columns(threads, threads, vector, 1, c.width, 0, c.width if short else 1), c), whole=whole)
        if vector * c.width <= _OWN_LANES and found.held:
            return found if (short or c.width <= _ALONE) and not transposes(c) and found.fits(c) else None
        vector //= 2
    return None


def few_alone(c: RowKernel, target: Target) -> Columns | None:
    """The same of rows that the L2 cache has, side by side and so short that threads need no others: of two each where there are many, otherwise of one."""
    if c.width > _SHORTEST or c.rows[-1] != len(c.sizes) - 1 or megabytes(c) > IN_CACHE:
        return None
    return threads_alone(c, 2 if c.count >= 2 * _BUSY * target.multiprocessors else 1)


def many_alone(c: RowKernel, target: Target) -> Columns | None:
    """The same of so many rows that memory is kept busy."""
    found = threads_alone(c) if c.rows[-1] == len(c.sizes) - 1 else None
    return found if found is not None and found.blocks(c) >= _AT_ONCE_ALONE * target.multiprocessors else None


def packed(c: RowKernel, target: Target) -> Columns:
    """A schedule for short rows one behind the other, of as many blocks as there are multiprocessors, if there are enough rows."""
    found = threads_alone(c)
    while found.vector > 1 and found.blocks(c) < 2 * target.multiprocessors:
        found = threads_alone(c, found.vector // 2)
    return found

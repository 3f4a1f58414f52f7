"""Schedules that have rows in registers: how many points a thread holds, and so how many threads, and blocks of a cluster, have a row."""

from math import ceil

from inferno.element_sizes import element_bytes
from inferno.powers import last_power_of_two, next_power_of_two
from inferno.schedule.rows.gathered_results import GATHERED_BYTES, gathered_bytes, written_apart
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_lanes import lanes, stored_alike
from inferno.schedule.rows.row_operands import is_plain, is_weighted, reads_words, widest
from inferno.schedule.rows.row_schedule import HELD, HELD_BY_MANY, PORTABLE, THREADS, Rows, most_bits, row_bytes
from inferno.target import Target

# A thread, where rows are short enough.  On an H200 softmax of 16384x8192 in bf16 took 150 us with 32, 168 with 16 and 230 with 8 (132 with
# reciprocals and approximate exponentials); in float32 the three took the same.
_POINTS = 32
_MUCH = 1 << 24  # elements; what was timed with 32 points a thread had 64M, and what was timed with 16 of it alone up to 1M
# Phases beyond which less has as many points, for each lets a row's threads wait: on an H200 1000x2048 in bf16, of which all is in the cache, took with 128
# and with 64 threads a row 2.7 and 2.8 us as a softmax, 4.1 and 3.4 behind an RMS norm, 9.3 and 6.5 as five norms and softmaxes, in float32 3.8 and 4.1,
# 4.2 and 4.4, 9.5 and 6.9; 1000x4096 with 256 and with 128 13.1 and 12.0, in float32 14.4 and 12.4.
_PHASES = 3
# Threads of a row of 4-byte numbers where each has 8 of them or more: of 16384x4096 LayerNorm took an H200 128.9 us, and 130.8 with 128, RMSNorm 129.7 and
# 131.3, softmax 128.7 and 130.8, with a residual 207 and 221; of 8192x8192 RMSNorm 129.4 and 131.1 with 256, with a residual 213 and 248.
_LONG = 512
# Threads of a block that has rows of 16-bit numbers with weights, at most so many a row: LayerNorm of 16384x8192 in bf16 took 137 us and 148 with 256, of
# 32768x4096 133 and 143, of 65536x2048 133 and 146; RMSNorm of 16384x8192 130 and 133, of the others 135 and 134.
_NORMED = 128
# Bytes of a block's rows, of threads with two vectors each, where rows of one tensor are no longer and many: RMSNorm of 524288x256 in bf16 took 127 us with
# blocks of 4 KB, 130 to 131 with 8 and 159 with 2, of 65536x1024 in float32 127, 130 to 131 with more, LayerNorm of 262144x256 in float32 128 and 132.
# A row that leaves more than an eighth of these vectors empty is a warp's: instance norms of 28x28 took 51 us in bf16 and 99 in float32, and 54 and 101.
_BLOCK_ROWS, _OWN_VECTORS = 1 << 12, 2
# Threads of a multiprocessor, and of a row up to which it is given more to reach them: of 4x4096 in float32 a softmax took an H200 2.1 us with 1024, 1.6 with
# 256 and 1.7 with 128, LayerNorm 2.0, 1.5 and 1.4, five norms and softmaxes 5.5, 3.6 and 3.5, of 4x2048 3.5 with 512, 3.0 and 2.8; LayerNorm of 16x8192 2.4
# with 1024, 2.1 with 512 and 1.9 with 256.
_ENOUGH, _WAITING = 128, 128
# Points of few rows from which as many blocks as clusters have hold each, and threads of these: a softmax of 16384 in float32 took an H200 2.0 us so, 2.4 by 4
# of 512, 3.3 by 2 of 1024 and 3.3 by one of 512, of 65536 2.8, 3.9 and 6.2 and 3.3 by 8 of 1024, in bf16 1.9, 2.1, 2.8 and 2.7, LayerNorm 1.9, 2.2, 2.9 and
# 2.7, of 16x65536 3.7, 5.1 and 5.9; of 8192 in bf16 by 4 and by one 1.8 and 1.6.
_FEW_LONG, _FEW_THREADS = 1 << 14, 256
_NEIGHBOURS = 8  # threads of a row at least, so that what a warp reads at once are whole lines
# Points of rows, such as components of vectors in space, of which a thread has all, and from how many rows: by four lanes one is idle, and each computes what
# the row has in common, which was all that the product of 2M of them with their edges' directions took an H200 (46 us, of which memory takes 17).
_TRIPLE, _MANY_TRIPLES = 3, 1 << 18
# Points of a thread, up to a warp a row, where each is read by itself: log_softmax of 137936x185 in bf16 took an H100 76 us with 8 threads a row,
# 42 with 16 and 38 with 32 (torch.compile 49); sums and running ones of 195361x45 16.8 with 8 and 29.4 with 4.
_BY_ITSELF = 8
# Points that a block keeps of such rows, and threads of a row that it holds: LayerNorm of 1336x50257 in float32 took 183 us with 4 blocks of 256 that
# keep a row, 201 with 8, 198 with 8 that hold it; softmax, which has no weights, 143 with 8 of 256 that hold it, 163 with 4 of 512, 176 kept by 4.
RAGGED_BLOCK, _RAGGED_THREADS = 16_500, 256
# Points of a thread up to which these threads hold a row: LayerNorm of 13400x10003 in bf16 took 163 us with 256, 228 with 512 and 182 kept; softmax of
# 6600x10001 in float32 134, 133 and 149.  In float32 and up to so many points a row half as many as otherwise are a thread's: of 65536x1023 136 and 141.
_RAGGED_HELD, _RAGGED_SHORT = 40, 2048
# What is given back in another order, whose sectors caches gather: bytes, points up to which rows have threads as others do (on an H100 two norms and a choice
# of 33x49 in bf16 took 3.9 us by two kernels, 2.0 so), and threads of a multiprocessor beyond, so that a warp has several rows (256x256 4.4 and 3.2, 1000x128
# 4.7 and 2.8).
TRANSPOSED, _TRANSPOSED_POINTS, _ENOUGH_TRANSPOSED = 1 << 22, 1 << 13, 16
# More than that goes through shared memory: the rows that a block has at once, so that their neighbours are whole sectors; and threads of a row at most.  By
# two kernels and so an H100 took (us), of running sums of 195361x45 in bf16 50 and 28, of 40000x200 in float32 61 and 42, of a log_softmax of 100000x100 63
# and 43, of 40000x500 in bf16 66 and 51, of 200000x32 22 and 17 by 64 rows of 8 threads and 13 by 128 of 4, of an RMS norm of 30000x256 20 and 17.
_GATHERED, _GATHERING_THREADS = (128, 64, 32), 16


def hold(c: RowKernel, target: Target, vector: int, ragged: bool) -> Rows | None:
    """A schedule that has rows in registers; None if they are too long."""
    scanned = ceil(c.scanned_bits / vector)
    if not ragged and (rows := gathering_rows(c)):
        return _gathering(c, vector, rows, max(8, c.held_bits() + scanned))
    if ragged and not stored_alike(c):
        return None  # elements that lie differently are written one by one
    vectors, held = ceil((c.width + (vector - 1) * ragged) / vector), max(8, c.held_bits()) + scanned
    apart = 0 if c.count * c.width <= _TRANSPOSED_POINTS else max((element_bytes(a.element) for a in written_apart(c)), default=0)
    points = _points_of_a_thread(c, target, vector, ragged, held, apart)
    across, cluster = _threads_of_a_row(c, target, vector, ragged, held, apart, points)
    # With few rows more threads have a part each, so that all multiprocessors have work.
    while c.count * across * cluster < (_ENOUGH_TRANSPOSED if apart else _ENOUGH) * target.multiprocessors and across < min(_WAITING, vectors):
        across *= 2
    while c.count * cluster * 2 <= target.multiprocessors and cluster < _portable_blocks(target) and across * cluster * 2 * 4 <= vectors and across >= 512:
        cluster *= 2
    threads, normed = across if cluster > 1 else max(across, min(256, next_power_of_two(c.count) * across)), False
    if not ragged and cluster == 1 and c.count * c.width >= _MUCH:
        threads, across, normed = _of_many_rows(c, vector, vectors, threads, across)
    while threads > max(across, 32) and ceil(c.count * across / threads) < 2 * target.multiprocessors:
        threads //= 2
    s = Rows(max(threads, 32), across, vector, cluster, ragged=ragged, reciprocals=True, approximate=True, packed=ragged or normed, sends=cluster > 1)
    each = max(held, 32 + scanned) if vector == 1 else held  # a register is the least that an element takes
    points = s.chunks(c) * vector
    # What phases have in common is widened once: 64 points of 16 bits, with 64 registers, spilled 2.9 KB a thread (524288 by 8 blocks, 32.7 us).
    return s if points * each <= most_bits(threads) and (threads <= THREADS // 2 or points <= _POINTS) else None


def _gathering(c: RowKernel, vector: int, rows: int, bits: int) -> Rows | None:
    """The same of blocks of so many ``rows``, which put together what they write apart; a point takes ``bits``."""
    across = _gathering_threads(c)
    s = Rows(rows * across, across, vector, reciprocals=True, approximate=True, gathers=True)
    return s if s.chunks(c) * vector * bits <= HELD else None


def _portable_blocks(target: Target) -> int:
    return PORTABLE if target.capability >= 90 else 1


def _points_of_a_thread(c: RowKernel, target: Target, vector: int, ragged: bool, held: int, apart: int) -> int:
    """How many points of ``held`` bits a thread is to have at most.  ``apart``: bytes of the widest element that is written as it is not read, 0 if that is
    little."""
    if apart:
        return min(_POINTS, HELD // held)
    fewer_threads = c.count * c.width >= _MUCH or (not c.scans and (c.phases > _PHASES or _are_few(c, target)))
    points = max(vector, min(_POINTS if fewer_threads else _POINTS // 2, HELD // held))
    return points // 2 if ragged and held > 16 and c.width <= _RAGGED_SHORT and points == _POINTS else points


def _threads_of_a_row(c: RowKernel, target: Target, vector: int, ragged: bool, held: int, apart: int, points: int) -> tuple[int, int]:
    """Threads of a block and blocks of a cluster that have a row together, if each thread has about so many ``points``; the rest as above."""
    vectors, most = ceil((c.width + (vector - 1) * ragged) / vector), _portable_blocks(target)
    across = max(next_power_of_two(ceil(c.width / points)), min(apart or _NEIGHBOURS, next_power_of_two(vectors)))
    if vector == 1 and not ragged and not apart and widest(c) in (2, 4):
        across = max(across, min(32, next_power_of_two(ceil(c.width / _BY_ITSELF))))
    if vector == 1 and c.width == _TRIPLE and not (ragged or apart or c.scans) and c.count >= _MANY_TRIPLES:
        across = 1
    if ragged and across > _RAGGED_THREADS and c.width <= _RAGGED_HELD * _RAGGED_THREADS:
        return _RAGGED_THREADS, 1
    if ragged and 512 < across <= _RAGGED_THREADS * most:
        return _RAGGED_THREADS, across // _RAGGED_THREADS
    if across <= 512:
        return across, 1
    cluster = next_power_of_two(ceil(c.width / (points * 512)))
    if cluster > most or held * points > HELD:
        return THREADS, min(most, next_power_of_two(ceil(c.width / (min(points, HELD_BY_MANY // held) * THREADS))))
    return 512, cluster


def _of_many_rows(c: RowKernel, vector: int, vectors: int, threads: int, across: int) -> tuple[int, int, bool]:
    """Threads of a block and of a row of ``vectors`` where there are many rows, each of one block's, and whether they hold what they read as it was read."""
    normed = across <= (2 if c.phases < 3 else 4) * _NORMED and is_weighted(c)
    if across < _LONG <= c.width // 8 and vector >= 4 and reads_words(c):
        across = threads = _LONG
    if normed:
        across = min(across, _NORMED)
        threads = max(across, _NORMED)
    if is_plain(c) and vector * widest(c) >= 16 and vectors >= _NEIGHBOURS and c.width * widest(c) <= _BLOCK_ROWS:
        across = max(_NEIGHBOURS, next_power_of_two(ceil(vectors / _OWN_VECTORS)))
        if across > 32 and 8 * vectors < 7 * across * _OWN_VECTORS:
            across = 32
        threads = max(across, 64, across * last_power_of_two(_BLOCK_ROWS // (c.width * widest(c))))
        normed = False
    return threads, across, normed


def spread_few(c: RowKernel, target: Target, vector: int) -> Rows | None:
    """A schedule of as many blocks as clusters have for each of a few long rows, whose threads hold little; None for others."""
    if target.capability < 90 or c.width < _FEW_LONG or not _are_few(c, target):
        return None
    s = Rows(_FEW_THREADS, _FEW_THREADS, vector, PORTABLE, reciprocals=True, approximate=True, sends=True)
    points = s.chunks(c) * vector
    fits = points <= _POINTS and points * (max(c.held_bits(), 32 if vector == 1 else 8) + ceil(c.scanned_bits / vector)) <= HELD
    return s if fits and not gathering_rows(c) else None


def _are_few(c: RowKernel, target: Target) -> bool:
    """Whether each row could have the blocks of a cluster at once."""
    return c.count * PORTABLE <= target.multiprocessors


def gathering_rows(c: RowKernel) -> int:
    """Rows of a block that puts together what they write apart, where that is more than caches gather; 0 of others, and of those that are too long."""
    large = not c.varies and max((row_bytes(c, a) for a in written_apart(c)), default=0) > TRANSPOSED
    across = _gathering_threads(c)
    fitting = [n for n in _GATHERED if gathered_bytes(c, n) <= GATHERED_BYTES and n * across <= THREADS // 2] if large else []
    return fitting[0] if across <= _GATHERING_THREADS and fitting else 0


def _gathering_threads(c: RowKernel) -> int:
    """Threads of such a row."""
    points = min(_POINTS, HELD // max(8, c.held_bits()))
    return max(next_power_of_two(ceil(c.width / points)), min(_NEIGHBOURS, next_power_of_two(c.width // lanes(c))))

"""Cost model of rows that several blocks share: in the registers of 2 to 16 blocks, or in their shared memory.

The estimates are of whole kernels as they run, and choose between these; fusion compares others, which are what memory takes.

Registers are taken by the points of a thread, whatever their type (ptxas widens what it holds of 16 bits): up to 8, 16, 32 and 64 of them leave a
multiprocessor four, three, two and one block of 512 threads.  What blocks do between two meetings of a cluster others hide only in part, so a row's time counts
once for each wave of clusters.  Fitted to 935 times of 96 programs on an H200, rows of 42514 to 262144 points, 16 to 512 of them, in bf16 and float32 (17% off
each); what is then chosen takes 3% longer than the fastest, and what was chosen before took 39% (a norm of a norm of 113x92372 in float32 198 us and 45).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil

from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_schedule import Rows, most_bits, most_blocks, moved_bytes, narrowest
from inferno.schedule.rows.row_work import arithmetic
from inferno.target import Target, clusters_at_once

_LENGTHS = 1 << 15, 1 << 18  # points of a row that was timed, about
# Bytes of one tensor's rows in registers, beyond which what else is known of these holds (softmax of 2048x65536 in float32 281 us by four blocks, by eight
# 327).
_LARGE = 4e8
_CLUSTERS = 2, 4, 8, 16  # blocks; 16 are the most there can be
# Points that a thread can hold of blocks of so many threads: beyond, registers are spilled (a norm of a sum of 256x131072 in bf16 by two blocks of 512 threads
# 114 us, by four 55).
_POINTS = {512: 64, 1024: 32}
_REGISTERS = ((8, 32), (16, 40), (32, 64), (64, 128))  # of a thread that holds so many points
_KEEPING = 48  # and of one that keeps them in shared memory
_FILE, _RESIDENT, _SHARED, _RESERVED = 65536, 2048, 228 << 10, 2 << 10  # registers, threads and shared memory of a multiprocessor; what each block takes of it
_WHOLE = 16  # bytes that a thread reads at once
# Times the estimates of memory's time and of the arithmetic that blocks take which go over all rows, of which the longer counts (256x131072 in bf16, memory's
# 56 us and the arithmetic's 69: 108; 57 and 26: 56; in float32 111 and 91: 123).
_GOING, _COMPUTING = 1.05, 1.45


@dataclass(frozen=True)
class _Times:
    """Microseconds of a kernel and of a phase of a wave of rows; bytes of memory in a microsecond; of the arithmetic's estimate; how much longer reads of half
    the bytes take, as a power; and longer the arithmetic takes where a multiprocessor has one block, or two, and so many times that memory."""

    kernel: float
    phase: float
    rate: float
    arithmetic: float
    narrow: float
    few: tuple[float, float]
    waiting: float


_IN_REGISTERS = _Times(2.57, 0.64, 5.91e6, 0.61, 0.18, (0.21, 0.13), 0.7)
_IN_SHARED = _Times(3.0, 0.91, 7.0e6, 0.72, 0.41, (0.18, 0.0), 2.0)


def fastest(c: RowKernel, vector: int, others: Iterable[Rows], target: Target) -> Rows | None:
    """The schedule of several blocks that takes least, of those that have rows in registers and others; None if there is none."""
    possible = [s for s in (*_held(c, vector), *others) if 1 < s.cluster <= most_blocks(target)]
    return min(possible, key=lambda s: time(s, c, target), default=None)


def _held(c: RowKernel, vector: int) -> Iterator[Rows]:
    bits = max(c.held_bits(), 32 if vector == 1 else 8)
    for cluster, (threads, most) in product(_CLUSTERS, _POINTS.items()):
        s = Rows(threads, threads, vector, cluster, reciprocals=True, approximate=True, sends=True)
        points = s.chunks(c) * vector
        if points <= most and points * bits <= most_bits(threads) and s.vectors(c) >= threads * cluster:
            yield s


def is_long(c: RowKernel, target: Target) -> bool:
    """Whether rows are of a length, and as many, for which the estimates hold: fewer are all in work at once, and what they wait for is all that counts."""
    least, most = _LENGTHS
    return target.capability >= 90 and least <= c.width <= most and c.count * _CLUSTERS[-1] >= target.multiprocessors


def is_known(s: Rows, c: RowKernel) -> bool:
    """Whether a schedule of one tensor's rows is right as it is: those that are kept in shared memory, or held, where they are large."""
    return len(c.repeated()) <= 1 and (s.kept > 0 or moved_bytes(c) > _LARGE)


def brought_time(s: Rows, c: RowKernel, moving: float, target: Target) -> float:
    """Microseconds of blocks that go over all rows, of which memory takes ``moving``: 0 where that is all, for nothing else is faster then; endless where the
    next row is not brought in whole pieces, as many for each thread, or one block has a multiprocessor for itself (a norm of a sum of 113x92372 in float32 90
    us, held 43; a norm of a norm 198 and 45)."""
    whole = all(s.vector * a.element.width >= 8 * _WHOLE for a in c.repeated()) and c.width % (s.vector * s.across * s.cluster) == 0
    if not whole or s.resident < 2:
        return float("inf")
    computing = _COMPUTING * arithmetic(c, True, s.vector, target)
    return 0.0 if computing <= moving else max(_GOING * moving, computing)


def time(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds of a schedule of several blocks a row, that hold or keep all of it."""
    t = _IN_REGISTERS if s.held else _IN_SHARED
    resident = _resident(s, c)
    waves = c.count / (clusters_at_once(s.cluster, target.multiprocessors) * resident)
    uneven = ceil(waves) / waves if waves > 1 else 1.0
    rounds = ceil(waves) if waves <= 3 else waves + 0.5
    pieces = min(_WHOLE, s.vector * narrowest(c))
    memory = moved_bytes(c) / t.rate * (_WHOLE / pieces) ** t.narrow
    computing = t.arithmetic * arithmetic(c, not s.held, s.vector, target) * uneven**0.5
    longer = t.few[resident - 1] if resident <= len(t.few) else 0.0
    return t.kernel + memory * (1 + t.waiting * longer) + computing * (1 + longer) + t.phase * c.phases * rounds


def _resident(s: Rows, c: RowKernel) -> int:
    """Blocks of a multiprocessor at once."""
    points = s.chunks(c) * s.vector
    registers = next((n for most, n in _REGISTERS if points <= most), _REGISTERS[-1][1]) if s.held else _KEEPING
    room = [_FILE // (registers * s.threads), _RESIDENT // s.threads]
    return max(1, min(room if s.held else [*room, _SHARED // (s.kept_bytes(c) + _RESERVED)]))

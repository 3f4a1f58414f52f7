"""How long rows take that several blocks share, and the fastest way to have them: in registers of 2 to 16 blocks, or in their shared memory.

Registers are taken by the points of a thread, whatever their type (ptxas widens what it holds of 16 bits): up to 8, 16, 32 and 64 of them leave a
multiprocessor four, three, two and one block of 512 threads.  What blocks do between two meetings of a cluster others hide only in part, so a row's time counts
once for each wave of clusters.  Fitted to 935 times of 96 programs on an H200, rows of 42514 to 262144 points, 16 to 512 of them, in bf16 and float32 (17% off
each); what is then chosen takes 4% longer than the fastest, and what was chosen before took 39% (a norm of a norm of 113x92372 in float32 198 us and 45).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil

from inferno.schedule.cost import clusters_at_once
from inferno.schedule.row_kernel import RowKernel
from inferno.schedule.row_schedule import Rows, moved_bytes, narrowest
from inferno.schedule.row_work import arithmetic
from inferno.target import Target

LEAST = 1 << 15  # points of a row
_CLUSTERS, _PORTABLE, _THREADS = (2, 4, 8, 16), 8, (512, 1024)
# Points that a thread can hold of blocks of up to 512 threads, and of more: beyond, registers are spilled (a norm of a sum of 256x131072 in bf16 by two blocks of
# 512 threads 114 us, by four 55).
_POINTS = {512: 64, 1024: 32}
_HELD_BITS = 512 * 64 * 32  # of a block, as of shorter rows
_REGISTERS = ((8, 32), (16, 40), (32, 64), (64, 128))  # of a thread that holds so many points
_KEEPING = 48  # and of one that keeps them in shared memory
_FILE, _RESIDENT, _SHARED, _RESERVED = 65536, 2048, 228 << 10, 2 << 10  # registers, threads and shared memory of a multiprocessor; what each block takes of it
_WHOLE = 16  # bytes that a thread reads at once
# Of memory's time what arithmetic may take where blocks go over all rows, which share it with the copies of the next one: norms whose is up to 0.6 of it took
# 25 and 48 us so and 31 and 53 held, others 118 and 60.
_BESIDE = 0.6


@dataclass(frozen=True)
class _Times:
    """Microseconds of a kernel and of a phase of a wave of rows; bytes of memory in a microsecond; of the arithmetic's estimate; how much longer reads of half
    the bytes take, as a power; and longer where one block has a multiprocessor for itself."""

    kernel: float
    phase: float
    rate: float
    arithmetic: float
    narrow: float
    alone: float


_HELD = _Times(2.59, 0.63, 5.78e6, 0.66, 0.18, 0.13)
_KEPT = _Times(3.0, 0.91, 6.98e6, 0.67, 0.41, 0.23)


def held(c: RowKernel, vector: int, ragged: bool) -> Iterator[Rows]:
    """Schedules that have rows in the registers of several blocks."""
    bits = max(c.held_bits(), 32 if vector == 1 else 8)
    for cluster, threads in product(_CLUSTERS, _THREADS):
        s = Rows(threads, threads, vector, cluster, ragged=ragged, packed=ragged, reciprocals=True, approximate=True, sends=True)
        points = s.chunks(c) * vector
        if points <= _POINTS[threads] and points * bits * threads <= _HELD_BITS and s.vectors(c) >= threads * cluster:
            yield s


def fastest(c: RowKernel, found: Iterable[Rows], target: Target) -> Rows | None:
    """The schedule of several blocks that takes least; None if there is none."""
    possible = [s for s in found if s.cluster > 1 and (s.cluster <= _PORTABLE or target.hopper)]
    return min(possible, key=lambda s: time(s, c, target), default=None)


def is_brought_well(s: Rows, c: RowKernel, moving: float, target: Target) -> bool:
    """Whether blocks that go over all rows have the next one brought in whole pieces, several of them a multiprocessor, and little to compute meanwhile
    (pieces of 8 bytes: a norm of a sum of 113x92372 in float32 90 us, held 43)."""
    whole = all(s.vector * a.element.width >= 8 * _WHOLE for a in c.repeated())
    return whole and s.resident > 1 and arithmetic(c, True, s.vector, target) <= _BESIDE * moving


def time(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds of a schedule of several blocks a row, that hold or keep all of it."""
    t = _HELD if s.held else _KEPT
    resident = _resident(s, c)
    waves = c.count / (clusters_at_once(s.cluster, target.multiprocessors) * resident)
    uneven = ceil(waves) / waves if waves > 1 else 1.0
    rounds = ceil(waves) if waves <= 3 else waves + 0.5
    pieces = min(_WHOLE, s.vector * narrowest(c))
    memory = moved_bytes(c) / t.rate * (_WHOLE / pieces) ** t.narrow
    computing = t.arithmetic * arithmetic(c, s.packed or not s.held, s.vector, target) * uneven**0.5
    return t.kernel + (memory + computing) * (1 + t.alone / resident**2) + t.phase * c.phases * rounds


def _resident(s: Rows, c: RowKernel) -> int:
    """Blocks of a multiprocessor at once."""
    points = s.chunks(c) * s.vector
    registers = next((n for most, n in _REGISTERS if points <= most), _REGISTERS[-1][1]) if s.held else _KEEPING
    room = [_FILE // (registers * s.threads), _RESIDENT // s.threads]
    return max(1, min(room if s.held else [*room, _SHARED // (s.kept_bytes(c) + _RESERVED)]))

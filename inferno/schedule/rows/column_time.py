"""The cost model of ``columns``: instructions of its threads, latency of what a thread does in sequence, and reductions across threads.

Its numbers are those that an H100 took for 150 schedules of nine kernels of 4K to 20M points: softmax along the channels of 1x19x256x512 and 2x80x32x32
in float32 and of 1x21x512x512 and 8x150x128x128 in bf16, a layer norm over those of 1x96x56x56, instance norms of 1x128x32x32, in bf16 and of
4x256x16x16 in bf16 too, and of 1x32x128.  It says them within 7 % on the average, and of those that were timed it chooses ones within 8 % of the fastest:
6.5, 2.7, 12.1 and 37.6 us, 2.5, and 4.0, 3.8, 2.5 and 1.9 (by the rows' length alone 7.7, 4.0, 12.6 and 37.7, 2.6, and 4.1, 3.8, 4.3 and 3.1).
"""

from dataclasses import dataclass
from math import ceil, log2

# All fitted to those 150 times.  Microseconds of a kernel that does nothing.
_LAUNCH = 1.53
# Microseconds of a multiprocessor's warps, a lane of their vectors: of what each thread does once, of each of its points, and of a shuffle, by which
# fewer vectors side by side than a warp has threads bring their rows together.
_ONCE, _POINT, _SHUFFLE = 0.0019, 0.0035, 0.00132
# Of a thread's instructions one after the other, of one more turn, of a warp that leaves what it has, and of a block beyond those that are there at once.
_INSTRUCTION, _TURN, _WARP, _BLOCK = 0.001, 0.143, 0.052, 0.032
_AT_ONCE = 32  # blocks of a multiprocessor
_CLUSTER, _CLUSTERED = 1.28, 0.21  # of a cluster's barriers, and of each of a multiprocessor's blocks that waits for others
# Of a megabyte: from the L2 cache, of pieces of no whole 64 bytes, of the last blocks that do not fill the GPU, and of rows written in parts of sectors.
_MOVED, _NARROW, _TAIL, _PARTS = 0.084, 0.085, 0.068, 0.33
_PIECE, _SECTOR = 64, 32  # bytes that are fetched together, and of a sector
_WARPS, _REGISTERS = 64, 2048  # warps of a multiprocessor, and its registers by warps' lanes
_OWN, _LANE = 32, 2  # registers of a thread: its own, and those of each point's lane


@dataclass(frozen=True)
class Work:
    """A kernel: so many vectors of ``lanes`` rows of ``width`` points, of ``megabytes`` and ``instructions`` a point; ``read`` bytes of the narrowest point are
    read and ``written`` where rows are one behind the other, 0 where none are."""

    vectors: int
    lanes: int
    width: int
    megabytes: float
    instructions: int
    read: int
    written: int
    multiprocessors: int


def time(k: Work, threads: int, across: int, cluster: int, unroll: int, run: int, shared: int) -> float:
    """Microseconds; ``shared``: bytes that a block keeps."""
    warps, along = threads / 32, threads // across
    blocks = ceil(k.vectors / across) * cluster
    each = max(1.0, blocks / k.multiprocessors)
    turns = ceil(k.width / (along * cluster * unroll))
    points = turns * unroll * k.lanes
    busy = each * warps * (k.lanes * (_ONCE + _SHUFFLE * log2(32 / min(32, across))) + _POINT * points)
    chain = _INSTRUCTION * points * k.instructions + _TURN * (turns - 1) + (_WARP * warps if along * cluster > 1 else 0.0) + _BLOCK * max(0.0, each - _AT_ONCE)
    together = _CLUSTER + _CLUSTERED * each if cluster > 1 else 0.0
    resident = min(_WARPS, _AT_ONCE * warps, _REGISTERS / (_OWN + _LANE * unroll * k.lanes), max(1, 220_000 // max(1, shared)) * warps)
    waves = max(1.0, each * warps / resident)
    slow = _NARROW * (1 - min(1.0, across * k.lanes * k.read / _PIECE)) + _TAIL * (ceil(waves) / waves - 1)
    if k.written:
        slow += _PARTS * (max(1.0, _SECTOR / (max(1, 32 // across) * run * k.written)) - 1)
    return _LAUNCH + busy + chain + together + k.megabytes * (_MOVED + slow)

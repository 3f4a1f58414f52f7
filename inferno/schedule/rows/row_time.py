"""The cost model of ``rows``: what memory takes, by how often rows are read and by how many blocks, reductions of rows, and arithmetic."""

from math import ceil

from inferno.element_sizes import element_bytes
from inferno.mlir import ir
from inferno.schedule.rows.gathered_results import written_apart
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_maxima import online_sums
from inferno.schedule.rows.row_schedule import Rows, moved_bytes, narrowest, row_bytes
from inferno.schedule.rows.row_work import arithmetic
from inferno.target import SECTOR, Target, clusters_at_once

# Bytes a microsecond: of a multiprocessor, of a GPU's memory for each of its multiprocessors, and of its L2 cache.
_ONE, _SHARE, _CACHE = 6e4, 3e4, 5.5e6
_STAYS = 3e7  # bytes of the rows, as float32, that blocks have at one time, fewer of which are still in the L2 cache when they are read again
# Of that rate: rows of clusters (on an H200 softmax of 2048x65536 in bf16 took 138 us, of 1024x131072 155, of 4096x32768 in single blocks 135), and rows
# of which a part is read again (LayerNorm of 128x1M 222, log_softmax 210).
_IN_CLUSTERS, _IN_PART = 0.93, 0.58
_SHARED_OUT, _ALONE = 0.93, 0.77  # of clusters of 16 that go over all rows, several a multiprocessor and one
# And of those beside two weights or more, or one of 16 bits, which every row reads from L2: of 256x256K in float32 LayerNorm took 173 us, RMSNorm 142; of 64x1M
# 224 and 172; RMSNorm of 512x256K in bf16 184, softmax 149.
_BESIDE_WEIGHTS = 0.8
# Microseconds of a sector that is written in part: of the L2 cache, and of a multiprocessor (on an H100 by a row a warp 673x1984 in bf16 took 28.9 us,
# 2022x320 in float32 12.4, 512x512 in bf16 6.8, 4x8512 9.1 by 8 blocks).
PART_OF_SECTOR, _PART_OF_BLOCK = 1 / 55e3, 1 / 600
_LAUNCH, _LEVEL = 1.0, 0.25  # microseconds, of a kernel and of a reduction that others wait for
# Microseconds until a vector is there whose place is chosen by a branch, and threads of a multiprocessor that wait at the same time: two rolls of 47040 points
# in bf16 with the mean of their squares took an H200 6.5 us by 8 blocks whose threads have 12 vectors each.  Of two branches inside of each other ptxas makes
# conditions of loads: sums of 511 rows of 1000, of halves that are put together anew, took 2.0 us by 16 single points a thread.
_CHOSEN, _THREADS_AT_ONCE, _ASKED = 0.4, 1024, 2


def computes_again(s: Rows) -> bool:
    """Whether a phase computes anew what those in front of it have made."""
    return s.packed or not s.held


def estimate(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds: what memory takes, or the arithmetic of as many multiprocessors as there are blocks, whichever is longer."""
    c = c.in_example()
    idle = max(1.0, target.multiprocessors / s.blocks(c))
    return max(memory_time(s, c, target), idle * arithmetic(c, computes_again(s), s.vector, target), _choosing(s, c, target)) + _gathering(s, c, target)


def _choosing(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds of threads that wait for each vector that they choose by branches inside of branches: what follows is not asked for before it is there,
    while of few pieces each is asked for by whoever wants it."""
    if not any(step.chooses_by(c.columns) and _depth(step.generic) > _ASKED for step in c.choosing):
        return 0.0
    waves = ceil(s.blocks(c) * s.threads / (_THREADS_AT_ONCE * target.multiprocessors))
    return _LAUNCH + _LEVEL * (c.phases - 1) * (2 if s.cluster > 1 else 1) + _CHOSEN * s.chunks(c) * waves


def _depth(op: ir.Operation) -> int:
    """Branches inside of each other."""
    inside = max((_depth(view.operation) for region in op.regions for block in region.blocks for view in block.operations), default=0)
    return inside + (op.name == "scf.if")


def _gathering(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds until caches have put together what is written apart: a warp that has several rows writes their neighbours together."""
    if s.gathers:
        return 0.0
    parts = sum(c.count * c.width / max(1, min(32 // s.across, SECTOR // element_bytes(a.element))) for a in written_apart(c))
    return parts * max(PART_OF_SECTOR, _PART_OF_BLOCK / min(s.blocks(c), target.multiprocessors))


def memory_time(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds that memory and the row's reductions take."""
    if s.persistent:
        weighed = _BESIDE_WEIGHTS if len(c.common()) > (narrowest(c) > 2) and not s.common else 1.0
        return estimated(c, s.blocks(c), s.cluster, 0, weighed * (_SHARED_OUT if s.resident > 1 else _ALONE), target)
    if s.held or s.kept:
        whole = s.held or s.kept >= s.rounds(c)
        share = _IN_CLUSTERS if s.cluster > 1 and whole else _IN_PART if not whole else 1.0
        waves = 1.0
        if not whole:  # one cluster a group of multiprocessors, and the last ones leave most of them without work
            at_once = clusters_at_once(s.cluster, target.multiprocessors)
            waves = ceil(c.count / at_once) / max(1.0, c.count / at_once)
        return estimated(c, s.blocks(c), s.cluster, 0, share / waves, target)
    taken = online_sums(c) if s.online else {}
    every = [a for p in range(c.phases) if p - 1 not in taken for a in c.needed(p)[0]]
    again = sum(map(lambda a: row_bytes(c, a), every)) - sum(row_bytes(c, a) for a in set(every))
    return estimated(c, s.blocks(c), s.cluster, again, 1.0, target)


def estimated(c: RowKernel, blocks: int, cluster: int, again: int, share: float, target: Target, beside: bool = False) -> float:
    """Microseconds of so many blocks that read ``again`` bytes once more, at a share of the rate of a copy; ``beside``: rows are read side by side."""
    moved = moved_bytes(c, beside)
    at_once = min(blocks, (clusters_at_once(cluster, target.multiprocessors) * cluster if cluster > 1 else target.multiprocessors))
    in_cache = again and c.width * 4 * at_once / cluster < _STAYS
    rate = share * min(_SHARE * target.multiprocessors, _ONE * at_once)
    return _LAUNCH + _LEVEL * (c.phases - 1) * (2 if cluster > 1 else 1) + moved / rate + max(0, again) / (min(_CACHE, _ONE * at_once) if in_cache else rate)

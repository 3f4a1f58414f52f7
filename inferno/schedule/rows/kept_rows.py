"""Schedules of rows that registers do not hold: shared memory keeps them, for which the next one is brought meanwhile, or they are gone over once."""

from dataclasses import replace
from math import ceil

from inferno.powers import next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.held_rows import RAGGED_BLOCK
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_lanes import leading
from inferno.schedule.rows.row_maxima import online_sums
from inferno.schedule.rows.row_schedule import PORTABLE, THREADS, Rows, narrowest
from inferno.target import RESERVED_SHARED, Target, clusters_at_once

KEPT_BLOCK, _SHARED = 66_000, 220_000  # bytes that a block keeps: three are on a multiprocessor at once; and that it can keep
# Where only totals are written and sums can be taken with the largest point: bytes of a row from which that is done, and rows, of which fewer are
# several blocks each.  Cross entropy of 16384x8192 in bf16 took 69 us with 64 threads and 8 vectors at once, 73 with 128, 80 held; of 2048x65536 68
# with 128 and with 256, 79 held; of 4096x16384 in float32 65 with 256, 66 with 128; of 2671x50257 in bf16 75 with 256 and 4 vectors, 93 held.
_ONLINE, _ONLINE_ROWS = 1 << 14, 512
# Blocks of large clusters, and how many blocks share a multiprocessor.  On an H200 softmax of 256x262144 in float32 took 144 us with 16 blocks, three a
# multiprocessor, and 173 held by 8 of 1024 threads, RMSNorm 142 and 155, of 512x131072 138 with 8 and 146 held, softmax of 512x262144 in bf16 153
# with 8 and 160 with 16.  What no 16 hold three times: softmax of 64x1M in float32 167 and 212, of 128x1M in bf16 164 and 194 with 512 threads; with 1024
# RMSNorm of 64x1M 171 and LayerNorm 219, which took 199 as three kernels and 247.
_LARGEST, _CLUSTERS = 16, ((8, 3), (16, 3), (16, 2), (16, 1))
_FEW = 300_000  # bytes of a row up to which that saves little: RMSNorm of 1024x65536 took 143 us held, and 141 with clusters of 4 that go over all rows
# Bytes of shared memory: of a multiprocessor, and the most that a block has.
_MULTIPROCESSOR, _MOST = 228 << 10, 227 << 10
_COPIES = (4, 8, 16)  # bytes that a thread's copy to shared memory can have
_UNEVEN = 1.5  # times: rows that clusters have time for beside those that there are (two norms of 15x25908 by 14 clusters took an H100 32.6 us)


def keep(c: RowKernel, target: Target, vector: int, ragged: bool) -> Rows | None:
    """A schedule that keeps what it reads in shared memory, or as much as fits; None if nothing is read twice."""
    point = sum(a.element.width // 8 for a in c.repeated())
    if not point or target.capability < 90:
        return None
    block, threads = (RAGGED_BLOCK * point, 256) if ragged else (KEPT_BLOCK, 512)
    cluster = min(PORTABLE, next_power_of_two(ceil(c.width * point / block)))
    unroll = 2
    if c.width * point > cluster * 2 * KEPT_BLOCK:
        threads, unroll = THREADS, 4
    s = Rows(threads, threads, vector, cluster, held=False, unroll=unroll, kept=1, reciprocals=True, approximate=True, ragged=ragged)
    s = replace(s, sends=s.cluster > 1)
    if s.kept_bytes(c) > _SHARED:
        return None
    s = replace(s, kept=min(s.rounds(c), _SHARED // s.kept_bytes(c)))
    # Softmax of 128x1M in bf16, of which a part is read again, took 197 us instead of 215 with sums that are taken with the largest point.
    return replace(s, online=s.kept < s.rounds(c) and bool(online_sums(c)))


def bring(c: RowKernel, target: Target, vector: int) -> Rows | None:
    """A schedule of large clusters that go over all rows: those of 8 blocks if three fit a multiprocessor at once, or those of 16.  None for few rows, where
    they cannot, and for those that are read with more weights than points unless fewer blocks hold them just so."""
    if target.capability < 90 or c.width * sum(a.element.width // 8 for a in c.repeated()) <= _FEW:
        return None
    online = bool(online_sums(c))
    weights = len(c.common()) > len(c.repeated())
    for cluster, resident in _CLUSTERS:
        at_once = clusters_at_once(cluster, target.multiprocessors)
        if c.count < 2 * at_once or (cluster < _LARGEST and weights):
            continue
        if -c.count % (at_once * resident) > (_UNEVEN - 1) * c.count:
            return None
        threads = 256 if resident > 1 else 512 if online else 1024
        unroll = max(2, 16 // vector) if threads < 1024 else 2
        s = Rows(threads, threads, vector, cluster, held=False, unroll=unroll, kept=1, reciprocals=True, approximate=True, sends=True, online=online)
        left = min(_MOST, _MULTIPROCESSOR // resident - RESERVED_SHARED) - s.exchanged_bytes(c)
        s = replace(s, kept=min(s.rounds(c), left // s.kept_bytes(c)), persistent=min(c.count, at_once * resident), resident=resident)
        if s.kept == s.rounds(c) or (cluster, resident) == _CLUSTERS[-1]:
            return s if can_persist(s, c) else None
    return None


def go_once(c: RowKernel, vector: int, ragged: bool) -> Rows | None:
    """A schedule that reads rows once and keeps nothing of them; None if there is more to be done than sums of what is below the largest point."""
    if c.width * narrowest(c) < _ONLINE or c.count < _ONLINE_ROWS or any(c.wide(d.access) for d in c.destinations):
        return None
    sums = online_sums(c)
    if any(phase - 1 not in sums and c.needed(phase)[0] for phase in range(1, c.phases)):
        return None
    threads, unroll = min(256, 64 * next_power_of_two(c.width * narrowest(c) // _ONLINE)), 4 if ragged else 8
    return Rows(threads, threads, vector, held=False, unroll=unroll, reciprocals=True, approximate=True, ragged=ragged, online=True) if sums else None


def turning_phases(s: Rows, c: RowKernel) -> list[int]:
    """The phases that go over a row's points."""
    taken = [p + 1 for p in online_sums(c)] if s.online and not s.held else []
    stored = {c.computed(d.source) for d in c.destinations if not c.values[d.source].per_row}
    return [p for p in range(c.phases) if p not in taken and (p in stored or any(step.reduces and step.phase == p for step in c.steps))]


def can_persist(s: Rows, c: RowKernel) -> bool:
    """Whether blocks can go over all rows and have what they keep of the next one brought: whole vectors of 4, 8 or 16 bytes that lie together and
    are aligned, of rows that several phases go over."""
    if s.held or not s.kept or c.in_pieces or s.threads != s.across or s.persistent > c.count or (s.cluster > 1 and not s.sends):
        return False
    if len(turning_phases(s, c)) < 2:
        return False
    lead = leading(c)
    if s.common and s.ragged and (len(c.rows) != 1 or s.persistent * lead.strides[c.rows[0]] % s.vector):
        return False  # a thread has other points of its next row

    def whole(a: Access) -> bool:
        piece = min(s.vector, 128 // a.element.width)
        begins = [a.offset, *(a.strides[d] for d in c.rows)]
        if s.ragged:
            begins = [(x - y) % s.vector for x, y in zip(begins, [lead.offset, *(lead.strides[d] for d in c.rows)])]
        return piece * a.element.width // 8 in _COPIES and a.strides[c.runs[0][-1]] == 1 and all(x % piece == 0 for x in begins)

    return len(c.runs) == 1 and bool(c.repeated()) and all(whole(a) for a in (c.repeated() if s.ragged else s.keeps(c)))

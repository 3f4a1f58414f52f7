"""The schedule of kernels in which all blocks that run at once have a part of each row: rows that are too long for a cluster of blocks."""

from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.passes.programs import has_few_multiprocessors, takes_unmeasured
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows import rows
from inferno.schedule.rows.gathered_results import written_apart
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_lanes import can_be_ragged, leading, lanes, most_lanes
from inferno.schedule.rows.row_maxima import online_sums
from inferno.schedule.rows.row_schedule import row_bytes
from inferno.schedule.rows.row_time import estimated
from inferno.target import WARP, Target

_LINE = 128  # bytes: a block's part of a row is whole lines
_ALIGNED = (4, 8, 16)  # bytes that a thread's copy to shared memory can have
_SHARED, _LEFT = 223 << 10, 4 << 10  # bytes of a block for the rows that are on their way, and for what threads leave each other
_LONG = 1 << 16  # points of a row, up to which rows are those of a block or of a small cluster
# Points of rows, and rows, from which these were timed.  On an H200, us in clusters and so: softmax of 64x1M in float32 169 and 147, of 128x512K 177 and 143,
# of 24x1M 74 and 63, of 8x1M 33 and 30, of 64 rows of 1M + 1 208 and 165, of 128x1M in bf16 165 and 164; log_softmax 168 and 141, in bf16 158 and 154; RMSNorm
# of 64x1M 171 and 140, of 128x1M in bf16 173 and 140; LayerNorm 221 and 150, in bf16 226 and 182, of 256x256K 171 and 147, of 512x128K 157 and 148, of 8x1M
# 41 and 32.  Slower, and estimated so: softmax of 512x128K, 143 and 149, of 512x256K in bf16, 150 and 156.
_TIMED, _TIMED_ROWS = 1 << 17, 8
# Points from which rows of float32 that begin anywhere beside weights were timed, and were faster so: RMSNorm of 2236x30003 took an H200 166 us in clusters and
# 152 so, of 1336x50257 154 and 144, LayerNorm 218 and 165, 219 and 162, but of 3355x20011 156 and 167; in bf16 of 2671x50257 160 and 165, 199 and 216.
_WEIGHED = 24_576
# Few rows, whose tensors the L2 cache keeps (bytes), are estimated by themselves: microseconds of a kernel, of a reduction that blocks wait for, of a phase and
# of a group of blocks beside others, and bytes of a microsecond.  On an H200, us in clusters or several kernels and so: softmax of 1x128K in float32 4.7 and
# 3.9, of 4x256K 7.8 and 6.4, 4x512K 12.4 and 7.8, 1x1M 10.9 and 7.1; in bf16 of 1x256K 6.0 and 4.4, 4x512K 9.8 and 7.0, 4x1M 15.2 and 9.0; LayerNorm of 1x512K
# 8.5 and 6.9, in bf16 7.1 and 6.3, of 4x512K 14.3 and 8.2.  Slower, and estimated so: softmax of 4x128K in float32, 4.9 and 5.4, LayerNorm of 1x128K in bf16,
# 4.8 and 5.4, RMSNorm of 2x512K in float32, 5.3 and 6.4.  Of 99 cases it is chosen for 41, none slower; 15 more would gain 3%.  (LayerNorms of one row take
# less by one read for both sums and a map: ``fuse_reductions``.)
_FEW, _IN_CACHE = 8, 40e6
_FEW_LAUNCH, _FEW_LEVEL, _FEW_PHASE, _FEW_GROUP, _FEW_RATE = 1.7, 1.3, 0.5, 0.35, 4.1e6
# What such rows take in clusters: of a kernel, and of a point of 8 blocks and a byte of it.  (Softmax of 64K to 1M in bf16 took 3.5, 4.2, 6.0, 9.5 and 15.)
_CLUSTER, _POINT, _BYTE = 2.5, 0.8e-5, 0.3e-5
FASTER = 0.95  # of what others are estimated, with which few rows are worth while
_THREADS, _FEWEST = 704, 128  # of a block, without the warps that combine; at most and at least
_VECTORS, _HELD = 4, 48  # of a thread at most: vectors, and points with the weights that registers hold beside them
_LAG, _AHEAD = 2, 4  # rows: the usual lag, and the most that are ahead
_WORDS = 1 << 21  # of all rows
# Microseconds: of two kernels, and until all blocks have what all left of a row, while memory is busy.  On an H200 softmax of 64x1M in float32 took 305 us with
# two rows between a reduction and what follows from it, 183 with three and 148 with four, of 128x1M in bf16 257, 168 (two groups), 191 (one, four rows).
_LAUNCH, _LATENCY, _LEAST = 4.0, 5.0, 1.2  # the last one of a turn
_SHARE = 0.98  # of a copy's rate


@dataclass(frozen=True)
class GridRows:
    """``share`` blocks have a row, each a run of neighbouring points, and ``groups`` of so many blocks have every so many rows.  In a block ``threads`` go over
    points, each over ``chunks`` vectors of ``vector`` neighbours; other warps bring blocks' parts of reductions together.  ``ahead`` rows are on their way to
    shared memory, and what follows from a reduction is done ``lag`` rows later.  Sums of exponentials below a row's largest point are taken with it, relative
    to a warp's and then a block's largest.  ``ragged``: vectors lie as memory does, and rows begin anywhere in them."""

    generator: ClassVar[str] = "grid_rows"

    threads: int
    vector: int
    share: int
    groups: int = 1
    ahead: int = 3
    lag: int = _LAG
    ragged: bool = False

    def vectors(self, c: RowKernel) -> int:
        """Of a row; the first and the last may be another row's in part."""
        return ceil((c.width + (self.vector - 1) * self.ragged) / self.vector)

    def line(self, c: RowKernel) -> int:
        """Vectors of a line, which are one block's."""
        return max(1, _LINE // (self.vector * narrowest(c)))

    def lines(self, c: RowKernel) -> int:
        """Of a row; the last one may be a part of one."""
        return ceil(self.vectors(c) / self.line(c))

    def per_block(self, c: RowKernel) -> int:
        """Vectors of a row that a block has at most; others have a line less."""
        return ceil(self.lines(c) / self.share) * self.line(c)

    def least(self, c: RowKernel) -> int:
        """And that each has whole."""
        return (self.lines(c) // self.share - 1) * self.line(c) + (self.vectors(c) - 1) % self.line(c) + 1 - 2 * self.ragged

    def chunks(self, c: RowKernel) -> int:
        """Vectors of a thread."""
        return ceil(self.per_block(c) / self.threads)

    def stages(self, c: RowKernel) -> list[int]:
        """The phases that go over a row's points, one behind the other."""
        taken = [p + 1 for p in online_sums(c)]
        stored = {c.computed(d.source) for d in c.destinations if not c.values[d.source].per_row}
        return [p for p in range(c.phases) if p not in taken and (p in stored or any(s.reduces and s.phase == p for s in c.steps))]

    def slots(self, stages: int) -> int:
        """Rows that a block has in shared memory at once."""
        return (stages - 1) * self.lag + self.ahead

    def row_bytes(self, c: RowKernel) -> int:
        """Shared memory of a block for a row."""
        return sum(self.chunks(c) * self.threads * 16 * ceil(self.vector * a.element.width / 128) for a in brought(c))

    def blocks(self) -> int:
        return self.share * self.groups

    def all_threads(self, stages: int) -> int:
        """With a warp for each reduction that brings together the block's parts, and one that brings together all blocks'."""
        return self.threads + 2 * WARP * (stages - 1)

    def words(self, c: RowKernel) -> int:
        """Of 32 bits, of what a block leaves of each row."""
        return sum(2 if k.total.width == 64 else 1 for s in c.steps for k in s.combiners if k is not None)

    def fits(self, c: RowKernel, target: Target) -> bool:
        stages = self.stages(c)
        if not self.ragged and c.width % self.vector:
            return False
        if self.threads % WARP or self.lag < 2 or self.ahead < 1 or self.blocks() > target.multiprocessors or not 1 <= self.share <= self.lines(c) or c.varies:
            return False
        if len(stages) < 2 or stages[-1] != c.phases - 1 or self.groups > c.count or self.all_threads(len(stages)) > 1024:
            return False
        if self.words(c) * c.count * self.share > _WORDS or not can_be_brought(c, self.vector, self.ragged):
            return False
        if self.ragged and kept(c) and self.groups % period(c, self.vector):
            return False  # weights would lie otherwise in the next row
        left = sum(k is not None for s in c.steps for k in s.combiners) * 8 * (2 * self.threads // WARP + self.slots(len(stages)))
        return left <= _LEFT and self.slots(len(stages)) * self.row_bytes(c) <= _SHARED


def brought(c: RowKernel) -> list[Access]:
    """What is read of each point and differs between rows."""
    return [a for a in dict.fromkeys(a for s in c.steps for a in s.extras) if c.wide(a) and any(a.strides[d] for d in c.rows)] or c.repeated()


def kept(c: RowKernel) -> list[Access]:
    """What is read of each point and is the same for all rows, as weights are."""
    return [a for a in dict.fromkeys(a for s in c.steps for a in s.extras) if c.wide(a) and a not in brought(c)]


def can_be_brought(c: RowKernel, vector: int, ragged: bool) -> bool:
    """Whether rows are runs of neighbours, and copies of a thread's vectors can have whole pieces of them."""

    def whole(a: Access) -> bool:
        piece = min(vector, 128 // max(8, a.element.width))
        begins = [a.offset, *(a.strides[d] for d in c.rows)]
        if ragged:
            lead = leading(c)
            begins = [(x - y) % vector for x, y in zip(begins, [lead.offset, *(lead.strides[d] for d in c.rows)])]
        aligned = all(x % piece == 0 for x in begins)
        return a.element.width >= 8 and piece * a.element.width // 8 in _ALIGNED and a.strides[c.runs[0][-1]] == 1 and aligned

    if len(c.runs) != 1 or not brought(c) or (ragged and not can_be_ragged(c, vector)):
        return False
    return all(whole(a) for a in brought(c)) and all(a.strides[c.runs[0][-1]] == 1 for a in kept(c))


def period(c: RowKernel, vector: int) -> int:
    """Rows after which one begins at the same place in a vector."""
    lead = leading(c)
    return vector // gcd(vector, *(lead.strides[d] for d in c.rows))


def narrowest(c: RowKernel) -> int:
    """Bytes of the narrowest element of a point that differs between rows."""
    return min(element_bytes(a.element) for a in brought(c))


def choose(kernel: func.FuncOp, target: Target) -> GridRows | None:
    """A schedule for long rows, where that is expected to be faster than what ``rows`` has."""
    c = read(kernel, target)
    return pick(c, target) if c is not None else None


def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if this generator is to take it."""
    if has_few_multiprocessors(kernel.operation) or target.capability < 90:
        return None
    c = rows.read(kernel, target)
    if c is None or c.varies or c.in_pieces or c.scans or written_apart(c) or not (_is_timed(c) or (c.width >= _LONG and takes_unmeasured(kernel.operation))):
        return None
    s = pick(c, target)
    return c if s is not None and _is_faster(s, c, target) else None


def _is_faster(s: GridRows, c: RowKernel, target: Target) -> bool:
    """Whether that is expected of it, beside blocks that have rows of their own."""
    other = rows.pick(c, target)
    if not is_few(c):
        return (_is_weighed(c) and c.width < _TIMED) or estimate(s, c, target) < rows.estimate(other, c, target)
    apart = _POINT + _BYTE * narrowest(c)
    return not s.ragged and estimate(s, c, target) < FASTER * (_CLUSTER + apart * c.width * 8 / other.cluster)


def is_few(c: RowKernel) -> bool:
    """Whether rows are so few that what they wait for takes longer than memory."""
    return isinstance(c.count, int) and c.count <= _FEW and _moved(c) <= _IN_CACHE


def _moved(c: RowKernel) -> int:
    """Bytes of all that is read and written."""
    moved = [*brought(c), *(d.access for d in c.destinations)]
    return sum(row_bytes(c, a) for a in moved) + sum(c.width * element_bytes(a.element) for a in kept(c))


def _is_timed(c: RowKernel) -> bool:
    """Whether rows like these were timed, of which the estimates chose the faster one: one tensor of floats, beside weights or alone."""
    points = brought(c)
    long = c.width >= (_WEIGHED if _is_weighed(c) and not is_few(c) else _TIMED)
    return long and (c.count >= _TIMED_ROWS or is_few(c)) and len(points) == 1 and str(points[0].element) in ("f32", "bf16", "f16")


def _is_weighed(c: RowKernel) -> bool:
    """Whether rows of float32 begin anywhere beside weights."""
    return lanes(c) * 2 <= most_lanes(c) and bool(kept(c)) and all(str(a.element) == "f32" for a in brought(c))


def pick(c: RowKernel, target: Target) -> GridRows | None:
    """The schedule of the least estimate."""
    return min(schedules(c, target), key=lambda s: (round(_steady(s, c, target)), -s.blocks(), s.share), default=None)


def schedules(c: RowKernel, target: Target) -> list[GridRows]:
    """A schedule for each number of blocks that a row may have."""
    vector, whole = lanes(c), most_lanes(c)
    ragged = vector * 2 <= whole and can_be_brought(c, whole, True)
    vector = whole if ragged else vector
    if not can_be_brought(c, vector, ragged):
        return []
    together = period(c, vector) if ragged and kept(c) else 1
    found = []
    for share in range(1, target.multiprocessors // together + 1):
        groups = min(c.count, target.multiprocessors // share) // together * together
        if groups and (s := _paced(GridRows(_THREADS, vector, share, groups, ragged=ragged), c, target)) is not None:
            found.append(s)
    return found


def _paced(s: GridRows, c: RowKernel, target: Target) -> GridRows | None:
    """The same with as few vectors a thread as threads can be, and with reductions as late as they are known; None if registers or shared memory have
    too little room."""
    chunks = ceil(s.per_block(c) / _THREADS)
    s = replace(s, threads=max(_FEWEST, ceil(s.per_block(c) / chunks / WARP) * WARP))
    stages = len(s.stages(c))
    if chunks > _VECTORS or chunks * s.vector * (1 + len(kept(c))) > _HELD or stages < 2:
        return None
    slots = _SHARED // s.row_bytes(c)
    ahead = 1 if slots < 5 * (stages - 1) else 2  # at least
    lag = min(1 + ceil(_LATENCY / _turn(s, c, target)), (slots - ahead) // (stages - 1))
    s = replace(s, lag=lag, ahead=min(_AHEAD, slots - (stages - 1) * lag))
    return s if s.fits(c, target) else None


def _turn(s: GridRows, c: RowKernel, target: Target) -> float:
    """Microseconds that the bytes of a turn take."""
    each = estimated(c, target.multiprocessors, 1, 0, _SHARE, target) / c.count
    return each * s.groups * max(1.0, s.per_block(c) * s.share / s.vectors(c)) * target.multiprocessors / s.blocks()


def _steady(s: GridRows, c: RowKernel, target: Target) -> float:
    """Microseconds of turns at the pace of memory."""
    turn = max(_LEAST, _turn(s, c, target), _LATENCY / (s.lag - 1))
    return _LAUNCH + ceil(c.count / s.groups) * turn + (len(s.stages(c)) - 1) * _LATENCY


def estimate(s: GridRows, c: RowKernel, target: Target) -> float:
    """Microseconds."""
    if not is_few(c):
        return _steady(s, c, target)
    waits = _FEW_LEVEL * (len(s.stages(c)) - 1) + _FEW_PHASE * (c.phases - 1) + _FEW_GROUP * (s.groups - 1)
    return _FEW_LAUNCH + waits + _moved(c) / _FEW_RATE

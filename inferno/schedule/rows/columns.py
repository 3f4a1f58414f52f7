"""The schedule of kernels that go over rows whose neighbours in memory are other rows: norms of images with channels last, softmax along the first
dimension.

Where a few neighbours are of one row, as the channels of a group norm's group are, they are rows of their own here, which share their reductions
(``group_channels.py``).  Rows that lie one behind the other are side by side, too, where they are so short that a thread has a few whole ones: all that
these are of it reads and writes at once, and takes apart in registers (``packed_rows.py``).
"""

from dataclasses import replace
from itertools import product
from math import ceil, gcd

from inferno.element_sizes import element_bytes
from inferno.mlir import func, walk
from inferno.passes.programs import takes_unmeasured
from inferno.powers import last_power_of_two
from inferno.schedule.analysis.unchanged import asked_once, kept_with
from inferno.schedule.rows.column_schedule import LARGEST, PORTABLE, Columns, holding, keeping, kept_accesses, kept_point
from inferno.schedule.rows.column_time import Work, time
from inferno.schedule.rows.group_channels import channels_of_groups, efficiency, pick_side
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.lone_rows import IN_CACHE, OWN_THREADS, few_alone, many_alone, megabytes, packed, threads_alone
from inferno.schedule.rows.moments import moments
from inferno.schedule.rows.packed_rows import packs, scans_alone
from inferno.schedule.rows.parser import parse_by_loops, parse_extrema
from inferno.schedule.rows.row_schedule import narrowest, row_bytes
from inferno.schedule.rows.row_time import PART_OF_SECTOR, estimated
from inferno.schedule.rows.row_work import arithmetic, instructions
from inferno.schedule.rows.rows import read_rows
from inferno.schedule.rows.transposed_results import SIDE, apart, lanes, most_beside, run_of, transposes
from inferno.target import SECTOR, STATIC_SHARED, Target

# Of the rate of a copy, of what more than the L2 cache has of rows of at most so many points, all of which are kept: on an H100 norms and softmaxes along the
# channels of 28 images of 2 to 4096 channels, 168 MB, took 111 to 125 us (as kernels of their own 166 to 175) up to 512, 119 to 130 up to 1024, 137 to 165 up
# to 4096, in float32 and bf16, of which a copy took 112.
_KEPT = ((512, 0.9), (1024, 0.8), (4096, 0.68))
# And of others: on an H200 a softmax of 8192x8192 along the first dimension took 154 us in bf16 and 259 in float32 (316 and 398 as kernels of
# their own), a batch norm of 64x256x64x64 with channels last 302 and 631, which is read three times.
_RATE = 0.45
_RUNS = 0.68  # of rows that are written one behind the other by runs of points (transposed_results.py has their times)
# Bytes of neighbouring rows' points that lie in whole vectors, of which fewer have their share of the rate; one by one points were not timed.  As one kernel
# and apart an H200 took of a softmax along the first dimension of 2000x16386 in bf16 140 and 70 us, of 2000x16388 92 and 54, in float32 155 and 140, 104 and
# 131; of a layer norm 158 and 53, 90 and 53, 155 and 97, 103 and 98; of 500x50002 70 and 60, 105 and 100, 68 and 46, 105 and 78.
_WORD, _LEAST_WORD = 16, 4
# Of rows that share their reductions, and microseconds of their own.  On an H200 group norms in bf16 took (and are estimated) 96 us (86) for 64x256x64x64, 15.9
# (14) for 8x256x64x64, 9.7 (7) for 2x320x64x64, 7.0 (6) for 1x512x64x64, but 24 (13) for 2x960x64x64, and 44 (22) for 1x128x256x256, in narrow pieces, of
# which other kernels are estimated to take less than they do, too; by whole rows 281, 34, 13, 7, 37 and 60.
_GROUPED, _SHARED = 0.82, 1.5
_FEWEST = 64  # threads of a block: of fewer points than those of a row, more are side by side (256x2x1024 took an H100 20.3 us by 4, of which 14 idle)
# Blocks of a multiprocessor, down to which short rows have more side by side, of whose points a thread has several then: on an H100 a softmax of
# 1x19x256x512 along the channels took 10.9 us in float32, 7.7 so, of 1x21x512x512 in bf16 18.1 and 12.6.
_EVEN_BLOCKS = 4
# Vectors that a thread reads at once, and twice as many where its block is alone on a multiprocessor: an instance norm of 32x64x128x128 with channels last in
# float32 took an H200 118.3 us, and takes 113.5.
_UNROLL = 4
_CUT = 8  # points of a row for each block of a cluster at least (softmax of 4x1920 in bf16 along 4 points took an H100 3.8 us by clusters of 8, 2.0 without)
# Of rows of more than the L2 cache has: (points, vectors side by side), lanes of these, points of a thread at once, and threads at least.  On an H100
# logarithms of sums of exponentials of 64, 96, 128, 192, 256 and 384 channels in float32 took 67, 61, 67, 64, 57 and 44 us by pieces of 64 bytes, 60, 54, 60,
# 53, 48 and 38 by ones of 128 and 256; in bf16 of 32, 96, 128 and 384 64, 63, 63 and 60 by 8 lanes, 60, 57, 61 and 56 by 4.
_SIDES, _SIDE_VECTOR, _SIDE_UNROLL, _SIDE_THREADS = ((256, 16), (512, 8)), 4, 8, 128
# Threads and vectors side by side where what phases compute anew takes longer than memory: a softmax of silu(x) * y of 925x22016 in float16 along its first
# dimension took an H200 108 us by what is kept of x and y, and 49 held so (48 by 8 blocks of 256 threads and 16 vectors, 53 by 4 of 512 and 8).
_HOLDING, _HELD_BESIDE = 512, 4
# Points of a block of a cluster, and rows of what type: softmaxes of 1536, 2048 and 4096 channels in float32 took an H100 155, 172 and 139 us by kernels of
# their own, 124, 137 and 119 by clusters of 4 and 8 (in bf16 149, 188 and 203 for 172, 179 and 217).
_CLUSTERED, _CLUSTERED_BITS, _CLUSTERED_MOST = 512, 32, 4096
# Vectors a multiprocessor, below which rows side by side are cut into narrower ones, too, so that more threads have some: on an H100 softmaxes along the first
# dimension of 4x1920, 24x64, 128x256 and 50x1000 in bf16 took 2.0, 2.2, 3.1 and 2.7 us, and 1.3, 1.4, 2.2 and 1.9 so; of 8x256 in float32 1.9 and 1.2.
_FEW_VECTORS = 8
# Microseconds of parts of sectors from which there are fewer, larger ones, though blocks are few: means of pairs of 64x500x33 that are gated by their mean,
# in float32, took an H200 6.2 us by 528 blocks that write 16 bytes at once.
_PUT_TOGETHER = 1.0
_MOST_BESIDE = 32  # vectors: more are more than a warp
_CLEARLY = 0.97  # of the time of a schedule by the rows' length, which what was timed before had, for which another is chosen
# Bytes that a block keeps, so that three are on a multiprocessor.  Of rows that are written one behind the other it had better have half as many than be
# two blocks then: an instance norm of 128x512x28x28 with channels last in float32 took an H200 165 us by two of 8 vectors side by side, 124 by one of 4.
_BLOCK = 70_000
MOST = 220_000  # if it is alone on one: 227 KB without what blocks have beside
# Neighbouring points of a thread where moments are taken at once: group norms in bf16 took an H100 75.7 us for 32x64x128x128 and 106.4 for 64x256x64x64, by
# runs of 8, whose registers leave room for one block, 79.4 and 133.6 (88.1 and 123.7 where not at once).
_ONCE_RUN = 4
_THREADS, _HELD = 512, 190_000  # of a block whose rows share their reductions, which leave parts in shared memory, too
# Points of a row, and of all, from which rows were timed that are written one behind the other: on an H200 an instance norm of 64x256x64x64 with
# channels last took 117 us in bf16 and 230 in float32, 352 and 261 with transpositions; of 128x512x28x28 86 and 129, 271 and 202.
_TIMED, _LARGE = 784, 1 << 24
# And rows and points of norms, of sums and of squared distances from their means: with weights of 8x320x64x64 32 us in bf16, 42 in float32 and 31 in
# float16, which were 65, 49 and 66 with transpositions; without weights 16x128x64x64 in bf16 14.8 (42.8), 4x256x64x64 in float32 14.2 (15.4).
_NORMED_ROWS, LEAST = 1024, 4 << 20
# And rows that are many and short enough: on an H100 layer norms over the channels of 16x192x28x28 in bf16 took 6.1 us, 11.1 with transpositions, of
# 1x64x16x16 3.7 and 4.5, softmax of 12x512x512 with its rows transposed 10.5 and 15.4; instance norms of 1x128x32x32 with channels last 4.1 and 4.9, in bf16
# 3.8 and 5.2, of 1x32x128 1.9 and 4.0; but of 64 rows of 2048 in float32 6.4 and 4.8, an instance norm of 8x32x64x64 6.2 and 4.5.
_MANY, _SHORT = 128, 1024
# And points of rows that share their reductions: on an H200 a group norm in bf16 of 2x640x32x32 took 7.0 us, 7.8 by whole rows, of 2x1280x16x16 4.2 and 3.9.
_GROUPED_LEAST = 1 << 20
# Microseconds that a kernel behind others takes less than alone, as it was timed for column_time: relu(x - x.amax(0)) * w of 189x448 in float16 took an H200
# 1.2 us as one kernel and 2.5 as a reduction and a map, of 500x500 2.1 and 2.6, of 1000x250 2.6 and 2.7, in float32 3.5 and 3.2.
_BEHIND = 0.6
# Cycles an instruction of a multiprocessor's only block, whose warps wait for each other: the tangent of a softmax of 11075x64 in f16 along the first
# dimension took 19.5 us by 16 blocks, 16.1 as kernels of their own.
_ISSUED = 2
# Points of rows of an odd number side by side, which are read one by one, up to which launches are what they take; of rows of more the longest that registers
# have, and the longest that one thread has of more than the L2 cache holds.  An H200 took, as kernels of their own, by threads of 8, of 16 and of 32 points
# and by one alone, of softmaxes along the first dimension in float32 of 64x65537 13.7, 10.8, 9.6, 10.6 and 11.5 us, of 128x184301 90, 81, 88, 91 and 75, of
# 256x65537 60, 56, 59 and 63, of 30x1000003 125, 104, 112, 112 and 92, in bf16 10.5, 7.0, 7.2, 7.4 and 8.3, 55, 47, 53, 55 and 46, 38, 38, 36 and 39, 91, 60,
# 66, 67 and 51; of 512x50001 in float32 94, 110, 96 and 96, in bf16 57, 69, 68 and 57; of x * y less its mean times z, summed, of 512x50001 in float32 140, 94,
# 84 and 84, in bf16 83, 63, 67 and 51; of norms along the channels of 16x256x57x57 in bf16 45, 41, 24 and 24.
_FEW, _ODD_MOST, _ODD_ALONE = 1 << 20, 512, 160
_ODD_POINTS = ((256, 16), (_ODD_MOST, 32))  # of a thread, of rows of so many
_ODD_REGISTERS = 1 << 16, 32  # of a multiprocessor, and those of a thread that do not hold points
_ODD_RATES = ((16, 0.5), (32, 0.6), (64, 0.75))  # of a copy's, by the width of what is written (the same times)


def choose(kernel: func.FuncOp, target: Target) -> Columns | None:
    """A schedule if ``kernel`` is several operations on such rows of which one reduces them."""
    c = read(kernel, target)
    if c is None or len(c.steps) < 2:
        return None
    return _meeting(holding(pick(c, target), c), c)


def _meeting(s: Columns, c: RowKernel) -> Columns:
    """The same whose blocks of a cluster send each other what they have, and take a row's mean and deviation at once: instance norms with channels last of
    32x64x128x128 and 64x256x64x64 in bf16 took an H100 60.9 and 108.6 us, 69.7 and 120.5 with barriers and two sums, of 64x256x64x64 in float32 212.6 and
    219.2.  Of single blocks, which were not faster so, nothing changes."""
    if s.held or s.cluster == 1 or not (transposes(c) or c.together > 1):
        return s
    once = replace(s, once=moments(c) is not None)
    return next((m for m in (replace(once, sends=True), once) if m.fits(c)), s)


@asked_once
def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated, and was timed or is asked for."""
    c = parse(kernel, target)
    if c is None or takes_unmeasured(kernel.operation) or (c.together == 1 and not transposes(c)):
        return c
    return c if _is_timed(c) else None


def _is_timed(c: RowKernel) -> bool:
    """Whether rows that are written one behind the other, or share their reductions, are like those that were timed."""
    if c.together > 1:
        return c.count * c.width >= (LEAST if transposes(c) else _GROUPED_LEAST)
    read = {a for s in c.steps for a in s.extras if c.wide(a) and any(a.strides[d] for d in c.rows)}  # weights are in the caches
    reduced = [k for s in c.steps for k in s.combiners if k is not None]
    norm = len(reduced) == 2 and all(k.sums for k in reduced)
    points = LEAST if norm and c.count >= _NORMED_ROWS else _LARGE
    timed = (c.count >= _MANY and c.width <= _SHORT) or (c.width >= _TIMED and c.count * c.width >= points)
    return len(read) == 1 and timed and all(str(a.element) in ("f32", "bf16", "f16") for a in read)


def parse(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated."""
    c = read_rows(kernel, target)
    if c is None:  # of one image with channels last, which its reductions read as it lies, and maps by rows
        c = read_rows(kernel, target, parse_by_loops)
        c = c if c is not None and c.rows and c.rows[-1] != len(c.sizes) - 1 else None
    if c is None:
        c = read_rows(kernel, target, parse_extrema)
        c = c if c is not None and c.rows and packs(c) else None
    if c is not None and (channels := channels_of_groups(c)) is not None and pick_side(channels, lanes(channels), target) is not None:
        c = channels
    if c is None or c.varies or c.in_pieces or not c.rows or (c.scans and not (packs(c) and scans_alone(c))):
        return None
    beside = c.rows[-1] == len(c.sizes) - 1
    short = (beside or packs(c)) and threads_alone(c) is not None
    if not short and ((lanes(c) == 1 and c.count * c.width > _FEW and _odd(c) is None) or not (beside or transposes(c))):
        return None
    of_points = [s for s in c.steps if not s.per_row or c.together > 1]
    if any(d in c.rows for s in of_points for d in s.indices if d is not None) or any(walk(s.generic, "tensor.extract") for s in of_points):
        return None
    return c


@kept_with
def pick(c: RowKernel, target: Target) -> Columns:
    """The schedule that the rows' length and their number ask for, or that takes clearly less time by what ``column_time`` knows."""
    if c.together > 1:
        return _pick_groups(c, target)
    if packs(c):
        return packed(c, target)
    if (few := few_alone(c, target)) is not None:
        return few
    if (odd := _odd(c)) is not None:
        return odd
    own = by_length(c, target)
    k = _work(c, own.vector, target)
    if k is None:
        return _large(c, own, target) or _computed_once(c, own, target) or own
    taken = _time(own, c, k)
    others, vector = _others(c, own, k), own.vector
    if (alone := threads_alone(c)) is not None:
        others.append((_time(alone, c, _work(c, alone.vector, target)), alone))
    while vector > 1 and c.count // own.vector < _FEW_VECTORS * target.multiprocessors and not transposes(c):
        vector //= 2
        others += _others(c, replace(own, vector=vector), _work(c, vector, target))
    best, found = min(others, default=(taken, own), key=lambda x: x[0])
    return found if best < _CLEARLY * taken else own


def by_length(c: RowKernel, target: Target) -> Columns:
    """A schedule with as few rows side by side as memory moves well."""
    vector = lanes(c)
    side, run = most_beside(c) if vector > 1 else 32, run_of(c)
    if side > SIDE and c.count // (vector * side) < target.multiprocessors:
        side = min(side, max(SIDE, _written_side(c, vector)))
    enough = c.count // (vector * _EVEN_BLOCKS * target.multiprocessors)  # of rows side by side
    while not transposes(c) and side * vector * 2 <= _FEWEST and side * 2 <= enough and _FEWEST // side * _UNROLL > c.width:
        side *= 2
    while not transposes(c) and side * vector * 2 <= _FEWEST and _FEWEST // side >= 2 * c.width:
        side *= 2
    across = min(side, _MOST_BESIDE, last_power_of_two(c.count // vector))
    each = vector * max(1, sum(a.element.width // 8 for a in kept_accesses(c)))
    if transposes(c) and across > SIDE and c.width * across * each > _BLOCK >= c.width * SIDE * each:
        across = SIDE
    point = across * each
    cluster = 1
    most = LARGEST if transposes(c) and moments(c) is not None and c.width * point > MOST // 2 * PORTABLE else PORTABLE
    while cluster < min(most, c.width // _CUT) and (c.width * point > _BLOCK * cluster or c.count // (vector * across) * cluster < target.multiprocessors):
        cluster *= 2
    own = ceil(c.width / cluster)
    threads = 512
    while threads > _FEWEST and threads // across * 4 > own:
        threads //= 2
    alone = transposes(c) and own * point > MOST // 2
    unroll = max(1, min(_UNROLL * (2 if alone or cluster > PORTABLE else 1), own // (threads // across)))
    # (On an H100 a softmax of 8192x8192 in bf16 along its first dimension took 235 us in one turn of 8, 183 in two of 4.)
    if run == 1 and c.width <= _SHORT and (each := ceil(own / (threads // across))) <= 2 * _UNROLL:
        unroll = each
    return keeping(Columns(threads, across, vector, cluster, unroll, 1, gcd(run, unroll)), c, MOST)


def _written_side(c: RowKernel, vector: int) -> int:
    """Vectors side by side that write pieces of two sectors, where caches would take long to put together what fewer write of one; 1 where they do not."""
    written = [] if transposes(c) else [a for d in c.destinations if c.wide(a := d.access)]
    narrow = min((element_bytes(a.element) for a in written), default=SECTOR)
    pieces = len(written) * c.count * c.width / (vector * SIDE)
    return 2 * SECTOR // (vector * narrow) if vector * SIDE * narrow < SECTOR and pieces * PART_OF_SECTOR > _PUT_TOGETHER else 1


def _large(c: RowKernel, own: Columns, target: Target) -> Columns | None:
    """A schedule for rows of more than the L2 cache has, which a thread alone, a block or a cluster has in registers; None where they do not fit these, or
    would not fill the GPU."""
    if transposes(c) or c.width > _CLUSTERED_MOST or megabytes(c) <= IN_CACHE:
        return None
    if (alone := many_alone(c, target)) is not None:
        return alone
    narrow = any(a.element.width < _CLUSTERED_BITS for a in kept_accesses(c))
    side = next((side for points, side in _SIDES if c.width <= points), 0 if c.width <= 2 * _CLUSTERED or narrow else _SIDES[-1][1])
    if not side:
        return None
    vector, cluster = min(own.vector, _SIDE_VECTOR), 1
    while cluster * _CLUSTERED < c.width:
        cluster *= 2
    threads = _SIDE_THREADS
    while threads // side * _SIDE_UNROLL * cluster < c.width:
        threads *= 2
    found = holding(Columns(threads, side, vector, cluster, ceil(c.width / (threads // side * cluster))), c)
    return found if found.held and found.fits(c) and found.blocks(c) >= 2 * target.multiprocessors else None


def _computed_once(c: RowKernel, own: Columns, target: Target) -> Columns | None:
    """A schedule whose threads hold what they compute, where phases would take longer than memory to compute it anew; None of others, and where it does not fit
    registers, or would not fill the GPU."""
    if own.held or transposes(c) or arithmetic_of_blocks(own, c, target) <= estimate(own, c, target):
        return None
    cluster, points = 1, _HOLDING // _HELD_BESIDE
    while points * _SIDE_UNROLL * cluster < c.width:
        cluster *= 2
    found = holding(Columns(_HOLDING, _HELD_BESIDE, min(own.vector, _SIDE_VECTOR), cluster, ceil(c.width / (points * cluster))), c)
    return found if found.held and found.fits(c) and found.blocks(c) >= 2 * target.multiprocessors else None


def _odd(c: RowKernel) -> Columns | None:
    """A schedule for many rows of an odd number side by side, whose points are read one by one, and stay in registers; None of others."""
    if lanes(c) > 1 or c.together > 1 or packs(c) or transposes(c) or c.rows[-1] != len(c.sizes) - 1 or not _FEW < c.count * c.width or c.width > _ODD_MOST:
        return None
    registers, besides = _ODD_REGISTERS
    words = ceil(max(32, c.held_bits()) / 32)
    if c.width <= _ODD_ALONE and megabytes(c) > IN_CACHE and c.width * words <= _ODD_ALONE:
        return Columns(OWN_THREADS, OWN_THREADS, 1, unroll=c.width, held=True)
    each = next(points for longest, points in _ODD_POINTS if c.width <= longest)
    along = 2
    while along * each < c.width:
        along *= 2
    while along <= 32 and ceil(c.width / along) * words + besides > registers // (along * 32):
        along *= 2
    return Columns(32 * along, 32, 1, unroll=ceil(c.width / along), held=True) if along <= 32 else None


def _work(c: RowKernel, vector: int, target: Target) -> Work | None:
    """What schedules of ``c`` are told apart by; None where it is unlike what was timed: of longer rows, or of more than the L2 cache has, for which
    threads need not be few."""
    read = {a for s in c.steps for a in s.extras if c.wide(a)}
    moved = megabytes(c)
    if c.together > 1 or c.width > _SHORT or moved > IN_CACHE or not read or packs(c):
        return None
    narrow = min(element_bytes(a.element) for a in kept_accesses(c) or read)
    written = min((element_bytes(a.element) for a in apart(c)), default=0)
    return Work(c.count // vector, vector, c.width, moved, instructions(c, True), narrow, written, target.multiprocessors)


def _others(c: RowKernel, own: Columns, k: Work) -> list[tuple[float, Columns]]:
    """Schedules whose blocks keep their rows, and what each takes."""
    found = []
    run, reduced = run_of(c), max(1, sum(kind is not None for s in c.steps for kind in s.combiners))
    point = kept_point(c, own.vector)
    most = min(most_beside(c), max(SIDE, own.across)) if transposes(c) else _MOST_BESIDE
    sides = [n for n in (1, 2, 4, 8, 16, 32) if n <= min(most, k.vectors) and (n * own.vector * k.read >= SECTOR or 2 * n > k.vectors)]
    for across, cluster, threads in product(sides, (1, 2, 4, 8), (64, 128, 256)):
        along = threads // across
        each = ceil(c.width / (along * cluster))
        beside = across * own.vector * (threads // 32 + 2) * reduced * 8  # bytes of what warps leave each other
        too_many = along < 1 or along * cluster >= 2 * c.width or across * own.vector > threads
        if too_many or beside > STATIC_SHARED or c.width * point * across > _BLOCK * cluster:
            continue
        for unroll in {each, _UNROLL, 2 * _UNROLL} if each <= 2 * _UNROLL else {_UNROLL, 2 * _UNROLL}:
            s = Columns(threads, across, own.vector, cluster, unroll, ceil(each / unroll), gcd(run, unroll))
            shared = s.kept * unroll * threads * point
            if unroll <= max(each, 1) and shared <= MOST and s.fits(c):
                found.append((time(k, threads, across, cluster, unroll, s.run, shared), s))
    return found


def _pick_groups(c: RowKernel, target: Target) -> Columns:
    """The same of rows that share their reductions: in narrower vectors where what so many threads of whole ones leave each other is more than a block has (960
    channels in groups of 30 in bf16, 15 vectors of 8, of which 480 threads are the fewest whole warps)."""
    once, vector = moments(c) is not None, lanes(c)
    found = _groups_of(c, vector, target)
    if found is None or found.cluster == 1 or replace(found, once=once).fits(c):
        return found
    narrower = (_groups_of(c, vector >> i, target) for i in range(1, vector.bit_length()))
    return next((s for s in narrower if s is not None and replace(s, once=once).fits(c)), found)


def _groups_of(c: RowKernel, vector: int, target: Target) -> Columns | None:
    """That of vectors of so many channels, if there is one."""
    if (side := pick_side(c, vector, target)) is None:
        return None
    (across, cluster), run = side, run_of(c)
    once, unroll = transposes(c) and moments(c) is not None, max(_UNROLL, run)
    if once and cluster > 1 and run > _ONCE_RUN:
        run = unroll = gcd(run, _ONCE_RUN)
    if once and cluster == PORTABLE and c.width * across * kept_point(c, vector) > MOST // 2 * cluster:
        cluster, unroll = LARGEST, 2 * _UNROLL
    own = ceil(c.width / cluster)
    if 32 % across == 0:
        along = _THREADS // across
        while across * along > _FEWEST and along * unroll > own:
            along //= 2
    else:  # threads are whole warps, and as few as there are points for in so many turns
        step = 32 // gcd(32, across)
        most = max(1, _THREADS // (across * step))
        turns_ = ceil(own / (most * step * unroll))
        along = step * max(1, min(most, ceil(own / (turns_ * step * unroll))))
        # of which sums and squares together leave no more than a block has
        while along > step and Columns(across * along, across, vector, cluster, once=moments(c) is not None).left_bytes(c) > STATIC_SHARED:
            along -= step
    unroll = max(1, min(unroll, own // along if 32 % across == 0 else ceil(own / along)))
    return keeping(Columns(across * along, across, vector, cluster, unroll, 1, gcd(run, unroll)), c, _HELD)


def _time(s: Columns, c: RowKernel, k: Work) -> float:
    return time(k, s.threads, s.across, s.cluster, s.unroll, s.run, s.kept_bytes(c))


def longest_time(s: Columns, c: RowKernel, target: Target) -> float:
    """Microseconds of what memory takes or of arithmetic, whichever is longer."""
    return max(estimate(s, c, target), arithmetic_of_blocks(s, c, target))


def arithmetic_of_blocks(s: Columns, c: RowKernel, target: Target) -> float:
    """Microseconds of the instructions of points, which every phase computes anew where threads do not hold them, and where blocks may be fewer than
    multiprocessors."""
    return arithmetic(c, not s.held, c.width if s.alone(c) else s.vector, target) * max(1.0, _ISSUED * target.multiprocessors / s.blocks(c))


def estimate(s: Columns, c: RowKernel, target: Target) -> float:
    """Microseconds."""
    if s == _odd(c):
        written = [a.element.width for d in c.destinations if c.wide(a := d.access)]
        rate = next(rate for width, rate in _ODD_RATES if min(written, default=64) <= width)
        return estimated(c, s.blocks(c), 1, 0, rate, target, beside=True)
    if (s.held or s.kept >= s.rounds(c)) and (k := _work(c, s.vector, target)) is not None:
        return _time(s, c, k) - _BEHIND
    whole = s.held or s.kept >= s.rounds(c)
    every = [a for p in range(c.phases) for a in c.needed(p)[0]]
    kept = set(every) if s.held else set(kept_accesses(c)) if whole else set()
    again = sum(row_bytes(c, a) for a in every if a not in kept) - sum(row_bytes(c, a) for a in set(every) - kept)
    rate, more = _RUNS if s.run > 1 and not s.alone(c) else next((r for points, r in _KEPT if whole and c.width <= points), _RATE), 0.0
    if c.together > 1 and not transposes(c):
        width = s.across * s.vector * min(a.element.width // 8 for a in kept_accesses(c))
        rate, more = _GROUPED * efficiency(width) ** 0.5, _SHARED
    elif not transposes(c) and not s.alone(c):
        rate *= min(1.0, max(_LEAST_WORD, lanes(c) * narrowest(c)) / _WORD)
    return more + estimated(c, s.blocks(c), s.cluster, 0, rate, target, beside=True) + again / (rate * 4e6)

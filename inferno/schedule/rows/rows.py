"""The schedule of kernels that go over rows: how many threads have a row, and whether it stays in their registers."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from inferno.mlir import func, walk
from inferno.powers import last_power_of_two, next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import bit_width, clusters_at_once
from inferno.schedule.analysis.unchanged import asked_once, kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.rows import long_rows
from inferno.schedule.rows.gathered_results import GATHERED_BYTES, gathered_bytes, written_apart
from inferno.schedule.rows.kernel import Part, RowKernel
from inferno.schedule.rows.parser import parse_by_loops, parse_parts, parse_row_kernel, parse_split_extrema, parse_transposing
from inferno.schedule.rows.row_lanes import can_be_ragged, lanes, leading, most_lanes, stored_alike
from inferno.schedule.rows.row_maxima import online_sums
from inferno.schedule.rows.row_operands import has_weights, is_narrow, is_plain, is_weighted, reads_words, widest
from inferno.schedule.rows.row_schedule import HELD, HELD_BY_MANY, PORTABLE, Rows, most_bits, moved_bytes, narrowest, row_bytes
from inferno.schedule.rows.row_time import computes_again, estimate, memory_time
from inferno.schedule.rows.row_work import arithmetic
from inferno.schedule.scans import scans
from inferno.symbolic import hint
from inferno.target import Target

_THREADS = 1024  # of a block, the most there can be
_MANY = 1024  # rows of as many points: sums of 8192x8192 in bf16 took 31.2 us, and 36.5 by blocks of their own, in float32 the same
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
_BLOCK, _SHARED = 66_000, 220_000  # bytes that a block keeps: three are on a multiprocessor at once; and that it can keep
# Points of a row, and bytes of a vector that divides rows, from which and below which vectors begin anywhere: on an H200 LayerNorm of 134000x1001 in
# bf16 took 160 us instead of 518, of 16384x4097 in float32 137 instead of 144; softmax of 2671x50257 in bf16 161 instead of 295, of 4000x945 in float32 6.5
# instead of 7.9; but of 16000x545 in bf16 16.6 instead of 9.7, of 146x545 1.5 instead of 1.2.
_RAGGED, _RAGGED_BYTES = 768, 8
# Points up to which rows that are written as they are not read have elements by themselves: a softmax of 15392x545 of 548 in float16 took an H200 11.8 us so
# and 42.1 by such vectors, of 2096x4001 11.3 and 33.9, in float32 19.8 and 39.6, 20.0 and 23.2, LayerNorm of 932x9001 in float32 71 and 47.
_UNLIKE = 8192
# Bytes that caches keep, where one launch less is what counts however parts of results are written, and points of rows up to which they are written one by one,
# of 16 bits with weights up to ``_UNLIKE``.  By two kernels and so an H200 took (us), of softmax(x)[:, :-1] of 134000x1001 in bf16 282 and 143, of 6600x10001
# 133 and 74, of 4096x16384 139 and 91, in float32 251 and 130, 254 and 139; of a LayerNorm with weights that is padded by (1, 2) of 32768x1024 in bf16 96 and
# 42, of 134000x1001 250 and 163, of 8192x4096 96 and 44, but of 6600x10001 110 and 288, in float32 127 and 78, 393 and 285, 130 and 71, 192 and 197.
_CACHED_PARTS, _LONGEST_PARTS = 1 << 23, 1 << 14
# Points that a block keeps of such rows, and threads of a row that it holds: LayerNorm of 1336x50257 in float32 took 183 us with 4 blocks of 256 that
# keep a row, 201 with 8, 198 with 8 that hold it; softmax, which has no weights, 143 with 8 of 256 that hold it, 163 with 4 of 512, 176 kept by 4.
_RAGGED_BLOCK, _RAGGED_THREADS = 16_500, 256
# Points of a thread up to which these threads hold a row: LayerNorm of 13400x10003 in bf16 took 163 us with 256, 228 with 512 and 182 kept; softmax of
# 6600x10001 in float32 134, 133 and 149.  In float32 and up to so many points a row half as many as otherwise are a thread's: of 65536x1023 136 and 141.
_RAGGED_HELD, _RAGGED_SHORT = 40, 2048
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
# Bytes of shared memory: of a multiprocessor, what each block takes besides its own, and the most that one has.
_MULTIPROCESSOR, _RESERVED, _MOST = 228 << 10, 1 << 10, 227 << 10
# Bytes whose neighbours in a row lie apart, which caches keep: a softmax along the first dimension that is given back transposed took an H100 2.6 us by two
# kernels and 1.4 so of 47x44 in bf16, 3.0 and 1.6 of 128x64, 3.5 and 3.3 of 256x256.
_APART = 1 << 18
# What is given back in another order, whose sectors caches gather: bytes, points up to which rows have threads as others do (on an H100 two norms and a choice
# of 33x49 in bf16 took 3.9 us by two kernels, 2.0 so), and threads of a multiprocessor beyond, so that a warp has several rows (256x256 4.4 and 3.2, 1000x128
# 4.7 and 2.8).
_TRANSPOSED, _TRANSPOSED_POINTS, _ENOUGH_TRANSPOSED = 1 << 22, 1 << 13, 16
# More than that goes through shared memory: the rows that a block has at once, so that their neighbours are whole sectors; and threads of a row at most.  By
# two kernels and so an H100 took (us), of running sums of 195361x45 in bf16 50 and 28, of 40000x200 in float32 61 and 42, of a log_softmax of 100000x100 63
# and 43, of 40000x500 in bf16 66 and 51, of 200000x32 22 and 17 by 64 rows of 8 threads and 13 by 128 of 4, of an RMS norm of 30000x256 20 and 17.
_GATHERED, _GATHERING_THREADS = (128, 64, 32), 16
_COPIES = (4, 8, 16)  # bytes that a thread's copy to shared memory can have
# Times: rows that clusters have time for beside those that there are (two norms of 15x25908 by 14 clusters took an H100 32.6 us); see ``_reads_pieces``.
_UNEVEN, _BESIDE_PIECES = 1.5, 2 / 3


def choose(kernel: func.FuncOp, target: Target) -> Rows | None:
    """A schedule if ``kernel`` is several operations on rows of which one reduces or scans them, or one that reduces many rows, or scans what ``scans``
    does not."""
    c = read(kernel, target)
    if c is None or (len(c.scans) == 1 and not any(s.reduces for s in c.steps) and scans.read(kernel, target) is not None):
        return None  # which takes rows of any length
    return pick(c, target) if (len(c.steps) > 1 or c.scans or (hint(c.count) >= _MANY and c.width >= _MANY)) else None


@asked_once
def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated."""
    c = read_rows(kernel, target) or read_rows(kernel, target, parse_split_extrema)
    if c is not None and c.once:
        return c if len(c.sizes) - 1 not in c.rows and can_compute_once(pick(c, target)) else None
    if c is None and (c := read_rows(kernel, target, parse_by_loops)) is not None and not _has_whole_rows(c) and not _is_small(c):
        return None
    if c is None or len(c.sizes) - 1 in c.rows:
        c = read_rows(kernel, target, parse_transposing)
        c = c if c is not None and _is_transposed(c) else None
    if c is None:
        c = read_rows(kernel, target, parse_parts)
        c = c if c is not None and _writes_parts(c) else None
    if c is None or len(c.sizes) - 1 in c.rows:  # neighbours are of different rows
        return None
    if c.scans and _scanned(c, target) is None:
        return None  # rows are longer than threads hold
    return c if not c.in_pieces or _reads_pieces(c, target) else None


def _has_whole_rows(c: RowKernel) -> bool:
    """Whether neighbours in a row are so in memory, in whatever order the rows lie, as those of a head's queries where heads are side by side."""
    every = [*(a for s in c.steps for a in s.extras), *(d.access for d in c.destinations)]
    return all(a.strides[-1] == 1 for a in every if c.wide(a))


def _is_small(c: RowKernel) -> bool:
    """Whether what rows read apart lies in caches: one more kernel, which transposes it, would take a launch."""
    return max(row_bytes(c, a) for s in c.steps for a in s.extras) <= _APART


def _is_transposed(c: RowKernel) -> bool:
    """Whether rows are gone over as they lie, and only what is given back lies apart, which caches gather, or shared memory does."""
    written = [row_bytes(c, a) for a in written_apart(c)]
    read = [row_bytes(c, a) for s in c.steps for a in s.extras if c.wide(a) and a.strides[-1] not in (0, 1)]
    return (max(written, default=0) <= _TRANSPOSED or _gathering_rows(c) > 0) and max(read, default=0) <= _APART


def _gathering_rows(c: RowKernel) -> int:
    """Rows of a block that puts together what they write apart, where that is more than caches gather; 0 of others, and of those that are too long."""
    large = not c.varies and max((row_bytes(c, a) for a in written_apart(c)), default=0) > _TRANSPOSED
    across = _gathering_threads(c)
    fitting = [n for n in _GATHERED if gathered_bytes(c, n) <= GATHERED_BYTES and n * across <= _THREADS // 2] if large else []
    return fitting[0] if across <= _GATHERING_THREADS and fitting else 0


def _gathering_threads(c: RowKernel) -> int:
    """Threads of such a row."""
    points = min(_POINTS, HELD // max(8, c.held_bits()))
    return max(next_power_of_two(ceil(c.width / points)), min(_NEIGHBOURS, next_power_of_two(c.width // lanes(c))))


def _reads_pieces(c: RowKernel, target: Target) -> bool:
    """Whether rows are read from the pieces of a concatenation, wherever these begin: there is little else to do.  By one and by two kernels an H200 took (us):
    softmax of 18514x1608 in float32 55 and 112, of 4096 rows of 1025 and 1025 in bf16 12 and 26, of 2048 of 5001 and 1000 in float32 28 and 49, LayerNorm of
    65536 of 13 and 416 58 and 110, RMSNorm of 376749 of 11 and 11 23 and 34; an H100 log_softmax of a gelu of 1998x18176 in bf16, whose arithmetic is 0.93 of
    memory's time, 99 and 76, a norm of 4x32x4096x128 that is rotated, 0.52, 93 and 142."""
    return not c.varies and arithmetic(c, False, lanes(c), target) <= _BESIDE_PIECES * memory_time(_by_length(c, target), c, target)


def _writes_parts(c: RowKernel) -> bool:
    """Whether parts of results are written as neighbours, in vectors as the rows without them are, or of 8 bytes, or by less where that costs little."""
    if c.scans or any(d.access.strides[-1] != 1 for d in c.parts):
        return False
    rest = replace(c, destinations=tuple(d for d in c.destinations if not isinstance(d, Part)))
    alike = lanes(c) * narrowest(c) >= min(_RAGGED_BYTES, lanes(rest) * narrowest(c)) and not _begin_anywhere(rest)
    little = not has_weights(c) or narrowest(c) >= 4
    return alike or moved_bytes(c) <= _CACHED_PARTS or c.width <= (_LONGEST_PARTS if little else _UNLIKE)


@asked_once
def read_rows(kernel: func.FuncOp, target: Target, parse: Callable[[func.FuncOp], RowKernel | None] = parse_row_kernel) -> RowKernel | None:
    """The same for rows that lie in any way."""
    c = parse(kernel) if target.kind == "nvptx" else None
    if c is None or (isinstance(c.width, int) and c.width < 2):
        return None
    maps = [s for s in c.steps if s.scans is None]
    if any(not supported_body(s.generic) for s in maps):
        return None
    elements = [v.element for v in c.values] + [a.element for s in c.steps for a in s.extras]
    elements += [op.operands[0].type.element_type for s in c.steps for op in walk(s.generic, "tensor.extract")]
    return c if all(map(supported_element, elements)) else None


def can_compute_once(s: Rows) -> bool:
    """Whether threads compute each value once, and hold it."""
    return s.held and not s.packed


@kept_with
def pick(c: RowKernel, target: Target) -> Rows:
    """The schedule that the rows' length and their number ask for, where that varies the example's; one that computes each value once where what phases
    compute anew takes longer than memory."""
    found, known = _by_length(c, target), c.in_example()
    if c.once:
        return replace(found, packed=False)
    if not computes_again(found) or memory_time(found, known, target) >= arithmetic(known, True, found.vector, target):
        return found
    long = long_rows.fastest(known, lanes(known), (), target) if long_rows.is_long(known, target) and not found.ragged else None
    held = [replace(found, packed=False)] if found.held else [long or _held(known, target, lanes(known), False)]
    return min((found, *(s for s in held if s is not None)), key=lambda s: estimate(s, known, target))


def _scanned(c: RowKernel, target: Target) -> Rows | None:
    """A schedule for rows that are scanned, which threads hold; None if they are too long."""
    varies, c = c.varies, c.in_example()
    vector, whole = lanes(c), most_lanes(c)
    found = _held(c, target, whole, True) if not varies and _begin_anywhere(c) else None
    return found or _of_few(c, target, vector) or _held(c, target, vector, False)


def _begin_anywhere(c: RowKernel) -> bool:
    """Whether rows of a known number are worth being read in vectors that lie as memory does."""
    vector, whole = lanes(c), most_lanes(c)
    worth = vector * 2 <= whole and vector * narrowest(c) < _RAGGED_BYTES and c.width >= _RAGGED and can_be_ragged(c, whole)
    return worth and (c.width > _UNLIKE or stored_alike(c))


def _by_length(c: RowKernel, target: Target) -> Rows:
    if c.scans:
        return _scanned(c, target)
    varies, c = c.varies, c.in_example()
    vector, whole = lanes(c), most_lanes(c)
    ragged = not varies and _begin_anywhere(c)
    if (online := _online(c, whole if ragged else vector, ragged)) is not None:
        return online
    if not ragged and (found := _of_few(c, target, vector)) is not None:
        return found
    s = _held(c, target, whole if ragged else vector, ragged)
    several = s is None or s.cluster > 1
    brought = _brought(c, target, vector) if not varies and not ragged and several else None
    kept = _kept(c, target, whole if ragged else vector, ragged) if several or s.threads > 512 else None
    # (Beside two weights more is computed anew: LayerNorm of 2048x32768 in float32 took an H200 153 us kept, and 144 held; RMSNorm 135 and 151.)
    keeps = s is None or kept is None or is_narrow(c) or (c.width * 4 <= _BLOCK * 2 and len(c.common()) < 2) or (ragged and has_weights(c))
    keeps = kept is not None and keeps and kept.blocks(c) * 2 >= target.multiprocessors
    if several and not ragged and long_rows.is_long(c, target) and not (keeps and kept.cluster == 1):
        found = _of_blocks(c, target, vector, s, kept if keeps else None, brought)
        if found is not None:
            return found
    if brought is not None:
        return brought
    if keeps:
        return kept
    if s is None and ragged:
        s = _held(c, target, vector, False)
    if s is not None or kept is not None:
        return s or kept
    across = min(_THREADS, next_power_of_two(c.width // vector))
    cluster = PORTABLE if across == _THREADS and target.capability >= 90 else 1
    return Rows(max(32, across), across, vector, cluster, held=False, reciprocals=True, approximate=True, sends=cluster > 1)


def _of_few(c: RowKernel, target: Target, vector: int) -> Rows | None:
    """A schedule of as many blocks as clusters have for each of a few long rows, whose threads hold little; None for others."""
    if target.capability < 90 or c.width < _FEW_LONG or not _are_few(c, target):
        return None
    s = Rows(_FEW_THREADS, _FEW_THREADS, vector, PORTABLE, reciprocals=True, approximate=True, sends=True)
    points = s.chunks(c) * vector
    fits = points <= _POINTS and points * (max(c.held_bits(), 32 if vector == 1 else 8) + ceil(c.scanned_bits / vector)) <= HELD
    return s if fits and not _gathering_rows(c) else None


def _are_few(c: RowKernel, target: Target) -> bool:
    """Whether each row could have the blocks of a cluster at once."""
    return c.count * PORTABLE <= target.multiprocessors


def _of_blocks(c: RowKernel, target: Target, vector: int, held: Rows | None, kept: Rows | None, brought: Rows | None) -> Rows | None:
    """The schedule of several blocks that is estimated to take least; None where that is one that brings rows, or what is kept or held is known to be right."""
    own = kept or held
    if brought is None and own is not None and long_rows.is_known(own, c):
        return None
    found = long_rows.fastest(c, vector, [kept] if kept is not None and kept.kept >= kept.rounds(c) else [], target)
    moving = memory_time(brought, c, target) if brought is not None else 0.0
    other = long_rows.brought_time(brought, c, moving, target) if brought is not None else float("inf")
    return found if found is not None and max(moving, long_rows.time(found, c, target)) < other else None


def _held(c: RowKernel, target: Target, vector: int, ragged: bool) -> Rows | None:
    """A schedule that has rows in registers; None if they are too long."""
    scanned = ceil(c.scanned_bits / vector)
    if (gathered := _gathering_rows(c)) and not ragged:
        across = _gathering_threads(c)
        s = Rows(gathered * across, across, vector, reciprocals=True, approximate=True, gathers=True)
        return s if s.chunks(c) * vector * max(8, c.held_bits() + scanned) <= HELD else None
    vectors, held = ceil((c.width + (vector - 1) * ragged) / vector), max(8, c.held_bits()) + scanned
    if ragged and not stored_alike(c):
        return None  # elements that lie differently are written one by one
    most = PORTABLE if target.capability >= 90 else 1
    fewer_threads = c.count * c.width >= _MUCH or (not c.scans and (c.phases > _PHASES or _are_few(c, target)))
    points = max(vector, min(_POINTS if fewer_threads else _POINTS // 2, HELD // held))
    points = points // 2 if ragged and held > 16 and c.width <= _RAGGED_SHORT and points == _POINTS else points
    apart = 0 if c.count * c.width <= _TRANSPOSED_POINTS else max((bit_width(a.element) // 8 for a in written_apart(c)), default=0)
    points = min(_POINTS, HELD // held) if apart else points
    across = max(next_power_of_two(ceil(c.width / points)), min(apart or _NEIGHBOURS, next_power_of_two(vectors)))
    if vector == 1 and not ragged and not apart and widest(c) in (2, 4):
        across = max(across, min(32, next_power_of_two(ceil(c.width / _BY_ITSELF))))
    if vector == 1 and c.width == _TRIPLE and not (ragged or apart or c.scans) and c.count >= _MANY_TRIPLES:
        across = 1
    cluster = 1
    if ragged and across > _RAGGED_THREADS and c.width <= _RAGGED_HELD * _RAGGED_THREADS:
        across = _RAGGED_THREADS
    elif ragged and 512 < across <= _RAGGED_THREADS * most:
        across, cluster = _RAGGED_THREADS, across // _RAGGED_THREADS
    elif across > 512:
        across, cluster = 512, next_power_of_two(ceil(c.width / (points * 512)))
        if cluster > most or held * points > HELD:
            across, cluster = _THREADS, min(most, next_power_of_two(ceil(c.width / (min(points, HELD_BY_MANY // held) * _THREADS))))
    # With few rows more threads have a part each, so that all multiprocessors have work.
    while c.count * across * cluster < (_ENOUGH_TRANSPOSED if apart else _ENOUGH) * target.multiprocessors and across < min(_WAITING, vectors):
        across *= 2
    while c.count * cluster * 2 <= target.multiprocessors and cluster < most and across * cluster * 2 * 4 <= vectors and across >= 512:
        cluster *= 2
    threads = across if cluster > 1 else max(across, min(256, next_power_of_two(c.count) * across))
    many = not ragged and cluster == 1 and c.count * c.width >= _MUCH
    normed = many and across <= (2 if c.phases < 3 else 4) * _NORMED and is_weighted(c)
    if many and across < _LONG <= c.width // 8 and vector >= 4 and reads_words(c):
        across = threads = _LONG
    if normed:
        across = min(across, _NORMED)
        threads = max(across, _NORMED)
    if many and is_plain(c) and vector * widest(c) >= 16 and vectors >= _NEIGHBOURS and c.width * widest(c) <= _BLOCK_ROWS:
        across = max(_NEIGHBOURS, next_power_of_two(ceil(vectors / _OWN_VECTORS)))
        if across > 32 and 8 * vectors < 7 * across * _OWN_VECTORS:
            across = 32
        threads = max(across, 64, across * last_power_of_two(_BLOCK_ROWS // (c.width * widest(c))))
        normed = False
    while threads > max(across, 32) and ceil(c.count * across / threads) < 2 * target.multiprocessors:
        threads //= 2
    s = Rows(max(threads, 32), across, vector, cluster, ragged=ragged, reciprocals=True, approximate=True, packed=ragged or normed)
    each = max(held, 32 + scanned) if vector == 1 else held  # a register is the least that an element takes
    s = replace(s, sends=s.cluster > 1)
    points = s.chunks(c) * vector
    # What phases have in common is widened once: 64 points of 16 bits, with 64 registers, spilled 2.9 KB a thread (524288 by 8 blocks, 32.7 us).
    return s if points * each <= most_bits(threads) and (threads <= _THREADS // 2 or points <= _POINTS) else None


def _kept(c: RowKernel, target: Target, vector: int, ragged: bool) -> Rows | None:
    """A schedule that keeps what it reads in shared memory, or as much as fits; None if nothing is read twice."""
    point = sum(a.element.width // 8 for a in c.repeated())
    if not point or target.capability < 90:
        return None
    block, threads = (_RAGGED_BLOCK * point, 256) if ragged else (_BLOCK, 512)
    cluster = min(PORTABLE, next_power_of_two(ceil(c.width * point / block)))
    unroll = 2
    if c.width * point > cluster * 2 * _BLOCK:
        threads, unroll = _THREADS, 4
    s = Rows(threads, threads, vector, cluster, held=False, unroll=unroll, kept=1, reciprocals=True, approximate=True, ragged=ragged)
    s = replace(s, sends=s.cluster > 1)
    if s.kept_bytes(c) > _SHARED:
        return None
    s = replace(s, kept=min(s.rounds(c), _SHARED // s.kept_bytes(c)))
    # Softmax of 128x1M in bf16, of which a part is read again, took 197 us instead of 215 with sums that are taken with the largest point.
    return replace(s, online=s.kept < s.rounds(c) and bool(online_sums(c)))


def _brought(c: RowKernel, target: Target, vector: int) -> Rows | None:
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
        left = min(_MOST, _MULTIPROCESSOR // resident - _RESERVED) - s.exchanged_bytes(c)
        s = replace(s, kept=min(s.rounds(c), left // s.kept_bytes(c)), persistent=min(c.count, at_once * resident), resident=resident)
        if s.kept == s.rounds(c) or (cluster, resident) == _CLUSTERS[-1]:
            return s if can_persist(s, c) else None
    return None


def _online(c: RowKernel, vector: int, ragged: bool) -> Rows | None:
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

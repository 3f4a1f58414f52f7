"""The schedule of kernels that go over rows: which kernels these are, and whether a row stays in registers, in shared memory, or is read again."""

from collections.abc import Callable
from dataclasses import replace

from inferno.mlir import func, walk
from inferno.powers import next_power_of_two
from inferno.schedule.analysis.unchanged import asked_once, kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.rows import long_rows
from inferno.schedule.rows.gathered_results import written_apart
from inferno.schedule.rows.held_rows import TRANSPOSED, gathering_rows, hold, spread_few
from inferno.schedule.rows.kept_rows import KEPT_BLOCK, bring, go_once, keep
from inferno.schedule.rows.kernel import Part, RowKernel
from inferno.schedule.rows.parser import parse_by_loops, parse_parts, parse_row_kernel, parse_split_extrema, parse_transposing
from inferno.schedule.rows.row_lanes import can_be_ragged, lanes, most_lanes, stored_alike
from inferno.schedule.rows.row_operands import has_weights, is_narrow
from inferno.schedule.rows.row_schedule import PORTABLE, THREADS, Rows, moved_bytes, narrowest, row_bytes
from inferno.schedule.rows.row_time import computes_again, estimate, memory_time
from inferno.schedule.rows.row_work import arithmetic
from inferno.schedule.scans import scans
from inferno.symbolic import hint
from inferno.target import Target

_MANY = 1024  # rows of as many points: sums of 8192x8192 in bf16 took 31.2 us, and 36.5 by blocks of their own, in float32 the same
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
# Bytes whose neighbours in a row lie apart, which caches keep: a softmax along the first dimension that is given back transposed took an H100 2.6 us by two
# kernels and 1.4 so of 47x44 in bf16, 3.0 and 1.6 of 128x64, 3.5 and 3.3 of 256x256.
_APART = 1 << 18
_AT_ONCE = 512  # threads of a multiprocessor, of which each may have 128 registers
_BESIDE_PIECES = 2 / 3  # of memory's time; see ``_reads_pieces``


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
    return (max(written, default=0) <= TRANSPOSED or gathering_rows(c) > 0) and max(read, default=0) <= _APART


def _reads_pieces(c: RowKernel, target: Target) -> bool:
    """Whether rows are read from the pieces of a concatenation, wherever these begin: each row lies in one, or there is little else to do.  By one and by two
    kernels an H200 took (us): softmax of 18514x1608 in float32 55 and 112, of 4096 rows of 1025 and 1025 in bf16 12 and 26, of 2048 of 5001 and 1000 in
    float32 28 and 49, LayerNorm of 65536 of 13 and 416 58 and 110, RMSNorm of 376749 of 11 and 11 23 and 34; an H100 log_softmax of a gelu of 1998x18176 in
    bf16, whose arithmetic is 0.93 of memory's time, 99 and 76, a norm of 4x32x4096x128 that is rotated, 0.52, 93 and 142."""
    if c.varies:
        return False
    by_rows = not c.joined and not any(s.chooses_by(c.columns) for s in c.choosing)
    return by_rows or arithmetic(c, False, lanes(c), target) <= _BESIDE_PIECES * memory_time(_by_length(c, target), c, target)


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
    if not computes_again(found):
        return found
    if found.packed and found.blocks(known) * found.threads <= _AT_ONCE * target.multiprocessors:
        return replace(found, packed=False)  # no other rows are read while these are computed
    if memory_time(found, known, target) >= arithmetic(known, True, found.vector, target):
        return found
    long = long_rows.fastest(known, lanes(known), (), target) if long_rows.is_long(known, target) and not found.ragged else None
    held = [replace(found, packed=False)] if found.held else [long or hold(known, target, lanes(known), False)]
    return min((found, *(s for s in held if s is not None)), key=lambda s: estimate(s, known, target))


def _scanned(c: RowKernel, target: Target) -> Rows | None:
    """A schedule for rows that are scanned, which threads hold; None if they are too long."""
    varies, c = c.varies, c.in_example()
    vector, whole = lanes(c), most_lanes(c)
    found = hold(c, target, whole, True) if not varies and _begin_anywhere(c) else None
    return found or spread_few(c, target, vector) or hold(c, target, vector, False)


def _begin_anywhere(c: RowKernel) -> bool:
    """Whether rows of a known number are worth being read in vectors that lie as memory does."""
    vector, whole = lanes(c), most_lanes(c)
    worth = vector * 2 <= whole and vector * narrowest(c) < _RAGGED_BYTES and c.width >= _RAGGED and can_be_ragged(c, whole)
    return worth and (c.width > _UNLIKE or stored_alike(c))


def _by_length(c: RowKernel, target: Target) -> Rows:
    """In this order: rows that are gone over once, few long ones, those that registers hold, those of several blocks that are estimated to be faster, those
    that shared memory keeps; all others are read again by each phase."""
    if c.scans:
        return _scanned(c, target)
    varies, c = c.varies, c.in_example()
    vector, whole = lanes(c), most_lanes(c)
    ragged = not varies and _begin_anywhere(c)
    if (online := go_once(c, whole if ragged else vector, ragged)) is not None:
        return online
    if not ragged and (found := spread_few(c, target, vector)) is not None:
        return found
    s = hold(c, target, whole if ragged else vector, ragged)
    several = s is None or s.cluster > 1
    brought = bring(c, target, vector) if not varies and not ragged and several else None
    kept = keep(c, target, whole if ragged else vector, ragged) if several or s.threads > 512 else None
    # (Beside two weights more is computed anew: LayerNorm of 2048x32768 in float32 took an H200 153 us kept, and 144 held; RMSNorm 135 and 151.)
    keeps = s is None or kept is None or is_narrow(c) or (c.width * 4 <= KEPT_BLOCK * 2 and len(c.common()) < 2) or (ragged and has_weights(c))
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
        s = hold(c, target, vector, False)
    if s is not None or kept is not None:
        return s or kept
    across = min(THREADS, next_power_of_two(c.width // vector))
    cluster = PORTABLE if across == THREADS and target.capability >= 90 else 1
    return Rows(max(32, across), across, vector, cluster, held=False, reciprocals=True, approximate=True, sends=cluster > 1)


def _of_blocks(c: RowKernel, target: Target, vector: int, held: Rows | None, kept: Rows | None, brought: Rows | None) -> Rows | None:
    """The schedule of several blocks that is estimated to take least; None where that is one that brings rows, or what is kept or held is known to be right."""
    own = kept or held
    if brought is None and own is not None and long_rows.is_known(own, c):
        return None
    found = long_rows.fastest(c, vector, [kept] if kept is not None and kept.kept >= kept.rounds(c) else [], target)
    moving = memory_time(brought, c, target) if brought is not None else 0.0
    other = long_rows.brought_time(brought, c, moving, target) if brought is not None else float("inf")
    return found if found is not None and max(moving, long_rows.time(found, c, target)) < other else None

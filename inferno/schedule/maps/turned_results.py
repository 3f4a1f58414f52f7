"""Maps that read all that is large along one loop at places that are computed, and write along another one: images that are resized or padded, and whose
channels then are side by side.

A block computes a tile of points with its threads where neighbours are read, and its results go through shared memory to where they lie.  A kernel in the
order of what it reads and a transposition behind it (``order-tables``) write and read all once more.
"""

from math import ceil

from inferno.element_sizes import element_bytes
from inferno.mlir import ir, walk
from inferno.schedule.analysis.accesses import has_known_sizes
from inferno.schedule.analysis.cost import KERNEL_RATE, tensor_bytes
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.pointwise import Pointwise
from inferno.schedule.maps.transposed import LINE, WORD
from inferno.schedule.maps.uncoalesced_arguments import SIDE, read_time, reads_in_order, uncoalesced_arguments
from inferno.target import SECTOR, WARP

_SAVED = 1.0  # microseconds of reads of a sector each, from which on a barrier takes less (an estimate)
# Operations that lanes of an H200 do in a microsecond, those of a point's way through shared memory, and of all those that vectors of points do of each; the
# microseconds of another launch, and bytes that a transposition moves in one (estimates).
_OPERATIONS, _TURNED, _SHARED, _LAUNCH, _MOVED = 20e6, 20, 0.6, 2.0, 2.5e6
# Operations that a read of one element takes more than others, for fewer units read; vectors read several at once.  An average of nine points and a Laplacian
# of 256x128x128 in bf16 took an H200 19.2 us by tiles and 17.3 by vectors and a transposition; an image of 20x112x115 that is enlarged, and its maxima, 14.8
# and 16.0.
_READ = 1
_LONGEST = 64  # points of a tile along what is read
_THREADS, _MOST = 256, 768  # of a block at least, where they are enough, and at most
_RESIDENT = 1024  # threads that a multiprocessor has at once, at least
_MOST_RESULTS = 4  # which all have a tile in shared memory
_WASTED = 0.9  # of the points that tiles have, of which narrower ones have less


@kept_with
def turned(point: Pointwise) -> int | None:
    """The run along which neighbours of all that is large are read, where results lie along the last one; None where that is not so.  Places that tensors tell
    are anywhere."""
    last = len(point.runs) - 1
    if point.parts or not point.tables or last < 1 or len(point.destinations) > _MOST_RESULTS or not has_known_sizes(point.module.body.operations[0]):
        return None
    strides = {point.run_strides(d) for d in point.destinations}
    if len(strides) != 1 or strides.pop()[last] != 1 or point.run_sizes[last] < SIDE:
        return None
    kernel, generic = point.module.body.operations[0], point.generic
    read = uncoalesced_arguments(kernel, generic)
    along = {s.along for s in read}
    if len(along) != 1 or any(s.tables for s in read):
        return None
    if reads_in_order(kernel, generic, point.runs[last][-1], {s.argument for s in read}, point.points):
        return None
    (loop,) = along
    found = [r for r, run in enumerate(point.runs[:-1]) if run[-1] == loop and point.sizes[loop] >= SIDE]
    return found[0] if found else None


def is_turned(point: Pointwise) -> bool:
    """Whether there is such a run, and tiles take less time than reading along the last one, and than vectors of points whose arguments, or results, are
    transposed by a kernel of their own: of a small image that is made much larger, that is little beside what a thread has to compute of each point."""
    if turned(point) is None:
        return False
    kernel = point.module.body.operations[0]
    read = uncoalesced_arguments(kernel, point.generic)
    if read_time(read) < _SAVED:
        return False
    arguments = [ir.RankedTensorType(kernel.type.inputs[s.argument]) for s in read]
    results = sum(point.points * element_bytes(d.element) for d in point.destinations)
    moved = results if any(s.short for s in read) else min(results, sum(map(tensor_bytes, arguments)))
    work = point.points * (len(walk(point.generic)) + _TURNED) / _OPERATIONS
    reads = point.points * _READ * len(walk(point.generic, "tensor.extract")) / _OPERATIONS
    memory = (results + sum(map(tensor_bytes, arguments))) / KERNEL_RATE
    return max(memory, work + reads) < max(memory, _SHARED * work) + _LAUNCH + 2 * moved / _MOVED


def side_of(point: Pointwise, across: int) -> int:
    """Points of a block along the run ``across``, as even as its size lets them be."""
    size = point.run_sizes[across]
    return ceil(size / ceil(size / _LONGEST))


def rows_of(side: int, tile: int, threads: int) -> int:
    """Of so many points of a tile along the results a block's threads compute one each, at once."""
    return min(tile, 1 << ((threads // side).bit_length() - 1))


def turning(point: Pointwise, across: int, multiprocessors: int) -> tuple[int, int]:
    """Threads of a block, and points of its tile along the results: as many as a line of memory has, if these are about whole and enough blocks, and a sector
    at least; then of each thread fewer, until there are enough threads."""
    side, last = side_of(point, across), point.run_sizes[-1]
    width = max(element_bytes(d.element) for d in point.destinations)
    lines = point.points // (point.run_sizes[across] * last) * ceil(point.run_sizes[across] / side)
    tile, least, rows = LINE // max(width, 2), max(SIDE, SECTOR // width), 1
    while rows * side < _THREADS:
        rows *= 2

    def made(tile: int) -> int:
        return ceil(last / tile) * tile

    def threads() -> int:
        return ceil(min(rows, tile) * side / WARP) * WARP

    def too_few() -> bool:
        return lines * ceil(last / tile) * threads() < _RESIDENT * multiprocessors

    wide = [n for n in (tile, tile // 2, tile // 4) if n >= least]
    tile = next(n for n in wide if _WASTED * made(n) <= min(map(made, wide)))
    while tile > least and too_few():
        tile //= 2
    while rows < tile and 2 * threads() <= _MOST and too_few():
        rows *= 2
    return threads(), tile


def row_pitch(side: int, bytes_: int) -> int:
    """Elements from one row of such a tile to the next: an odd number of banks, so that neither rows nor columns meet in one."""
    words = max(1, WORD // bytes_)
    return (ceil(side / words) | 1) * words if bytes_ <= WORD else side | 1

"""Rows that are contiguous and so short that a thread has whole ones: how ``columns`` goes over them, and how they come to its threads.

A thread reads its rows by vectors where these are few (``neighbours`` of ``codegen/rows/columns.py``).  Otherwise a warp's loads would be of as many lines as
it has threads, and what it writes parts of sectors: a warp copies all of its rows as they lie to shared memory, where each thread takes its own, and so back
(``codegen/rows/staged_rows.py``).
"""

from inferno.element_sizes import element_bytes
from inferno.mlir import backward_slice, owner, walk
from inferno.schedule.analysis.accesses import Access, merge
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_steps import RowStep

PIECE = 16  # bytes of the widest access, by whole ones of which rows are gone over as they lie
# Rows from which on they are a few to a thread, and points of one at most.
_ROWS, _POINTS = 1024, 24
# Of a thread that reads its rows by itself: bytes of a row, pieces of all, and odd factor of a row's length.  On an H200 sums of rows of 3 numbers, three
# pieces, took 22 us in float32, as long as a copy, rows of 12 in bf16, six, 24.8 (torch.compile 13.4), of 17 in float32 200; where they are written, too, a
# softmax of rows of 3 took 43 us in float32, of which a copy takes 34.
_BYTES, _OWN_PIECES, _ODD = 32, 3, 7
# By way of shared memory: rows of which each scheduler of a large GPU has a warp; points of one, which its thread has in registers; and bytes of a block.
# 16M numbers on an H200, us, before and so: softmax of rows of 3, 5, 17 in float32 43, 58, 46 and 33, 34, 35 (a copy 33), in bf16 22, 30, 39 and 19, 18, 18
# (18), sums of 17 39 and 19, 39 and 6; of powers of two it took longer: softmax of 2, 16 and 32 in bf16 18, 18, 18 and 21, 22, 20, the largest less the
# smallest of 8 in float32 22 and 27.
_STAGED_ROWS, _STAGED_POINTS, _BLOCK = 1 << 14, 32, 48 << 10
_READ = 128 * 32  # bits of all that a thread reads of its rows at once
_LEAST = 32  # bytes of a thread's rows, that it keeps memory busy


def row_runs(c: RowKernel) -> list[list[int]]:
    """The loops of rows, merged where every tensor walks them with one stride."""
    every = [*(a for s in c.steps for a in s.extras), *(d.access for d in c.destinations)]
    return merge(c.rows, c.sizes, every)


def is_packed(c: RowKernel, access: Access) -> bool:
    """Whether the points of neighbouring rows lie one behind the other."""
    return access.strides[c.rows[-1]] == c.width and access.strides[c.runs[-1][-1]] == 1


def packs(c: RowKernel) -> bool:
    """Whether rows lie one behind the other, and are so short, or of so odd a length, that a thread had better have whole ones."""
    if c.rows[-1] == len(c.sizes) - 1 or c.width > _STAGED_POINTS or c.together > 1 or len(c.runs) != 1 or c.count < _ROWS or len(row_runs(c)) != 1:
        return False
    of_rows = _of_rows(c)
    if not of_rows or not all(is_packed(c, a) for a in of_rows):
        return False
    return stages(c) or _is_short(c)


def stages(c: RowKernel) -> bool:
    """Whether rows that are packed go through shared memory."""
    if c.count < _STAGED_ROWS or any(a.offset * element_bytes(a.element) % PIECE for a in _of_rows(c)) or any(map(_gathers_by_values, c.steps)):
        return False
    lengths, written = [c.width * element_bytes(a.element) for a in _of_rows(c)], any(c.wide(d.access) for d in c.destinations)
    few = max(lengths) * whole_pieces(c) <= _OWN_PIECES * PIECE and whole_pieces(c) * _widest_result(c) <= PIECE
    if all(n == PIECE for n in lengths) or sum(c.width * max(32, 8 * element_bytes(a.element)) for a in packed_reads(c)) > _READ:
        return False
    if (_is_short(c) and few and not written) or _is_even(c):
        return False
    return staged_bytes(c, whole_rows(c), 32) <= _BLOCK // 4


def _is_even(c: RowKernel) -> bool:
    """Whether rows are of a power of two: then what threads read is no more lines than it fills, and those that share rows have whole pieces of them.  Scans
    of rows that are no whole pieces are by threads alone all the same, and so are places of extrema, of which a thread writes more than it reads."""
    lengths, alone = [c.width * element_bytes(a.element) for a in _of_rows(c)], bool(c.scans) or any(s.extremum is not None for s in c.steps)
    return c.width & (c.width - 1) == 0 and not (alone and any(n % PIECE for n in lengths))


def scans_alone(c: RowKernel) -> bool:
    """Whether a thread that has whole rows can scan them, a lane a row."""
    return stages(c) and all(type(s.scans) is Combiner for s in c.scans)


def _gathers_by_values(step: RowStep) -> bool:
    """Whether it extracts elements at places that are made of others than numbers of tensors: of threads that have no row these might be any."""
    tensors = {a for a, s in zip(step.block.arguments, step.sources) if not isinstance(s, int)}
    places = [v for op in walk(step.generic, "tensor.extract") for v in list(op.operands)[1:]]
    return any(v not in tensors and ((op := owner(v)) is None or len(op.regions) > 0) for v in backward_slice(places))


def _is_short(c: RowKernel) -> bool:
    """Whether threads may read their rows by themselves."""
    lengths = [c.width * element_bytes(a.element) for a in _of_rows(c)]
    odd = c.width // (c.width & -c.width)
    return c.width <= _POINTS and odd <= _ODD and any(n % PIECE for n in lengths) and min(lengths) <= _BYTES


def _of_rows(c: RowKernel) -> list[Access]:
    """What points of rows have of their own."""
    wide = [a for s in c.steps for a in s.extras if c.wide(a)] + [d.access for d in c.destinations if c.wide(d.access)]
    return [a for a in dict.fromkeys(wide) if any(a.strides[d] for d in c.rows)]


def packed_reads(c: RowKernel) -> list[Access]:
    """Of these what is read."""
    return [a for a in dict.fromkeys(a for s in c.steps for a in s.extras) if c.wide(a) and is_packed(c, a)]


def whole_pieces(c: RowKernel) -> int:
    """Short rows of a thread that reads them by itself, which are whole pieces of 16 bytes, and two at least."""
    read = [a for s in c.steps for a in s.extras if c.wide(a)]
    width = min(element_bytes(a.element) for a in read or _of_rows(c))  # rows that are made of tables alone are only written
    vector = max(1, PIECE // ((c.width & -c.width) * width))
    while vector < 8 and vector * c.width * width < 2 * PIECE:
        vector *= 2
    return min(8, vector)


def whole_rows(c: RowKernel) -> int:
    """Rows of a thread that takes them from shared memory: whole words, and enough to keep memory busy, if their results are no more than it writes at once."""
    lengths, vector = [c.width * element_bytes(a.element) for a in _of_rows(c)], 1
    while vector < 8 and (vector * min(lengths) % 4 or (vector * max(lengths) < _LEAST and 2 * vector * _widest_result(c) <= PIECE)):
        vector *= 2
    return vector


def _widest_result(c: RowKernel) -> int:
    """Bytes of what is written of a row, at most."""
    return max((element_bytes(d.access.element) for d in c.destinations if not c.wide(d.access)), default=1)


def slot(access: Access, points: int) -> tuple[int, int]:
    """Bytes of a thread's points, and from one thread's to the next one's: an odd number of the accesses by which they are read, so that neighbouring
    threads' are in different banks."""
    length = points * element_bytes(access.element)
    return length, length + (PIECE if length % (2 * PIECE) == 0 else 0)


def arrays(c: RowKernel) -> tuple[list[Access], dict[Access, int]]:
    """What lies in shared memory, of each thread's rows, and which of these each access has: what is written may take the place of what was read."""
    read = packed_reads(c)
    places = {a: i for i, a in enumerate(read)}
    found, free = list(read), list(range(len(read)))
    for a in (d.access for d in c.destinations if c.wide(d.access)):
        place = next((i for i in free if element_bytes(found[i].element) == element_bytes(a.element)), None)
        if place is None:
            place = len(found)
            found.append(a)
        else:
            free.remove(place)
        places[a] = place
    return found, places


def staged_bytes(c: RowKernel, vector: int, threads: int) -> int:
    """Of shared memory, of so many threads."""
    return threads * sum(slot(a, vector * c.width)[1] for a in arrays(c)[0])


def staging_threads(c: RowKernel, vector: int, most: int) -> int:
    """Of a block whose rows have room in shared memory."""
    while most > 32 and staged_bytes(c, vector, most) > _BLOCK:
        most //= 2
    return most

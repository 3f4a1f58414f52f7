"""Which scatters of single elements have their rows in shared memory on a GPU; ``capture`` asks before kernels are made, ``schedule`` when they are.

Rows of ``places`` elements, to each of which ``updates`` go, are [``outer``, places, ``inner``] in memory; only the first ``filled`` of outer are given any.
"""

SHARED = 48 * 1024  # bytes of a block's rows
# Bytes of memory that a block's rows have of each place, where they lie side by side: at most, enough for whole accesses, and at least.  Narrower ones share
# lines with those of other blocks, which are there at the same time: 32768 columns of 1024 in float32 took 231 us by 32 bytes, element by element 1.6 ms.
_WIDEST, _WHOLE, _NARROWEST = 128, 32, 8
# Places for each update, from which on it is better to update memory: of what is there; of one value, which has to be written in any case, in numbers of 32
# bits and more, and in narrower ones, whose sums are made in float32 there and then rounded.
_SPARSE, _SPARSE_FILLED, _SPARSE_NARROW = 8, 64, 1024
# Rows for each that is added to them, from which on the order of these is not worth a look at all of the others; of 16 bits, whose sums are made in float32
# otherwise: 16384 to 65536 of 1024 in bf16 took torch's library 160 us on an H200, 92 by additions that round each time.
_EMPTY, _EMPTY_NARROW = 2, 4
# Rows of fewer elements are added as single ones are; so few rows one after the other; and the most bytes of float32 that sums of 16-bit floats are made in.
_SHORT, _IN_ORDER, _TOTALS = 4, 64, 1 << 28
MULTIPROCESSORS = 132  # where it is not known yet
# Microseconds: of the launches that put updates in order, of an update, of one whose row is counted in a line with others, and of a byte that is read or
# written.  65536 rows that go anywhere took an H100 so long, beside atomic additions: of 512x256 f32 41.4 us and 42.2, 512x1024 114 and 150, 4096x256 40.2 and
# 42.4, 50257x256 75.3 and 99.5, 50257x1024 261 and 439; but of 512x64 22.2 and 9.5, 4096x64 16.0 and 8.5, 50257x64 29.2 and 18.6.  In bf16 26.9 and 30.7,
# 68.0 and 118, 20.5 and 34.8, 44.7 and 118, 137 and 538; 22.8 and 10.1, 15.3 and 9.6, 18.0 and 21.9.
_ORDER_CALL, _ORDERED, _COUNTED, _BYTE = 5.5, 6e-5, 1.5e-3, 3.7e-7
# And of atomic additions: of a call, of an element, and of each of a row's updates (all to one row of 256 columns or 1024 took 640 us to 690, of 64 312), by
# columns, up to so many.  What does not stay in the L2 cache (bytes) is read at two thirds of memory's pace.
_ATOMIC_CALL, _ADDED, _MET, _TOGETHER, _CACHED = 3.0, 1.65e-6, 7.5e-5, 128, 48e6
# Of one that memory joins with no neighbours, as the larger of two: torch's index_add, which adds float32 so, took an H200 479 us for 67M.
_ALONE = 6e-6
# And where each row looks for its own: of the launch, and of a look of a warp.  Sums in bf16 of 2048x256 of 4096 rows took an H200 so 14.7 us, by 32768
# looks, where additions in memory took 6.2; of 768x1000 of 1536 by 24576 12.1 (8.3 in order), of 384x2048 of 768 by 12288 7.6, of 1024x64 of 1024 by 4096 3.1
# (3.6), of 100x256 of 64 by 100 1.3 (8.4).
_MATCH_CALL, _LOOKING = 1.2, 4.2e-4
_EVEN = 1.05  # where both are as fast, it is in order: what may all go to one row then takes no longer, where additions take 15 times as long
_COUNTS = 32  # rows whose counts are a line of memory


def side_by_side(outer: int, places: int, inner: int, held: int, size: int, multiprocessors: int = MULTIPROCESSORS) -> int | None:
    """How many rows that lie side by side a block has; elements have ``size`` bytes, and ``held`` in shared memory.  None where they do not fit."""
    columns = min(inner, max(1, _WIDEST // size)) if inner > 1 else 1
    while columns > 1 and columns * places * held > SHARED:
        columns //= 2
    while columns * size > _WHOLE and outer * -(-inner // columns) < 2 * multiprocessors:
        columns //= 2
    wide = inner == 1 or columns * size >= min(_NARROWEST, inner * size)
    return columns if wide and columns * places * held <= SHARED else None


def worthwhile(
    outer: int, filled: int, places: int, updates: int, inner: int, columns: int, multiprocessors: int = MULTIPROCESSORS, begins: bool = True, width: int = 4,
) -> bool:
    """Whether there are enough rows for all multiprocessors, and enough goes to them; ``begins``: to what is there, not to one value; ``width``: bytes."""
    sparse = _SPARSE if begins else _SPARSE_FILLED if width >= 4 else _SPARSE_NARROW
    return sparse * updates * filled >= places * outer and 2 * outer * -(-inner // columns) >= multiprocessors


def worthwhile_sums(rows: int, columns: int, count: int, width: int, computed: bool = False) -> bool:
    """Whether ``count`` rows of ``columns`` elements, of ``width`` bytes each, are added to ``rows`` others in memory by a kernel that computes them, too;
    ``computed``: so that they are in no memory otherwise."""
    return (columns >= _SHORT or computed) and count > _IN_ORDER and (width >= 4 or 4 * rows * columns <= _TOTALS)


def worthwhile_order(rows: int, columns: int, count: int, width: int, lanes: int, begins: bool = True, read: int | None = None, alone: bool = False) -> bool:
    """Whether ``count`` rows of ``columns`` elements, of ``width`` bytes each, are put in order by which of ``rows`` others they are added to, instead of being
    added in memory one by one, if they go anywhere.  ``begins``: the others are not zeros, or the like; ``read``: bytes that what is added is read from;
    ``alone``: memory joins no neighbours at once."""
    if lanes < 2 or not min(rows, columns, count) or (begins and rows > (_EMPTY if width >= 4 else _EMPTY_NARROW) * count):
        return False
    read = count * columns * width if read is None else read
    return _ordered(rows, columns, count, width, begins) < _EVEN * _added(rows, columns, count, width, begins, read, _ALONE if alone else _ADDED)


def worthwhile_matches(rows: int, columns: int, count: int, width: int, looks: int, begins: bool = True) -> bool:
    """Whether ``rows`` look for their own among ``count`` updates, by so many ``looks`` of warps, instead of these being put in order, or added in memory one
    by one.  Where it takes as long it is done: sums are in order, and rounded once."""
    moved = (count + rows * (1 + begins)) * columns * width
    matched = _MATCH_CALL + looks * _LOOKING + moved * _BYTE * (1 if moved > _CACHED else 0.5)
    read = count * columns * width
    return matched < _EVEN * min(_ordered(rows, columns, count, width, begins), _added(rows, columns, count, width, begins, read, _ADDED))


def _ordered(rows: int, columns: int, count: int, width: int, begins: bool) -> float:
    moved = count + rows + (rows if begins else max(0, rows - count))  # (rows of zeros that get nothing take as long as if they were read)
    counted = count * min(rows, _COUNTS) / max(rows, _COUNTS)
    return _ORDER_CALL + count * _ORDERED + counted * _COUNTED + moved * columns * width * _BYTE


def _added(rows: int, columns: int, count: int, width: int, begins: bool, read: int, added: float) -> float:
    """Microseconds of atomic additions: the result is written before, and narrow sums are made in float32 and then rounded."""
    held = max(width, 4)
    afar = read + rows * columns * held > _CACHED
    made = rows * ((1 + begins) * width if width >= 4 else 2 * held + (1 + begins) * width) + 2 * held * min(rows, count)
    each = max(added, 1.5 * width * _BYTE) if afar else added
    alone = count * columns * each + made * columns * _BYTE * (1 if afar else 0.5)
    return _ATOMIC_CALL + max(alone, count / rows * min(columns, _TOGETHER) * _MET)

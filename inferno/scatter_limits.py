"""Which scatters of single elements have their rows in shared memory on a GPU; ``capture`` asks before kernels are made, ``schedule`` when they are.

Rows of ``places`` elements, to each of which ``updates`` go, are [``outer``, places, ``inner``] in memory; only the first ``filled`` of outer are given any.
"""

from collections.abc import Sequence

SHARED = 48 * 1024  # bytes of a block's rows
# Bytes of memory that a block's rows have of each place, where they lie side by side: at most, enough for whole accesses, and at least.  Narrower ones share
# lines with those of other blocks, which are there at the same time: 32768 columns of 1024 in float32 took 231 us by 32 bytes, element by element 1.6 ms.
_WIDEST, _WHOLE, _NARROWEST = 128, 32, 8
_SPARSE = 8  # places for each update, from which on it is better to update memory
# Rows for each row that is added to them, and the other way round, on average, from which on the same is true: a list is walked one by one; and threads, that
# each have 16 bytes of the result.
_SPARSE_ROWS, _LONG, _FEW = 16, 64, 1 << 16
# Rows of fewer elements are added as single ones are; so few rows one after the other; and the most bytes of float32 that sums of 16-bit floats are made in.
_SHORT, _IN_ORDER, _TOTALS = 4, 64, 1 << 28
MULTIPROCESSORS = 132  # where it is not known yet
# Microseconds: of five launches that put updates in order, of an update, and of a byte that is read or written.  An estimate, no GPU has run it yet.
_ORDER_CALL, _ORDERED, _BYTE = 10.0, 3e-5, 1 / 4e6
# And of atomic additions: of a call, an element, one of 32 bits or more that they are added to, and a narrower one.  (On an H200 of bf16 16.8M added to 5M took
# 46 us, 32M to 320000 52, 67M to 8.4M 140, and in float32 198; but 16.6M in float32 to 131072 103.)
_ATOMIC_CALL, _ADDED, _RECEIVING, _NARROW_RECEIVING = 7.0, 1.5e-6, 1.9e-6, 3.8e-6


def side_by_side(outer: int, places: int, inner: int, held: int, size: int, multiprocessors: int = MULTIPROCESSORS) -> int | None:
    """How many rows that lie side by side a block has; elements have ``size`` bytes, and ``held`` in shared memory.  None where they do not fit."""
    columns = min(inner, max(1, _WIDEST // size)) if inner > 1 else 1
    while columns > 1 and columns * places * held > SHARED:
        columns //= 2
    while columns * size > _WHOLE and outer * -(-inner // columns) < 2 * multiprocessors:
        columns //= 2
    wide = inner == 1 or columns * size >= min(_NARROWEST, inner * size)
    return columns if wide and columns * places * held <= SHARED else None


def worthwhile(outer: int, filled: int, places: int, updates: int, inner: int, columns: int, multiprocessors: int = MULTIPROCESSORS) -> bool:
    """Whether there are enough rows for all multiprocessors, and enough goes to them."""
    return _SPARSE * updates * filled >= places * outer and 2 * outer * -(-inner // columns) >= multiprocessors


def worthwhile_lists(rows: int, columns: int, count: int, lanes: int) -> bool:
    """Whether ``count`` rows that are added to ``rows`` others are added by these, each with a list of what goes to it, ``lanes`` of its elements a thread."""
    return lanes > 1 and _SPARSE_ROWS * count >= rows and count <= _LONG * rows and rows * columns >= _FEW * lanes


def worthwhile_sums(rows: int, columns: int, count: int, width: int) -> bool:
    """Whether ``count`` rows of ``columns`` elements, of ``width`` bytes each, are added to ``rows`` others in memory by a kernel that computes them, too."""
    return columns >= _SHORT and count > _IN_ORDER and (width >= 4 or 4 * rows * columns <= _TOTALS)


def worthwhile_order(rows: int, columns: int, count: int, width: int, lanes: int) -> bool:
    """Whether ``count`` rows of ``columns`` elements, of ``width`` bytes each, are put in order by which of ``rows`` others they are added to, instead of being
    added in memory one by one."""
    ordered = _ORDER_CALL + count * _ORDERED + (count + 2 * rows) * columns * width * _BYTE
    atomic = _ATOMIC_CALL + (count * _ADDED + rows * (_RECEIVING if width >= 4 else _NARROW_RECEIVING)) * columns
    return lanes > 1 and ordered < atomic


def is_of_rows(sizes: Sequence[int], strides: Sequence[int], given: Sequence[int], dim: int) -> bool:
    """Whether an index of ``scatter_add`` along ``dim`` of a tensor of the ``given`` sizes is the same all over each of its slices."""
    same = all(stride == 0 or size == 1 for d, (size, stride) in enumerate(zip(sizes, strides)) if d != dim)
    return same and all(n == m for d, (n, m) in enumerate(zip(sizes, given)) if d != dim)

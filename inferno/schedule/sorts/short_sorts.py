"""The schedule of sorts of rows that are so short that a thread sorts whole ones in its registers.

By several threads of a row, as ``sorts`` has it, elements are read and written one by one, and go through shared memory with their places.
"""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts.sorts import item_bytes
from inferno.target import Target

_LONGEST = 32  # elements of a row
_WORDS = 64  # registers of a thread for items, where it has more than a row
_VECTOR, _SECTOR, _SHARED = 16, 32, 32 << 10  # bytes, the last of a block, so that several are on a multiprocessor
_THREADS, _FEWEST = 128, 32  # of a block with shared memory, and of any
_ALONE = 256  # threads that need no shared memory, as those of maps
# Rows down to which each has a thread, by their length: fewer have several, for there is not one for each lane of the GPU (sorts.py has times).
_ROWS = ((4, 1), (8, 1 << 12), (16, 1 << 13), (_LONGEST, 1 << 14))
_MANY = 1 << 16  # rows from which on a thread has several where one alone would do
_BLOCKS = 264  # down to which blocks are large


@dataclass(frozen=True)
class ShortSorts:
    """A thread sorts ``rows`` rows.  ``beside``: these are neighbours in memory element by element, and every access is of one element of each; otherwise a
    thread has all elements of some rows, or of all rows that lie between each other, one behind the other."""

    generator: ClassVar[str] = "short_sorts"

    threads: int
    rows: int
    beside: bool = False

    def fits(self, c: SortKernel) -> bool:
        whole = c.inner % self.rows == 0 if self.beside else self.rows % c.inner == 0
        return whole and self.threads % _FEWEST == 0 and 1 < c.length <= _LONGEST and (self.beside or shared_bytes(c, self.rows, self.threads) < _SHARED)


def choose(kernel: func.FuncOp, target: Target) -> ShortSorts | None:
    """A schedule if ``kernel`` sorts many such rows on a GPU."""
    c = parse_sort_kernel(kernel) if target.kind == "nvptx" else None
    return pick(c.example) if c is not None and not c.maps else None


def pick(c: SortKernel) -> ShortSorts | None:
    """The schedule that the rows' length and their number ask for; None where each is for several threads."""
    if not 1 < c.length <= _LONGEST or c.rows < next(least for length, least in _ROWS if c.length <= length):
        return None
    bytes_ = c.bits // 8
    if c.inner == 1 or (c.inner * bytes_ < _SECTOR and c.inner * row_words(c) <= _WORDS):
        rows = _rows_behind(c)
        return ShortSorts(_threads(c, rows, shared_bytes(c, rows, 1)), rows)
    rows = gcd(c.inner, _VECTOR // (8 if needs_places(c) else bytes_))  # of the widest elements that are read or written
    while rows > 1 and (rows * row_words(c) > _WORDS or c.rows // rows < _MANY):
        rows //= 2
    return ShortSorts(_threads(c, rows, 0), rows, True)


def _threads(c: SortKernel, rows: int, shared: int) -> int:
    """Threads of a block, each of which has so many bytes of shared memory."""
    threads = _THREADS if shared or rows * c.length * c.bits > 8 * _VECTOR else _ALONE
    while threads > _FEWEST and (threads * shared >= _SHARED or c.rows < rows * threads * _BLOCKS):
        threads //= 2
    return threads


def needs_places(c: SortKernel) -> bool:
    """Whether elements are sorted with their places."""
    return any(k.indices for k in c.kept)


def sorted_together(c: SortKernel) -> int:
    """Rows whose elements are compared by one instruction."""
    return 2 if c.bits <= 16 and not needs_places(c) else 1


def row_words(c: SortKernel) -> int:
    """Registers of a row's items."""
    bytes_ = item_bytes(c) if needs_places(c) else max(2, c.bits // 8)
    return -(-c.length * bytes_ // 4)


def shared_bytes(c: SortKernel, rows: int, threads: int) -> int:
    """Shared memory of a block for each thread's elements, and for the places of those that it keeps, where they are more than one access; with one more for
    every eighth."""
    values = [c.length] + [c.count] * any(not k.indices for k in c.kept)
    elements = c.length * c.bits // 8 if not all(is_access(rows * n * c.bits // 8) for n in values) else 0
    places = 4 * c.count if needs_places(c) and not is_access(8 * rows * c.count) else 0
    return threads * rows * (elements + places) * 9 // 8


def is_access(bytes_: int) -> bool:
    """Whether a thread reads or writes so many neighbouring bytes at once."""
    return bytes_ <= _VECTOR and bytes_ & (bytes_ - 1) == 0


def _rows_behind(c: SortKernel) -> int:
    """Rows of a thread that lie one behind the other: so many that as many are compared together as can be, and that a thread has whole words, which are in
    different banks, and a vector of them."""
    found = [c.inner]
    while 2 * found[-1] * row_words(c) <= _WORDS:
        found.append(2 * found[-1])

    def gain(rows: int) -> tuple[bool, bool, bool, int]:
        bytes_ = rows * c.length * c.bits // 8
        return rows % sorted_together(c) == 0, bytes_ % 4 == 0, bytes_ >= _VECTOR, -rows

    return max(found, key=gain)

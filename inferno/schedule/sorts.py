"""The schedule of sorts by merging: a block sorts tiles of rows, longer rows are merged of tiles."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.sort_kernel import SortKernel, parse_sort_kernel
from inferno.selection import ENABLED
from inferno.target import Target

_SHARED = 48 << 10
_THREADS = 256


@dataclass(frozen=True)
class Sorts:
    """A block of ``threads`` sorts ``threads * items`` elements, of one row or of several."""

    generator: ClassVar[str] = "sorts"

    threads: int = 256
    items: int = 8

    @property
    def tile(self) -> int:
        return self.threads * self.items


def choose(kernel: func.FuncOp, target: Target) -> Sorts | None:
    """A schedule if ``kernel`` sorts rows of known sizes on a GPU."""
    if target.kind != "nvptx" or not ENABLED:
        return None
    c = parse_sort_kernel(kernel)
    return pick(c) if c is not None else None


def pick(c: SortKernel) -> Sorts:
    """The schedule that the rows' length asks for."""
    row = power(c.length)
    items = min(8, row)
    most = largest_tile(item_bytes(c)) // items
    return Sorts(min(most, 1024, max(_THREADS, row // items)), items)


def power(x: int) -> int:
    """The next power of two, at least 2."""
    return max(2, 1 << (x - 1).bit_length())


def places(length: int, tile: int) -> int:
    """Bits of a place in a row, with those that fill the last tile up."""
    return ((power(length) if length <= tile else -(-length // tile) * tile) - 1).bit_length()


def item_bytes(c: SortKernel) -> int:
    """Bytes of an element's key with its place."""
    whole = c.bits + places(c.length, 2048)
    return 4 if whole <= 32 else 8 if whole <= 64 else 12


def largest_tile(bytes_: int) -> int:
    """The most items, a power of two, that fit into shared memory with one more for every eighth."""
    found = 1024
    while 2 * found * 9 // 8 * bytes_ < _SHARED:
        found *= 2
    return found

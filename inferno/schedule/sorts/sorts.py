"""The schedule of sorts by merging: a block sorts tiles of rows, longer rows are merged of tiles."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.powers import next_power_of_two
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.target import STATIC_SHARED, Target

# On an H200 float32 rows of 1024 took, 64M elements, 850 us with 16 items a thread of 64, 861 of 128 and 995 with 8 items; 256x4096 22 and 35; but
# 16x1024 7.3 with 8 items and 5.5 with 4.
_ITEMS, _MANY, _FEW = 16, 1 << 20, 1 << 15
_LEAST = 1024  # items of a block
_MERGED = 4096  # items of a tile of longer rows: 65536 columns took 2645 us by tiles of 4096 with 16 items a thread


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
    """A schedule if ``kernel`` sorts rows on a GPU: of any number if each is one tile."""
    c = parse_sort_kernel(kernel) if target.kind == "nvptx" else None
    s = pick(c.example) if c is not None else None
    return None if s is None or (c.length > s.tile and not isinstance(c.rows, int)) else s


def pick(c: SortKernel) -> Sorts:
    """The schedule that the rows' length and their number ask for."""
    row, wide = power(c.length), item_bytes(c) > 8
    items = min(row, 8 if wide or c.rows * row < _MANY else _ITEMS) if c.rows * row >= _FEW else min(row, 4)
    tile = largest_tile(item_bytes(c)) if row <= largest_tile(item_bytes(c)) else min(_MERGED, largest_tile(item_bytes(c)))
    return Sorts(min(tile // items, 1024, max(_LEAST // items, row // items)), items)


def power(x: int) -> int:
    """The next power of two, at least 2."""
    return max(2, next_power_of_two(x))


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
    while 2 * found * 9 // 8 * bytes_ < STATIC_SHARED:
        found *= 2
    return found

"""The schedule of selections: the first few elements of a row in the order of a sort, or the one at some place, without sorting the row."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts.sorts import power
from inferno.selection import can_select
from inferno.target import Target

_HELD = 32  # items in the registers of a thread
_SHORT = 64  # 2 of 8 in 65536 rows took 20.7 us, and 2.5 sorted; 8 of 64 in bf16 26 and 22, 8 of 128 31 and 53
_CHUNK = 256, 32  # threads, and items of each, that have a part of a longer row


@dataclass(frozen=True)
class Select:
    """``team`` threads of a block of ``threads`` have a row of up to ``team * items`` elements; ``slots``: how many items may be left when the
    bounds are narrow enough.  Of a longer row each block has a part, and leaves so many items of it to the next kernel."""

    generator: ClassVar[str] = "select"

    threads: int
    team: int
    items: int
    slots: int

    @property
    def tile(self) -> int:
        return self.team * self.items


def choose(kernel: func.FuncOp, target: Target) -> Select | None:
    """A schedule if ``kernel`` keeps few of the elements that it sorts."""
    c = parse_sort_kernel(kernel) if target.kind == "nvptx" else None
    return pick(c.example) if c is not None and not c.maps else None


def pick(c: SortKernel) -> Select | None:
    """The schedule that the rows' length asks for; None where selecting is no less than sorting."""
    if c.length <= _SHORT or not can_select(c.length, c.begin, c.count, c.bits):
        return None
    slots = max(64, 2 * power(c.count))
    if c.length <= 512 and c.count <= 32:
        return Select(128, 32, -(-c.length // 32), 64)
    if c.length <= 1024 and c.begin + c.count <= 32:
        return Select(64, 64, -(-c.length // 64), slots)
    threads = next((t for t in (128, 256, 512) if c.length <= t * (16 if t == 128 else _HELD)), None)
    return Select(_CHUNK[0], *_CHUNK, slots) if threads is None else Select(threads, threads, -(-c.length // threads), slots)

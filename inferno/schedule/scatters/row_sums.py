"""The schedule of rows that are added to others in memory by atomic additions: the kernel computes what it adds, so that nothing of it is written before.
Additions to one row are serialized: where these are many, sorting rows first is faster (``sorted_rows``).
"""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.mlir import func, ir
from inferno.passes.programs import takes_unmeasured
from inferno.scatter_limits import MULTIPROCESSORS, worthwhile_sums
from inferno.schedule.scatters.added_rows import AddedRows, parse_added_rows
from inferno.symbolic import divisor, hint
from inferno.target import Target

_VECTORS = 90  # of this capability a GPU adds 16 bytes of float32 to memory by one instruction
# Vectors of a thread: of which row each is, and where in memory, is on its way for all at a time.  (On an H100 200000 rows of 128, read from 20000 and added to
# 20000, took 39 us with 1, 2, 4 and 8; 1M of 64 in bf16 232, 238, 113 and 115.)
_UNROLL, _ROUNDS = 4, 2
_OFTEN = 3  # rows of 16-bit numbers for each that they are added to, at least, that were timed


@dataclass(frozen=True)
class RowSums:
    """A thread adds ``unroll`` vectors of ``vector`` neighbours; ``threads`` are a block."""

    generator: ClassVar[str] = "row_sums"

    threads: int
    vector: int
    unroll: int


def choose(kernel: func.FuncOp, target: Target) -> RowSums | None:
    """A schedule if ``kernel`` adds rows that it computes to others, or rows of a tensor of numbers of 32 bits and more.

    (On an H100 two kernels for the edges of a graph took 106 us, this one 39, in bf16 77 and 43, of nodes that most edges go to 226 and 123.  65536 rows
    of a tensor of 1024 columns that are added to 8192 take 241 and 243.  On an H200 they take 145 and 140 in bf16, 200000 of 128 added to 20000 49 and 46,
    1M of 32 added to 10000 53 and 52, 65536 of 256 added to 20000 46 and 43.)"""
    found = fit(kernel, target) if target.kind == "nvptx" else None
    if found is None:
        return None
    (c, schedule), width = found, found[0].element.width // 8
    rows, columns, count = map(hint, (c.rows, c.columns, c.count))
    if not (c.computed or width >= 4 or count >= _OFTEN * rows or takes_unmeasured(kernel.operation)):
        return None
    return schedule if worthwhile_sums(rows, columns, count, width, c.computed) else None


def fit(kernel: func.FuncOp, target: Target | None = None) -> tuple[AddedRows, RowSums] | None:
    """What ``kernel`` computes, and its schedule, if it adds rows to others."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_added_rows(kernel)
    if c is None:
        return None
    vector = gcd(4, divisor(c.columns)) if in_memory(c).width == 32 and c.combiner.sums and (target is None or target.capability >= _VECTORS) else 1
    vectors, multiprocessors = hint(c.count * c.columns) // vector, target.multiprocessors if target is not None else MULTIPROCESSORS
    unroll = _UNROLL
    while unroll > 1 and vectors < _ROUNDS * multiprocessors * 2048 * unroll:
        unroll //= 2
    return c, RowSums(256, vector, unroll)


def in_memory(c: AddedRows) -> ir.Type:
    """The type that sums have in memory while they are made: those of 16-bit floats are rounded at the end."""
    return c.combiner.type

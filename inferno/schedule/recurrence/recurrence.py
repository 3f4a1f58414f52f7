"""The schedule of a recurrence in one launch: every block has some rows and some units of all steps, and with them their weights.

Blocks leave each other the state that products read, and wait for it, in each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.passes.programs import has_few_multiprocessors
from inferno.schedule.analysis.cost import CLOCK, fastest
from inferno.schedule.recurrence.kernel import Recurrence as Kernel
from inferno.schedule.recurrence.kernel import parse_recurrences
from inferno.target import WARP, Target

LANES = 4  # terms of a vector in shared memory
ALONG = 8  # lanes of a warp that share a column's terms; the others have other columns
_ACROSS = WARP // ALONG
_EACH = 8  # rows that a thread multiplies a weight with
_COLUMNS = 4  # of a thread, at most
_WARPS = 16  # of a block
_SHARED = 223 << 10  # bytes of a block, of 227 KB that there are
# Weights in registers: floats of a thread, by warps.  Beside them are the sums, and what is read of the state.
_HELD = ((8, 128), (_WARPS, 64))
_WORDS = 1 << 26  # of all steps: what blocks leave each other
# Microseconds: of a step beside all else, with the way of what a block leaves to all others; of 256 threads more than 256, which wait for each other, or of as
# many less, which have more to do each; of a launch
# with what marks the words.  On an H100, us a step of an LSTM of 8x512 in float32, by rows, units, columns and split: 2, 16, 4, 2 1.91; 2, 16, 2, 1 2.04;
# 2, 16, 4, 4 2.20; 4, 8, 4, 4 2.25; 4, 8, 2, 4 2.63; 8, 4, 4, 8 2.95; 8, 4, 2, 8 3.33; of 8x1024 8, 8, 4, 4 4.01; 8, 8, 4, 8 4.51; 8, 8, 2, 4 4.92.
_STEP, _THREADS, _LAUNCH = 0.6, 0.3, 4.0
# Bytes that L2 brings in one to blocks that ask again and again; multiply-adds of a multiprocessor and clock; clocks that a warp's vector takes in shared
# memory: of the state, where lanes with other columns read the same, and of weights.
_L2_RATE, _RATE, _STATE, _WEIGHTS = 2.2e6, 115, 2, 4


@dataclass(frozen=True)
class Recurrence:
    """A block has ``rows`` rows and ``units`` units, of which every product is a column.  ``columns`` are a thread's, of each of them the terms of one lane of
    ``ALONG`` in one of ``split`` warps.  ``held``: its weights are in registers, otherwise in shared memory."""

    generator: ClassVar[str] = "recurrence"

    rows: int
    units: int
    columns: int
    split: int
    held: bool

    def across(self, c: Kernel) -> int:
        """Warps beside each other that have a block's columns."""
        return ceil(self.units * len(c.weights) / (_ACROSS * self.columns))

    def threads(self, c: Kernel) -> int:
        return WARP * self.split * self.across(c)

    def width(self, c: Kernel) -> int:
        """Columns of a block, those included that are none of its units'."""
        return self.across(c) * _ACROSS * self.columns

    @property
    def each(self) -> int:
        """Rows that a thread multiplies at once."""
        return min(self.rows, _EACH)

    def depth(self) -> int:
        """Terms that all threads of a column have in a vector each."""
        return ALONG * LANES * self.split

    def chunks(self, c: Kernel) -> int:
        """Vectors of a thread along the terms."""
        return ceil(c.units / self.depth())

    def line(self, c: Kernel) -> int:
        """Floats of a row of the state, or of a column of weights, in shared memory."""
        return self.chunks(c) * self.depth()

    def blocks(self, c: Kernel) -> tuple[int, int]:
        """Along rows, and along units."""
        return ceil(c.rows / self.rows), ceil(c.units / self.units)

    def parts(self, c: Kernel) -> int:
        """Floats of the sums of all warps, in shared memory."""
        return self.split * ceil(self.rows / self.each) * self.each * self.width(c)

    def shared_bytes(self, c: Kernel) -> int:
        padded = ceil(self.rows / self.each) * self.each
        return 4 * (padded * self.line(c) + self.parts(c) + (0 if self.held else self.width(c) * self.line(c)))

    def words(self, c: Kernel) -> int:
        """What blocks leave each other in all steps but the last one."""
        return max(1, c.steps - 1) * c.rows * c.units

    def fits(self, parts: Sequence[Kernel], target: Target) -> bool:
        """Whether it is one of several recurrences at the same time."""
        if not parts or min(self.rows, self.units, self.columns, self.split) < 1 or len({self.threads(c) for c in parts}) != 1:
            return False
        if any(self.rows > c.rows or self.units > c.units for c in parts) or self.threads(parts[0]) > WARP * _WARPS:
            return False
        blocks = sum(prod(self.blocks(c)) for c in parts)
        return blocks <= target.multiprocessors and all(self.shared_bytes(c) <= _SHARED for c in parts) and sum(map(self.words, parts)) <= _WORDS


def read(kernel: func.FuncOp, target: Target) -> tuple[Kernel, ...]:
    """What ``kernel`` computes, if this generator could take it; several where they do not wait for each other."""
    if target.kind != "nvptx" or target.capability < 90 or has_few_multiprocessors(kernel.operation):
        return ()
    return parse_recurrences(kernel)


def choose(kernel: func.FuncOp, target: Target) -> Recurrence | None:
    """The schedule of the least estimate, if ``kernel`` is a recurrence, or several, whose weights all blocks together have room for."""
    found = candidates(read(kernel, target), target)
    return fastest(found)[1]


def candidates(parts: Sequence[Kernel], target: Target) -> list[tuple[float, Recurrence]]:
    """Schedules with their estimates in microseconds."""
    found: list[tuple[float, Recurrence]] = []
    if not parts:
        return found
    c, multiprocessors = parts[0], target.multiprocessors // len(parts)
    for groups in range(1, min(c.rows, multiprocessors) + 1):
        rows = ceil(c.rows / groups)
        if ceil(c.rows / rows) != groups:
            continue
        units = ceil(c.units / (multiprocessors // groups))
        for columns in range(1, _COLUMNS + 1):
            for split in (1, 2, 4, 8, 16):
                whole = Recurrence(rows, units, columns, split, False)
                if whole.threads(c) > WARP * _WARPS or (split > 1 and whole.depth() > 2 * c.units):
                    continue
                room = next(n for warps, n in _HELD if whole.threads(c) <= WARP * warps)
                s = Recurrence(rows, units, columns, split, columns * whole.chunks(c) * LANES <= room)
                if s.fits(parts, target):
                    found.append((max(estimate(s, c) for c in parts), s))
    return found


def estimate(s: Recurrence, c: Kernel) -> float:
    """Microseconds."""
    blocks = s.blocks(c)
    brought = blocks[0] * blocks[1] * s.rows * c.units * 4 / _L2_RATE
    rows = ceil(s.rows / s.each) * s.each
    products = rows * s.width(c) * s.line(c) / _RATE / CLOCK
    # A vector of the state is read for all of a thread's columns, one of weights for all of its rows.
    vectors = s.threads(c) / WARP * s.chunks(c) * (rows * _STATE + (0 if s.held else rows / s.each * _WEIGHTS * s.columns)) / CLOCK
    waits = _STEP + _THREADS * (1 + abs(s.threads(c) - 256) / 256)
    return _LAUNCH + c.steps * (waits + brought + products + vectors)

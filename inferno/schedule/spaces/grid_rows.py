"""Kernels in which all blocks have a part of each row: blocks of a row, and rows at once."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.rows.grid_rows import GridRows, estimate, read, schedules
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, GridRows]]:
    """Schedules with the cost model's estimates."""
    c = read(kernel, target)
    if c is not None:
        yield from ((estimate(s, c, target), s) for s in schedules(c, target))


def valid(kernel: func.FuncOp, schedule: GridRows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = read(kernel, target)
    return c is not None and schedule.fits(c, target)

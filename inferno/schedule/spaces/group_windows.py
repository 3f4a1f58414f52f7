"""Convolutions in groups on tensor cores: the tile of a block."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.convolution.group_windows import GroupWindows, estimate, fits, read, schedules
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, GroupWindows]]:
    """Schedules with the cost model's estimates."""
    k = read(kernel, target)
    if k is not None:
        yield from ((estimate(s, k, target), s) for s in dict.fromkeys(schedules(k, target)))


def valid(kernel: func.FuncOp, schedule: GroupWindows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    k = read(kernel, target)
    return k is not None and fits(schedule, k, target)

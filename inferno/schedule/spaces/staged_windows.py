"""Windows whose rows the copy engine brings: channels, outputs and rows of a thread, threads and stages of a block."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.convolution.staged_windows import StagedWindows, estimate, fits, read, schedules
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, StagedWindows]]:
    """Schedules with the cost model's estimates."""
    c = read(kernel, target)
    if c is not None:
        yield from ((estimate(s, c, target), s) for s in schedules(c))


def valid(kernel: func.FuncOp, schedule: StagedWindows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = read(kernel, target)
    return c is not None and fits(schedule, c)

"""Windows on CUDA cores: lanes, outputs side by side and rows a thread, threads a block."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.convolution.windows import Windows, estimate, fits, read, schedules
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Windows]]:
    """Schedules with the cost model's estimates."""
    c = read(kernel, target)
    if c is not None:
        yield from ((estimate(s, c, target), s) for s in schedules(c))


def valid(kernel: func.FuncOp, schedule: Windows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = read(kernel, target)
    return c is not None and fits(schedule, c)

"""Gradients of depthwise convolutions' weights: a thread's places, a block's tile, and how many blocks share the sums of a channel."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.convolution.tap_kernel import read
from inferno.schedule.convolution.tap_sums import TapSums, candidates, fits
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, TapSums]]:
    """Schedules with the cost model's estimates."""
    k = read(kernel, target)
    if k is not None:
        yield from candidates(k, target)


def valid(kernel: func.FuncOp, schedule: TapSums, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    k = read(kernel, target)
    return k is not None and fits(schedule, k, target)

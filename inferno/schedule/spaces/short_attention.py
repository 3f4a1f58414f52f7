"""Attention of many short rows, from registers: what the generator's own cost model compares."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.short_attention import ShortAttention, candidates, fits, read
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, ShortAttention]]:
    """Schedules with their estimates."""
    return candidates(kernel, target)


def valid(kernel: func.FuncOp, schedule: ShortAttention, target: Target) -> bool:
    """Whether it is one of them."""
    t = read(kernel, target)
    return t is not None and fits(schedule, t)

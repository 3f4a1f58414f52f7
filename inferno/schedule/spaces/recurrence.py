"""Recurrences: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.recurrence.recurrence import Recurrence, candidates, read
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, Recurrence]]:
    """Schedules with their estimates."""
    return candidates(read(kernel, target), target)


def valid(kernel: func.FuncOp, schedule: Recurrence, target: Target) -> bool:
    """Whether blocks have room for it, and run all at once."""
    return schedule.fits(read(kernel, target), target)

"""Spaces of generators whose modules list schedules of what they read a kernel as (``read``, ``schedules``), and say of each what it takes and whether it is
generated (``estimate``, ``fits``)."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from inferno.mlir import func
from inferno.target import Target


def space_of(generator: ModuleType) -> Callable[[func.FuncOp, Target], Iterator[tuple[float, Any]]]:
    """The search space of a generator that estimates each of its schedules."""
    def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Any]]:
        """Schedules with the cost model's estimates."""
        c = generator.read(kernel, target)
        if c is not None:
            yield from ((generator.estimate(s, c, target), s) for s in generator.schedules(c))

    return space


def valid_of(generator: ModuleType) -> Callable[[func.FuncOp, Any, Target], bool]:
    """Which schedules such a generator takes."""
    def valid(kernel: func.FuncOp, schedule: Any, target: Target) -> bool:
        """Whether the generator takes the kernel with it."""
        c = generator.read(kernel, target)
        return c is not None and generator.fits(schedule, c)

    return valid

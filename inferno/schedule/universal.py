"""The schedule of the universal generator, which takes every kernel that no other one wants."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.target import Target


@dataclass(frozen=True)
class Universal:
    """``threads`` a block where each thread computes one point; ``reduction_threads`` where a block computes one sum.

    A sum has a block of its own when it is at least ``long`` terms or when there are fewer than ``few`` of them.
    """

    generator: ClassVar[str] = "universal"
    threads: int = 256
    reduction_threads: int = 256
    long: int = 512
    few: int = 16384


def choose(kernel: func.FuncOp, target: Target) -> Universal:
    """Every kernel, always."""
    return Universal()

"""The schedule of the universal generator, which takes every kernel that no other one wants."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.target import Target


@dataclass(frozen=True)
class Universal:
    """``threads`` a block.

    A sum along memory of ``long`` terms or more has a block of its own, a shorter one some threads of a warp.  Sums across memory
    have one thread each where there are at least ``few`` of them, else several.
    """

    generator: ClassVar[str] = "universal"
    threads: int = 256
    long: int = 1024
    few: int = 16384


def choose(kernel: func.FuncOp, target: Target) -> Universal | None:
    """Every kernel of a GPU, always."""
    return Universal() if target.kind == "nvptx" else None

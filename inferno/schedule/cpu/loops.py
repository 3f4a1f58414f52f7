"""The schedule of a kernel on the CPU: loops, their outermost range cut into chunks that threads share."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.target import Target


@dataclass(frozen=True)
class Loops:
    """``unroll`` is left to LLVM; there is nothing to choose yet."""

    generator: ClassVar[str] = "loops"


def choose(kernel: func.FuncOp, target: Target) -> Loops:
    """Every kernel can be loops."""
    return Loops()

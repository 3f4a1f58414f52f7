"""The schedule of a kernel that a library computes."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func
from inferno.target import Target


@dataclass(frozen=True)
class Library:
    """``function`` is the library's function: "matmul"."""

    generator: ClassVar[str] = "library"
    function: str = "matmul"


def choose(kernel: func.FuncOp, target: Target) -> Library | None:
    """A kernel that is one contraction and nothing else is torch's matmul."""
    return None

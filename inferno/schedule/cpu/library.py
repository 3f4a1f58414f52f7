"""The schedule of a kernel whose contraction a library computes; what is elementwise before and after it is loops."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func, ir
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.convolution.convolution import parse_convolution
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import Target


@dataclass(frozen=True)
class Library:
    """``function`` is the library's function: "matmul" or "convolution"."""

    generator: ClassVar[str] = "library"
    function: str = "matmul"

    @property
    def multiplies(self) -> bool:
        """Whether it is the library that multiplies matrices."""
        return self.function == "matmul"


# Below this many multiply-adds loops are done before a call of the library has begun (5 us, in which loops do 10000).
SMALL = 8192
# The same of a convolution, whose call does more: 8 channels of 10x10 with 3x3 windows (37 thousand) took 62 us, and 20 in loops; 128x28x28 in 32 groups
# (4 million) 1055 and 1731.
_SMALL_CONVOLUTION = 1 << 18
# A shorter reduction is more like an elementwise operation, which the library does no better.
SHORT = 4


def choose(kernel: func.FuncOp, target: Target) -> Library | None:
    """A kernel around one contraction of matrices is torch's matmul, a kernel that is a convolution torch's convolution."""
    convolution = None if symbol_arguments(kernel.operation) else parse_convolution(kernel)  # where sizes vary it is loops
    if convolution is not None:
        return Library("convolution") if convolution.multiplications >= _SMALL_CONVOLUTION else None
    found = parse_contraction(kernel)
    return Library("matmul") if found is not None and is_matmul(found) else None


def is_matmul(c: Contraction) -> bool:
    """Whether the contraction is a matmul that torch computes as the kernel does, and is worth a call."""
    batch, m, n, k = c.hints
    if batch * m * n * k < SMALL or k < SHORT or min(m, n) == 1:
        return False
    if any(o.extend == "arith.extui" for o in (c.lhs, c.rhs)):
        return False  # torch would take the bytes as signed
    types = {str(o.element) for o in (c.lhs, c.rhs)}
    if isinstance(c.accumulator, ir.IntegerType):
        return types <= {"i8", "i16", "i32", "i64"}
    return len(types) == 1 and types <= {"f32", "f64", "bf16", "f16"} and (types == {str(c.accumulator)} or str(c.accumulator) == "f32")

"""Two products with few vectors that share an operand and meet elementwise, on CUDA cores: ``vectors`` with two factors, of which a thread has the
same columns."""

from inferno.codegen.matmul.vectors import emit
from inferno.errors import CompileError
from inferno.mlir import func
from inferno.schedule.matmul.dual import parse_pair
from inferno.schedule.matmul.dual_vectors import DualVectors, takes
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: DualVectors, target: Target) -> None:
    """Add the ``gpu.module`` of two products with vectors and make ``kernel`` its launcher."""
    pair = parse_pair(kernel)
    if pair is None or not takes(kernel, pair) or schedule.swapped:
        raise CompileError(f"@{kernel.name.value} is not two float32 products of few rows with factors that lie alike")
    emit(kernel, pair.contraction, (pair.contraction.rhs, pair.second), schedule)

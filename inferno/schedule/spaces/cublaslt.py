"""Contractions that cuBLASLt computes: the algorithms that its heuristic offers."""

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.cublaslt import CublasLt, recognise
from inferno.schedule.matmul.cublaslt import space as algorithms
from inferno.schedule.matmul.library_times import estimate
from inferno.target import Target

_WORSE = 0.02  # how much each further algorithm is taken to be worse: they are in the heuristic's order


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, CublasLt]]:
    """Schedules with their estimates."""
    found = algorithms(kernel, target) if target.kind == "nvptx" else []
    if not found:
        return []
    time = estimate(parse_contraction(kernel), recognise(kernel))
    return [(time * (1 + _WORSE * i), s) for i, s in enumerate(found)]


def valid(kernel: func.FuncOp, schedule: CublasLt, target: Target) -> bool:
    """Whether the library computes the kernel, by one of these algorithms."""
    return target.kind == "nvptx" and schedule in algorithms(kernel, target)

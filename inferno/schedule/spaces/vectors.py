"""Products with few vectors on CUDA cores: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.vectors import Vectors, candidates
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, Vectors]]:
    """Schedules with their estimates."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    return candidates(c, target) if c is not None and not c.varies else []

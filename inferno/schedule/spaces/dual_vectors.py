"""Two float32 products with few vectors of one operand: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.matmul.dual import parse_pair
from inferno.schedule.matmul.dual_vectors import DualVectors, candidates
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, DualVectors]]:
    """Schedules with their estimates."""
    pair = parse_pair(kernel) if target.kind == "nvptx" else None
    return candidates(kernel, pair, target) if pair is not None else []

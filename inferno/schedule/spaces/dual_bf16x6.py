"""Two float32 contractions of one operand by products of bf16: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.matmul.dual import parse_pair
from inferno.schedule.matmul.dual_bf16x6 import DualBf16x6, candidates
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, DualBf16x6]]:
    """Schedules with their estimates."""
    pair = parse_pair(kernel) if target.kind == "nvptx" else None
    return candidates(kernel, pair, target) if pair is not None else []

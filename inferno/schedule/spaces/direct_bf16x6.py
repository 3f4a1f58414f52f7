"""Small float32 contractions by mma.sync: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct_bf16x6 import DirectBf16x6, candidates, fits, takes
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, DirectBf16x6]]:
    """Schedules with their estimates."""
    return candidates(kernel, parse_contraction(kernel) if target.kind == "nvptx" else None, target)


def valid(kernel: func.FuncOp, schedule: DirectBf16x6, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    return takes(kernel, c, target) and fits(schedule, c)

"""Narrow products by mma.sync from registers: what the generator's own cost model compares."""

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct import Direct, candidates, fits, takes
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, Direct]]:
    """Schedules with their estimates."""
    return candidates(kernel, parse_contraction(kernel) if target.kind == "nvptx" else None, target)


def valid(kernel: func.FuncOp, schedule: Direct, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    return takes(kernel, c, target) and fits(schedule, c)

"""Attention of many short rows, from registers: blocks of fewer and more warps."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.attention.short_attention import ShortAttention, candidates
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, ShortAttention]]:
    """Schedules with their estimates."""
    return candidates(kernel, target)

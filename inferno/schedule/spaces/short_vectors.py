"""Products of few vectors with short sums on CUDA cores: what the generator's own cost model compares, with fewer and more threads."""

from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.short_vectors import ShortVectors, candidates
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, ShortVectors]]:
    """Schedules with their estimates."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    found = candidates(c, target) if c is not None and not c.varies else []
    return [(time, replace(s, threads=t)) for time, s in found for t in (s.threads, 64, 128)]

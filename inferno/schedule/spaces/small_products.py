"""Products of many small matrices on CUDA cores: what the generator's own cost model compares, with fewer and more threads."""

from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.matmul.small_products import SmallProducts, candidates, parse
from inferno.target import Target

_BEST = 24  # of the estimates: a hundred ways to cut a matrix differ by little


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, SmallProducts]]:
    """Schedules with their estimates."""
    c = parse(kernel) if target.kind == "nvptx" else None
    found = sorted(candidates(c, target), key=lambda item: item[0])[:_BEST] if c is not None else []
    return [(time, replace(s, threads=t)) for time, s in found for t in (s.threads, 64, 256)]

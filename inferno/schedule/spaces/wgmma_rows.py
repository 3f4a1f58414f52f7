"""Everything that the generator of contractions with operations on their rows takes: one width, by rows, parts of a sum and order."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.matmul.wgmma_rows import WgmmaRows, candidates, read
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, WgmmaRows]]:
    """Schedules with their estimates."""
    c = read(kernel, target)
    if c is not None and c.reduces:
        yield from candidates(c, target)


def valid(kernel: func.FuncOp, schedule: WgmmaRows, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    return any(s == schedule for _, s in space(kernel, target))

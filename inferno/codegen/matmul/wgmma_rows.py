"""Contractions on Hopper's tensor cores with row-wise operations in the epilogue."""

from typing import ClassVar

from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul import wgmma
from inferno.codegen.matmul.row_epilogue import RowEpilogue
from inferno.codegen.rows.row_divisions import multiply_by_reciprocals
from inferno.codegen.rows.row_exponentials import approximate_exponentials
from inferno.errors import CompileError
from inferno.mlir import func
from inferno.schedule.matmul.wgmma_rows import WgmmaRows, read
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target


class _Emitter(wgmma.Emitter):
    epilogue_type: ClassVar[type] = RowEpilogue


def generate(kernel: func.FuncOp, schedule: WgmmaRows, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and of what follows it, and make ``kernel`` its launcher."""
    c = read(kernel, target)
    tiling = tile_contraction(c, 2, only_along_k=False, rewrite=schedule.rewrite) if c is not None else None
    if tiling is None or tiling.n.size > schedule.tile_n:
        raise CompileError(f"@{kernel.name.value} is not a contraction whose rows fit {schedule}")
    wgmma.prepare_bodies(c)
    for step in c.steps:
        multiply_by_reciprocals(step, c)
        approximate_exponentials(step, c)
        recognise_maximum(step.generic)
        expand_math(step.generic)
    wgmma.emit(kernel, _Emitter(kernel.name.value, c, tiling, schedule, target, str(c.lhs.element)))

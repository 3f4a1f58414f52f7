"""Two float32 contractions that share an operand and meet elementwise, as SwiGLU's, by six products of bf16 each on Hopper's tensor cores.

Built like ``bf16x6``, for one contraction whose rhs is both factors: a slot has ``tile_n`` rows of the first and, right behind them, as many of
the second, and so has a thread both sums of a result.
"""

from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul import bf16x6, dual
from inferno.codegen.matmul.bf16x6 import raw_map
from inferno.codegen.matmul.wgmma import emit, prepare_bodies
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.bf16x6 import DEPTH, raw_bytes
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.matmul.dual import parse_pair
from inferno.schedule.matmul.dual_bf16x6 import DualBf16x6, divides, tile
from inferno.schedule.matmul.wgmma_schedule import Shared
from inferno.schedule.tiles.tiling import Source
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: DualBf16x6, target: Target) -> None:
    """Add the ``gpu.module`` of two contractions and make ``kernel`` its launcher."""
    pair = parse_pair(kernel)
    tiles = tile(kernel, pair) if pair is not None else None
    if tiles is None:
        raise CompileError(f"@{kernel.name.value} is not two float32 contractions of one operand that can be copied to shared memory")
    if not divides(schedule, tiles):
        raise CompileError(f"@{kernel.name.value}: {schedule} cannot divide {tiles.tiling.k_steps(DEPTH)} steps, or needs more registers")
    prepare_bodies(pair.contraction)
    emit(kernel, _Emitter(kernel.name.value, pair.contraction, tiles.tiling, schedule, target, "bf16", pair.second, tiles.second))


@dataclass
class _Emitter(bf16x6._Emitter):
    epilogue_type = dual._Epilogue

    second: Operand
    second_source: Source

    def prepare(self) -> None:
        s = self.schedule
        self.rhs = Tile(2 * s.tile_n, 2, True, 2 * DEPTH)
        self.raw_bytes = raw_bytes(s.wide, self.contraction, self.tiling)
        super().prepare()

    def lay_out(self) -> Shared:
        return self.schedule.wide.shared(sum(self.raw_bytes))

    def plain_reads(self) -> list[Access]:
        return [*super().plain_reads(), *self.second.reads]

    @property
    def factors(self) -> list[tuple[str, Operand, Source]]:
        return [*super().factors, ("second", self.second, self.second_source)]

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value, second: ir.Value) -> list[ir.Value]:
        return [*super().operand_maps(lhs, rhs), raw_map(second, self.second_source, (DEPTH, self.schedule.tile_n), 0)]

    def copy_raw(
        self, map_: ir.Value, source: Source, outer: list[Integer], first: Integer, k0: Integer, target: Integer, barrier: ir.Value,
    ) -> None:
        super().copy_raw(map_, source, outer, first, k0, target, barrier)
        if source is self.right_source:
            behind = self.words.add(target, self.schedule.tile_n * DEPTH * 4)
            super().copy_raw(self.maps[2], self.second_source, outer, first, k0, behind, barrier)

    def column(self, j: int) -> tuple[Operand, int]:
        each = self.schedule.tile_n // 8
        return (self.contraction.rhs, j) if j < each else (self.second, j - each)

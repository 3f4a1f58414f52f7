"""Two contractions that share an operand and meet elementwise, as in SwiGLU, on Hopper's tensor cores: one kernel.

Built like ``wgmma``, for one contraction whose rhs is both factors: a slot's tile of it is ``tile_n`` rows of the first and, right behind
them, as many of the second.  So each product is for both, and a thread has both sums of a result: those of the second are half of all
registers further on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.tile_copies import operand_map
from inferno.codegen.matmul.wgmma import Emitter, emit, prepare_bodies
from inferno.codegen.matmul.wgmma_epilogue import Epilogue, neighbours
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.matmul.dual import Dual, divides, parse_pair, takes, tile_pair, without_offset
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.tiles.shared_tiles import panel
from inferno.schedule.tiles.tiling import BEHIND, Source
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Dual, target: Target) -> None:
    """Add the ``gpu.module`` of two contractions and make ``kernel`` its launcher."""
    pair = parse_pair(kernel)
    tiles = tile_pair(pair, schedule.rewrite) if pair is not None and takes(kernel, pair) else None
    if tiles is None:
        raise CompileError(f"@{kernel.name.value} is not two contractions of one operand for tensor cores")
    if not divides(schedule, tiles.tiling):
        raise CompileError(f"@{kernel.name.value}: {schedule} cuts a panel of the second factor, or deals tiles out")
    c = pair.contraction
    prepare_bodies(c)
    emit(kernel, _Emitter(kernel.name.value, c, tiles.tiling, schedule, target, precision(kernel, c), pair.second, tiles.second))


@dataclass(frozen=True)
class _Both(Tile):
    """A tile of ``rows`` rows, half of either factor."""

    @property
    def half(self) -> Tile:
        return Tile(self.rows // 2, self.width, self.along_k)

    @property
    def panel(self) -> int:
        return panel(self.rows // 2, self.along_k)


class _Epilogue(Epilogue):
    def apply_half(self, block: int, j: int, half: int, values: Sequence[ir.Value]) -> list[ir.Value]:
        second = j + self.schedule.tile_n // 8
        return self.apply(64 * block + self.apart * half, j, neighbours(values, j, half), neighbours(values, second, half))


@dataclass
class _Emitter(Emitter):
    epilogue_type = _Epilogue

    second: Operand
    second_source: Source

    def prepare(self) -> None:
        self.rhs = _Both(2 * self.schedule.tile_n, self.rhs.width, self.rhs.along_k)
        super().prepare()

    @property
    def factors(self) -> list[tuple[str, Operand, Source]]:
        return [*super().factors, ("second", self.second, self.second_source)]

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value, second: ir.Value) -> list[ir.Value]:
        t, (left, right) = self.tiling, self.schedule.sharing
        return [
            operand_map(lhs, t.lhs, self.lhs, self.kind, left), operand_map(rhs, t.rhs, self.rhs.half, self.kind, right),
            operand_map(second, self.second_source, self.rhs.half, self.kind, right),
        ]

    def copy_tile(
        self, map_: ir.Value, tile: Tile, outer: list[Integer], first: Integer, k0: Integer, slot: Integer, barrier: ir.Value, blocks: int,
    ) -> None:
        if tile is not self.rhs:
            super().copy_tile(map_, tile, outer, first, k0, slot, barrier, blocks)
            return
        axes = without_offset(self.tiling.rhs)[2:]
        for place, (factor, source) in enumerate(((map_, self.tiling.rhs), (self.maps[2], self.second_source))):
            target = self.words.add(slot, place * tile.half.bytes)
            where = [*outer[: len(axes)], *([1] if BEHIND in source.axes else [])]
            super().copy_tile(factor, tile.half, where, first, k0, target, barrier, blocks)

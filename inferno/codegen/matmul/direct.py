"""Narrow products on tensor cores from registers: generator ``direct_bf16x6`` with several tiles a block, or several blocks a tile, and of 16 bits, too.

Where blocks share a tile's terms each leaves its sums in the workspace, always the same ones in the same order, and a second kernel adds them
(``direct_parts.py``).
"""

from dataclasses import dataclass, replace

from inferno.codegen.builders.elements import store_vector
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, temporary
from inferno.codegen.matmul.direct_bf16x6 import ORDER, Emitter
from inferno.codegen.matmul.direct_factor import pairs
from inferno.codegen.matmul.direct_parts import generate_sums
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct import Direct, fits, kind_of, registers, takes, terms_of, ways
from inferno.schedule.matmul.direct_bf16x6 import Way
from inferno.symbolic import ceildiv
from inferno.target import Target

_HALF = 90  # registers for numbers and sums of which a multiprocessor has two blocks' of 8 warps


def generate(kernel: func.FuncOp, schedule: Direct, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction, with a second kernel where blocks share terms, and make ``kernel`` its launcher."""
    c, s, name = parse_contraction(kernel), schedule, kernel.name.value
    if not takes(kernel, c, target) or not fits(s, c):
        raise CompileError(f"@{name} is not a contraction that {s} computes")
    expand_maps(c.lhs.prologue, c.rhs.prologue, c.epilogue)
    kind = kind_of(kernel, c)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    tiles = count_tiles(c, s)
    blocks = ceildiv(tiles, s.tiles) * s.parts
    sums = s.parts * tiles * s.tile_m * s.tile_n if s.parts > 1 else 0
    width = index_width(buffers, blocks, sums)
    minimum = 2 if blocks > target.multiprocessors and s.threads == 256 and registers(s, c) <= _HALF else 0
    shared = [(s.tiles * s.together * s.tile_m * s.pitch, c.accumulator)]
    workspace = [Buffer(c.accumulator, sums, False)] if sums else []
    with gpu_function(kernel, [*buffers, *workspace], s.threads, shared, minimum) as function:
        ints = integers_for(kernel, width, function.buffers)
        split = kind == "f32"
        numbers = c if split else replace(c, lhs=replace(c.lhs, extend=None), rhs=replace(c.rhs, extend=None))
        order = ORDER if split else ((0, 0),)
        _Emitter(ints, numbers, s, function.buffers, function.shared[0], target, "bf16" if split else kind, order, terms_of(c, s)).emit()
    adders = generate_sums(kernel, c, s, buffers, sums, width) if sums else None
    with launcher(kernel) as arguments:
        given = [parameter(a) for a in arguments]
        kept = temporary([sums], c.accumulator) if sums else None
        launch(f"{name}_gpu", name, [*given, *([pointer(kept)] if sums else [])], (blocks, 1, 1), (s.threads, 1, 1))
        if adders:
            launch(f"{name}_gpu", f"{name}_sums", [*given, pointer(kept)], (adders[0], 1, 1), (adders[1], 1, 1))


def count_tiles(c: Contraction, s: Direct) -> int:
    """Tiles of all matrices."""
    return c.B * ceildiv(c.M, s.tile_m) * ceildiv(c.N, s.tile_n)


@dataclass
class _Emitter(Emitter):
    """``order`` has one product where numbers are multiplied as they are."""

    @property
    def is_split(self) -> bool:
        return len(self.order) > 1

    def assign(self, thread: Integer, block: Integer) -> tuple[Integer, Integer]:
        ints, s, tiles = self.ints, self.schedule, count_tiles(self.contraction, self.schedule)
        self.first, self.turns, self.most, self.base, self.part = 0, self.groups, self.groups, 0, 0
        if s.parts > 1:
            each, more = divmod(self.groups, s.parts)
            self.part, self.tile = ints.div(block, tiles), ints.rem(block, tiles)
            following = ints.add(self.part, 1)
            self.first, end = (ints.add(ints.mul(part, each), ints.min(part, more) if more else 0) for part in (self.part, following))
            self.turns, self.most = ints.sub(end, self.first) if more else each, each + (more > 0)
            return thread, self.tile
        if s.tiles == 1:
            return thread, block
        each = 32 * s.warps
        mine = ints.div(thread, each)
        self.base = ints.mul(mine, s.together * s.tile_m * s.pitch)
        tile = ints.add(ints.mul(block, s.tiles), mine)
        if tiles % s.tiles:
            self.conditions.append(ints.less(tile, tiles))
            tile = ints.min(tile, tiles - 1)
        return ints.rem(thread, each), tile

    def ways(self) -> tuple[Way, Way]:
        return ways(self.contraction, self.schedule)

    # The products.

    def split(self, row: list[ir.Value], larger: bool) -> list[list[ir.Value]]:
        if self.is_split:
            return super().split(row, larger)
        return [pairs(row)]

    def begin(self, sums: list[ir.Value]) -> list[list[ir.Value]]:
        return super().begin(sums) if self.is_split else [list(sums[i:i + 4]) for i in range(0, len(sums), 4)]

    def end(self, sums: list[ir.Value], made: list[ir.Value]) -> list[ir.Value]:
        return super().end(sums, made) if self.is_split else made

    # The results.

    def put(self, epilogue: Epilogue, at: Integer, m: Integer, n: Integer, sums: ir.Value) -> None:
        ints, s = self.ints, self.schedule
        sums = self.add_again(sums, m, n) if self.is_split else sums
        if s.parts == 1:
            epilogue.emit(m, n, sums)
            return
        tile = ints.add(ints.mul(self.part, count_tiles(self.contraction, s)), self.tile)
        store_vector(ints, sums, self.buffers[-1], ints.add(ints.mul(tile, s.tile_m * s.tile_n), at), ir.VectorType(sums.type).shape[0])

    def own_terms(self) -> tuple[Integer, Integer]:
        if self.schedule.parts == 1:
            return super().own_terms()
        ints, each = self.ints, self.depth * self.schedule.warps * self.schedule.ahead
        begin = ints.mul(self.first, each)
        return begin, ints.min(self.contraction.K, ints.add(begin, ints.mul(self.turns, each)))

"""Products of groups of rows, each with a matrix of its own, on Hopper's tensor cores: ``wgmma`` on tiles that a kernel in front lists.

A tile is ``tile_m`` rows from a row of its group on; the copy engine brings those behind the group's last one, too, whose results are not written.  All
tiles of a column of tiles run together, for they read the same columns of the matrices, or with ``group`` so many of the list, all columns of which come
before the next ones': their rows stay in L2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import pointer
from inferno.codegen.matmul import dual, group_list, wgmma
from inferno.codegen.matmul.operand_copy import OperandCopy
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.nvvm.builder import WRITTEN_BUFFER, Device, loop, operation, uniform
from inferno.codegen.nvvm.global_memory import Elements
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.schedule.matmul.grouped import Grouped, read, tile
from inferno.schedule.matmul.selected_products import SelectedProduct
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.symbolic import Int
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Grouped, target: Target) -> None:
    """Add the ``gpu.module`` of products of groups, and make ``kernel`` its launcher."""
    p, s = read(kernel, target), schedule
    tiles = tile(p) if p is not None else None
    if tiles is None:
        raise CompileError(f"@{kernel.name.value} is no product of groups of rows for tensor cores")
    if s.pingpong or s.blocks > 1 or s.stream or s.inside or s.swapped or s.bring or s.lhs_rows or not s.persistent or s.tile_m & (s.tile_m - 1):
        raise CompileError(f"@{kernel.name.value}: {s} does not know its tiles")
    c = p.contraction
    wgmma.prepare_bodies(c)
    given = kernel.name.value, c, tiles if p.second is None else tiles.tiling, s, target, precision(kernel, c)
    emitter = _One(*given) if p.second is None else _Two(*given, p.second, tiles.second)
    emitter.selected = p
    wgmma.emit(kernel, emitter)


class _Rows:
    """An epilogue that writes the rows of a group alone."""

    listed: Any = None

    @property
    def hangs_over(self) -> bool:
        return True

    def begin(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """Lane l also finds out about row l of its warp's 16, and the same of the next 64; where warps write lines they tell each other."""
        super().begin(grid, m0, n0)
        words = self.words
        row = words.add(words.shl(self.group.warp, 4), words.mask(self.group.lane, 15))
        blocks = range(self.schedule.rows // 64 if self.lines else 0)
        self.written = [words.select(self.is_written(words.add(words.add(m0, 64 * block), row)), 1, 0) for block in blocks]

    def is_written(self, row: Integer) -> ir.Value:
        words, last = self.words, self.tiling.m.size - 1
        number = self.listed.read(words.add(words.min(row, last), group_list.numbers(last + 1)))
        return arith.andi(words.less(row, last + 1), words.equal(number, self.grid[0]))

    def conditions(self, row: Integer) -> list[ir.Value]:
        return [self.is_written(row)]

    def line_conditions(self, block: int, row: Integer, line: Integer) -> list[ir.Value]:
        words = self.words
        told = operation(
            "nvvm.shfl.sync", [words.type], [words.value(-1), self.written[block], words.value(line), words.value(31)], kind="#nvvm<shfl_kind idx>")
        return [words.equal(told, 1)]


class _Epilogue(_Rows, Epilogue):
    pass


class _Both(_Rows, dual._Epilogue):
    pass


class _Groups:
    """What an emitter of ``wgmma`` does to know its tiles."""

    scratch: ClassVar[tuple[str, ...]] = (WRITTEN_BUFFER,)
    selected: SelectedProduct
    alone = False

    @property
    def listing(self) -> str:
        return f"{self.name}_groups"

    def launch(self, arguments: Sequence[ir.Value], copies: dict[str, OperandCopy]) -> None:
        self.arguments = arguments
        super().launch(arguments, copies)

    def launch_scratch(self) -> list[ir.Value]:
        return [pointer(group_list.launch_list(self.name, self.listing, self.arguments, self.selected, self.tiling.m.size))]

    def emit(self, module: ir.Block) -> None:
        group_list.emit_list(module, self.listing, self.selected, self.tiling.m.size, self.tiling.grid[0].size, self.schedule.tile_m)
        super().emit(module)

    def begin(self, device: Device, maps: int) -> None:
        super().begin(device, maps)
        words = self.words
        self.listed = Elements(words, device.parameters[-1], words.type, readonly=False)  # what never changed could be read before it is there
        self.count = uniform(words, self.listed.read(0))
        self.total = words.mul(self.count, self.columns)

    def begin_consumer(self) -> None:
        super().begin_consumer()
        self.epilogue.listed = replace(self.listed, readonly=True)

    def produce(self) -> None:
        self.alone = True  # one lane, which no shuffle may wait for others in
        super().produce()
        self.alone = False

    def tile(self, number: Integer) -> tuple[list[Integer], Integer, Integer]:
        words = self.words
        place, column = self.listed_at(words.value(number))
        at = words.shl(place, 1)
        row, group = (self.listed.read(at, group_list.FIRST + i) for i in range(2))
        row, group = (row, group) if self.alone else (uniform(words, row), uniform(words, group))
        return [group], row, words.mul(column, self.schedule.tile_n)

    def listed_at(self, number: ir.Value) -> tuple[Integer, Integer]:
        """Where a tile is in the list, and its column of tiles."""
        words, group = self.words, self.schedule.group
        if not group:
            return arith.remui(number, self.count), arith.divui(number, self.count)
        each = group * self.columns
        first, inside = words.mul(words.div(number, each), group), words.value(words.rem(number, each))
        high = words.value(words.min(words.sub(self.count, first), group))
        return words.add(first, arith.remui(inside, high)), arith.divui(inside, high)

    def each_tile(self, first: Integer, step: Int, carried: Sequence[ir.Value], body: Callable) -> None:
        loop(self.words, first, self.total, step, carried, body)


@dataclass
class _One(_Groups, wgmma.Emitter):
    epilogue_type = _Epilogue


@dataclass
class _Two(_Groups, dual._Emitter):
    epilogue_type = _Both

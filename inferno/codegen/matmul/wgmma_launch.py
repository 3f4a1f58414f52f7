"""The host's side of a kernel of ``wgmma``: the maps by which the copy engine finds tensors, the temporaries, and the launches."""

from collections.abc import Sequence

from inferno.codegen.builders.launcher import launch, pointer, scalar, temporary, tensor_map
from inferno.codegen.matmul.operand_copy import THREADS, OperandCopy
from inferno.codegen.matmul.tile_copies import operand_map
from inferno.element_sizes import element_bytes
from inferno.mlir import ir
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.kept_operands import COPY, kept
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.tiles.result_parts import StoreMap, columns_together
from inferno.schedule.tiles.tiling import Source
from inferno.symbolic import Int, Symbol, minimum


class Launch:
    """What an emitter of ``wgmma`` does in the kernel's launcher."""

    def launch(self, arguments: Sequence[ir.Value], copies: dict[str, OperandCopy]) -> None:
        c, s = self.contraction, self.schedule
        buffers, sizes = [], [scalar(v) for v in self.sizes(arguments).values()]
        for side, operand, source in self.factors:
            if not source.copied:
                buffers.append(arguments[(source.raw or operand.access).argument])
                continue
            if (held := self.kept_copy(operand)) is not None:
                buffers.append(arguments[held])
                continue
            name = f"{self.name}_{side}"
            copy, made = copies[name], temporary(source.shape, operand.element)
            parameters = [*(pointer(arguments[a]) for a in copy.arguments), pointer(made), *sizes]
            launch(f"{self.name}_gpu", name, parameters, (copy.blocks, 1, 1), (THREADS, 1, 1))
            buffers.append(made)
        maps = self.operand_maps(*buffers)
        maps += [self.store_map(arguments[c.destinations[i].access.argument], c.destinations[i].access, m) for i, m in self.stores.items()]
        maps += [self.brought_map(arguments[b.access.argument], b) for b in self.brought]
        launch(
            f"{self.name}_gpu", self.name, [*maps, *(pointer(arguments[a]) for a in self.plain), *sizes, *self.launch_scratch()],
            (self.grid * s.blocks, 1, 1), (s.threads, 1, 1), (s.blocks, 1, 1), self.layout.total,
        )

    def store_map(self, result: ir.Value, access: Access, map_: StoreMap) -> ir.Value:
        """The map by which the copy engine writes 64 rows of some columns of a result."""
        together, size = columns_together(self.contraction, self.tiling, self.finished), element_bytes(access.element)
        box = [64, together] if self.schedule.swapped else [together, 64]
        return tensor_map(
            result, sizes=[a.size for a in map_.axes], strides=[x * size for x in map_.strides],
            box=box + [1] * (len(map_.axes) - 2), element=str(access.element), swizzle=box[0] * size, l2=0,
        )

    def kept_copy(self, operand: Operand) -> int | None:
        """The kernel's argument that is this operand as the copy engine can read it, if it has one."""
        if operand.prologue is not None:
            return None
        return kept(self.contraction.module.body.operations[0], COPY).get(operand.access.argument)

    @property
    def grid(self) -> Int:
        """Blocks, or clusters of them."""
        return minimum(self.tiles, self.workers)

    def launch_scratch(self) -> list[ir.Value]:
        """What the last parameters are, made ready."""
        return []

    @property
    def symbols(self) -> list[Symbol]:
        """The kernel's sizes that vary: its last parameters."""
        return list(symbol_arguments(self.contraction.module.body.operations[0].operation))

    def sizes(self, arguments: Sequence[ir.Value]) -> dict[Symbol, ir.Value]:
        """The kernel's sizes, as ``arguments`` has them."""
        function = self.contraction.module.body.operations[0].operation
        return {s: arguments[v.arg_number] for s, v in symbol_arguments(function).items()}

    @property
    def factors(self) -> list[tuple[str, Operand, Source]]:
        """What the copy engine brings, in the order of its maps."""
        c, t = self.contraction, self.tiling
        return [("lhs", c.lhs, t.lhs), ("rhs", c.rhs, t.rhs)]

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value) -> list[ir.Value]:
        left, right = self.schedule.sharing
        return [self.lhs_map(lhs, left), self.rhs_map(rhs, right)]

    def lhs_map(self, lhs: ir.Value, share: int) -> ir.Value:
        return operand_map(lhs, self.tiling.lhs, self.lhs, self.kind, share)

    def rhs_map(self, rhs: ir.Value, share: int) -> ir.Value:
        return operand_map(rhs, self.tiling.rhs, self.rhs, self.kind, share, self.rhs_piece)

    @property
    def rhs_piece(self) -> int:
        """Bytes that L2 reads of the rhs together.  Where a tile's panel is as wide as a line of L2, and others' panels next to it are read
        once, the next line is another block's, in its own time (1x8192x28672 118 us with 256 bytes, 113 with 128; 64x4096x11008 28.2 and 27.4)."""
        return 128 if self.schedule.tile_m == 64 and self.rows == 1 and not self.rhs.along_k and self.rhs.span == 128 else 256

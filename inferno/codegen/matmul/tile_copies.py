"""How the copy engine brings an operand's tiles to shared memory: the maps, and the boxes that make up a tile."""

from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.mlir import ir
from inferno.schedule.tiles.tiling import Source


class TileCopies:
    """What an emitter of ``wgmma`` starts of copies."""

    def copy_raw(
        self, map_: ir.Value, source: Source, outer: list[Integer], first: Integer, k0: Integer, target: Integer, barrier: ir.Value,
    ) -> None:
        tma.load_box(self.words, map_, [*([k0, first] if source.raw_along_k else [first, k0]), *outer], target, barrier)

    def copy_tile(
        self, map_: ir.Value, tile: Tile, outer: list[Integer], first: Integer, k0: Integer, slot: Integer,
        barrier: ir.Value, blocks: int,
    ) -> None:
        """One tile, in as many boxes as it has panels; each block of a cluster copies its share of them for all."""
        words = self.words
        if tile.along_k:
            rows = tile.rows // blocks
            begin = words.mul(self.rank, rows) if blocks > 1 else 0
            target = words.add(slot, words.mul(begin, tile.row))
            self.load_rows(map_, tile, [k0, words.add(first, begin), *outer], target, barrier, blocks)
            return
        panels = tile.panels // blocks
        for i in range(panels):
            panel = words.add(words.mul(self.rank, panels), i) if blocks > 1 else i
            target = words.add(slot, words.mul(panel, tile.panel_bytes))
            row = words.add(first, words.mul(panel, tile.panel))
            self.load_lines(map_, tile, [row, k0, *outer], target, barrier, blocks)

    def load_rows(self, map_: ir.Value, tile: Tile, where: list[Integer], target: Integer, barrier: ir.Value, blocks: int) -> None:
        """Rows of a tile with k innermost, from position ``where`` on."""
        tma.load_box(self.words, map_, where, target, barrier, blocks)

    def load_lines(self, map_: ir.Value, tile: Tile, where: list[Integer], target: Integer, barrier: ir.Value, blocks: int) -> None:
        """A panel of a tile in the other order, from position ``where`` on."""
        tma.load_box(self.words, map_, where, target, barrier, blocks)


def operand_map(buffer: ir.Value, source: Source, tile: Tile, kind: str, share: int, l2: int = 256) -> ir.Value:
    """The map of an operand's tiles, of which a block copies ``1 / share``; what is not in L2 comes there in pieces of ``l2`` bytes."""
    ones = [1] * (len(source.axes) - 2)
    sizes = [a.size for a in source.axes]
    if source.raw is not None:
        # TF32 tiles that are only transposed are rounded on the way, like all others.
        element = kind if kind == "tf32" and not source.prologue else str(source.raw.element)
        width = source.raw.element.width // 8
        box = (tile.depth, tile.rows) if source.raw_along_k else (tile.rows, tile.depth)
        strides = [x * width for x in source.strides]
        return tensor_map(buffer, sizes=sizes, strides=strides, box=[*box, *ones], element=element, swizzle=0)
    box = (tile.box[0], tile.box[1] // share) if tile.along_k else tile.box
    strides = [x * tile.width for x in source.strides]
    return tensor_map(buffer, sizes=sizes, strides=strides, box=[*box, *ones], element=kind, swizzle=tile.span, l2=l2)

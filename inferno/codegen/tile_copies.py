"""How the copy engine brings an operand's tiles to shared memory: the maps, and the boxes that make up a tile."""

from inferno.codegen import tma
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import tensor_map
from inferno.codegen.tensor_core import Tile
from inferno.mlir import ir, scf
from inferno.schedule.tiling import Source
from inferno.schedule.wgmma import ROW, Wgmma
from inferno.symbolic import Int


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
        words, policy = self.words, self.policy if tile is self.rhs else None
        if tile.along_k:
            rows = tile.rows // blocks
            begin = words.mul(self.rank, rows) if blocks > 1 else 0
            target = words.add(slot, words.mul(begin, ROW))
            tma.load_box(words, map_, [k0, words.add(first, begin), *outer], target, barrier, blocks, policy)
            return
        if tile.woven:
            where = [0, 0, words.div(first, tile.panel), words.shr(k0, 3), *outer]
            tma.load_box(words, map_, where, slot, barrier, policy=policy)
            return
        panels = tile.panels // blocks
        for i in range(panels):
            panel = words.add(words.mul(self.rank, panels), i) if blocks > 1 else i
            target = words.add(slot, words.mul(panel, tile.panel_bytes))
            if tile is self.rhs and self.schedule.cut and i == panels - 1:
                self.copy_cut(outer, first, k0, target, barrier)
                continue
            row = words.add(first, words.mul(panel, tile.panel))
            tma.load_box(words, map_, [row, k0, *outer], target, barrier, blocks, policy)

    def copy_cut(self, outer: list[Integer], first: Integer, k0: Integer, target: Integer, barrier: ir.Value) -> None:
        """The last panel of a tile of the rhs: up to the tile's last column, or the tensor's."""
        words, n, begin = self.words, self.schedule.tile_n, self.rhs.rows // self.rhs.panel * self.rhs.panel
        whole = scf.IfOp(words.less(first, self.tiling.n.size - n + 1), has_else=True)
        with ir.InsertionPoint(whole.then_block):
            tma.load_box(words, self.maps[2], [begin, words.div(first, n), k0, *outer], target, barrier, policy=self.policy)
            scf.yield_([])
        with ir.InsertionPoint(whole.else_block):
            tma.load_box(words, self.maps[1], [words.add(first, begin), k0, *outer], target, barrier, policy=self.policy)
            scf.yield_([])


def operand_map(buffer: ir.Value, source: Source, tile: Tile, kind: str, share: int) -> ir.Value:
    """The map of an operand's tiles, of which a block copies ``1 / share``."""
    ones = [1] * (len(source.axes) - 2)
    sizes = [a.size for a in source.axes]
    if source.raw is not None:
        # TF32 tiles that are only turned are rounded on the way, like all others.
        element = kind if kind == "tf32" and not source.prologue else str(source.raw.element)
        width = source.raw.element.width // 8
        box = (tile.depth, tile.rows) if source.raw_along_k else (tile.rows, tile.depth)
        strides = [x * width for x in source.strides]
        return tensor_map(buffer, sizes=sizes, strides=strides, box=[*box, *ones], element=element, swizzle=0)
    if tile.woven:  # panels are a dimension of their own, and so are groups of eight lines
        step = source.strides[1]
        sizes[:2] = tile.panel, 8, sizes[0] // tile.panel, sizes[1] // 8
        strides = [x * tile.width for x in (1, step, tile.panel, 8 * step, *source.strides[2:])]
        box = [tile.panel, 8, tile.panels, tile.depth // 8, *ones]
        return tensor_map(buffer, sizes=sizes, strides=strides, box=box, element=kind, swizzle=tile.span)
    box = (tile.box[0], tile.box[1] // share) if tile.along_k else tile.box
    strides = [x * tile.width for x in source.strides]
    return tensor_map(buffer, sizes=sizes, strides=strides, box=[*box, *ones], element=kind, swizzle=tile.span)


def cut_map(buffer: ir.Value, source: Source, tile: Tile, kind: str) -> ir.Value:
    """The map of a rhs whose tiles are a dimension of their own, so that a box ends where they do; of those that are whole."""
    sizes, ones = [a.size for a in source.axes], [1] * (len(source.axes) - 2)
    sizes[:1] = tile.rows, sizes[0] // tile.rows
    strides = [x * tile.width for x in (1, tile.rows, *source.strides[1:])]
    box = [tile.panel, 1, tile.depth, *ones]
    return tensor_map(buffer, sizes=sizes, strides=strides, box=box, element=kind, swizzle=tile.span)


def weaves(n: Int, k: Int, source: Source, tile: Tile, s: Wgmma) -> bool:
    """Whether a rhs of ``n`` columns and ``k`` lines is whole panels of whole groups of eight lines, which one block copies."""
    whole = isinstance(n, int) and isinstance(k, int) and n % tile.panel == tile.rows % tile.panel == k % 8 == 0
    return whole and not tile.along_k and source.raw is None and len(source.axes) <= 3 and s.sharing[1] == 1

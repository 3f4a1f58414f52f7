"""What the roles of an attention kernel share: barriers, shared memory, tensor maps, and how tiles come to the consumers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferno.codegen.attention.blocks import LaidLists
from inferno.codegen.attention.even_shares import EvenTiles
from inferno.codegen.attention.masks import MaskSlots
from inferno.codegen.attention.tiles import TileOrder
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.tile_numbers import TileNumbers
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Ring
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.mlir import ir, nvvm
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import WARPS, Attention, Shared, adders, lines, tile_rows
from inferno.schedule.attention.tiling import AttentionTiling, transposed_lines
from inferno.schedule.tiles.result_parts import ROW, Brought
from inferno.symbolic import Int


@dataclass
class Frame:
    """``maps`` are the tensor maps of q, k and v, or none where they are cut; ``tensors`` what is read or written without them, by argument; ``worker`` is
    this block's number of ``workers``; ``counter`` counts the tiles that were given out; ``split`` is the number of this cluster of those that share a
    tile, ``rank`` this block's in it, and ``scratch`` where clusters, or neighbours who share a tile, leave their sums, and counters; ``lists`` are those of
    the blocks that tiles see; ``brought`` the tensors that come to shared memory for scores, by ``mask_maps``.
    """

    words: Words
    kernel: AttentionKernel
    tiling: AttentionTiling
    schedule: Attention
    layout: Shared
    shared: ir.Value
    maps: Sequence[ir.Value]
    tensors: dict[int, Elements]
    thread: ir.Value
    warp: ir.Value
    worker: ir.Value
    workers: Int
    counter: ir.Value | None
    staged: bool
    split: Integer = 0
    rank: Integer = 0
    scratch: Sequence[ir.Value] = ()
    lists: LaidLists | None = None
    brought: Sequence[Brought] = ()
    mask_maps: Sequence[ir.Value] = ()

    def __post_init__(self) -> None:
        s, words = self.schedule, self.words
        self.part = words.add(words.mul(self.split, s.parts), self.rank)  # of a tile's keys
        self.order = TileOrder(words, self.kernel, self.tiling, s, self.part, self.tensors, lists=self.lists)
        self.even = EvenTiles(words, self.worker, self.workers, self.order.count, self.order.blocks) if s.order == "even" else None
        self.order = replace(self.order, even=self.even)
        t = self.tiling
        # Values lie in panels of 64 columns, with a line for each key; rows that are innermost in memory in panels of 64, with a line for each column.
        self.q_tile, self.k_tile = (
            Tile(rows, 2, not of.transposed, 2 * transposed_lines(of) if of.transposed else ROW) for rows, of in ((64, t.q), (s.keys, t.k)))
        self.v_tile = Tile(transposed_lines(t.v), 2, True) if t.v.transposed else Tile(64 * lines(t.width.size), 2, False, 2 * s.keys)
        # Of an operand's piece, one behind the other, and of all.
        if s.warp_rows:
            sizes = (s.warp_rows, t.depth), (s.keys, t.depth), (s.keys, t.width)
            self.q_piece, self.k_piece, self.v_piece = (rows * lines(inner.size, s.line) * 128 for rows, inner in sizes)
        else:
            self.q_piece, self.k_piece = (
                tile.bytes * (1 if of.transposed else lines(t.depth.size)) for tile, of in ((self.q_tile, t.q), (self.k_tile, t.k)))
            self.v_piece = self.v_tile.bytes * (lines(s.keys) if t.v.transposed else 1)
        self.q_bytes, self.k_bytes, self.v_bytes = (s.pieces * size for size in (self.q_piece, self.k_piece, self.v_piece))
        barriers = words.add(self.shared, self.layout.barriers)
        writers = 4 if s.cut else 1  # warps that cut, or the thread that starts copies
        readers = WARPS if s.warp_rows else s.consumers
        self.keys = Ring(words, barriers, s.stages, readers, writers=writers)
        self.values = Ring(words, words.add(barriers, 16 * s.stages), s.stages, readers, writers=writers)
        self.queries = Ring(words, words.add(barriers, 32 * s.stages), s.consumers, 4 if self.early else 1, writers=writers)
        self.masks = MaskSlots(words, self.brought, self.mask_maps, s.mask_slot, words.add(self.shared, self.layout.masks)) if s.masks else None
        self.mask_ring = Ring(words, words.add(self.shared, s.mask_barriers(self.layout.barriers)), s.stages, 4 * s.consumers)
        numbers = words.add(barriers, 32 * s.stages + 16 * s.consumers)
        own = (self.worker, self.workers, self.order.count) if self.even is None else (0, 1, self.even.steps)
        self.numbers = TileNumbers(words, self.queries, numbers, self.counter, *own)

    @property
    def early(self) -> bool:
        """Whether queries are released after the last scores, by each warp; otherwise when results have left their place."""
        return self.schedule.apart or not self.staged

    @property
    def rows(self) -> int:
        """Of a tile's, or a consumer's, those that are queries, at most."""
        return tile_rows(self.schedule, self.tiling.queries.size)

    @property
    def adders(self) -> int:
        return adders(self.schedule, self.kernel)

    @property
    def warpgroup(self) -> Integer:
        return self.words.shr(self.warp, 2)

    def initialize(self, maps: Sequence[ir.Value]) -> None:
        """By one thread."""
        for m in maps:
            tma.prefetch(m)
        for ring in (self.keys, self.values, self.queries, *([] if self.masks is None else [self.mask_ring])):
            ring.initialize()
        nvvm.FenceMbarrierInitOp()

    def place(self, offset: int, size: int, slot: Integer) -> Integer:
        """The shared address of a slot of ``size`` bytes."""
        words = self.words
        return words.add(words.add(self.shared, offset), words.mul(slot, size))

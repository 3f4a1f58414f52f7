"""Store the rounded gradients of scores of each block to memory, which the kernel of the queries' gradient reads."""

from collections.abc import Sequence

from inferno.codegen.attention.gradients_frame import Frame, kept_place, linear
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.wgmma_epilogue import Warpgroup, store_transposed
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import ir, nvvm


class Kept:
    """Two buffers in turn, so that one barrier a block suffices: before it one thread has seen that the block before was read."""

    def __init__(self, frame: Frame, map_: ir.Value, group: Warpgroup) -> None:
        self.frame, self.words, self.map, self.group = frame, frame.words, map_, group

    def begin(self, place: Place, block: Integer, at: Position) -> None:
        """For a block of a tile's columns, which are in a slot: round and round the slots buffers are in turn, from tile to tile, too."""
        f, words = self.frame, self.words
        turn = words.xor(at.slot, at.parity) if f.form.stages % 2 else at.slot
        self.place, self.block, self.buffer = place, block, f.kept_at(self.group.number, words.mask(turn, 1))

    def store(self, packed: Sequence[ir.Value]) -> None:
        """``packed`` as the tensor core takes them, which may be at it: they are only read."""
        f, words, group = self.frame, self.words, self.group
        store_transposed(words, group.warp, group.lane, self.buffer, packed)
        tma.fence_shared()
        with only_if(words.equal(group.thread, 0)):
            tma.await_stores(0, read=True)
        nvvm.BarrierOp(barrierId=words.value(words.add(group.number, 1)), numberOfThreads=words.value(128))
        with only_if(words.equal(group.thread, 0)):
            head = words.sub(linear(words, f.axes, self.place.grid), words.mul(f.block.begin, f.positions))
            key = words.add(self.place.first, words.mul(group.number, 64))
            at = kept_place(words, f.gradient, f.form.rows, key, words.mul(self.block, f.form.columns), head)
            tma.store_box(words, self.map, at, self.buffer)

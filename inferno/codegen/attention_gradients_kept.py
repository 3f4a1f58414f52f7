"""What a consumer of attention's gradients leaves in memory of each block: the rounded gradients of scores, for the product that is not its own."""

from collections.abc import Sequence

from inferno.codegen import tma
from inferno.codegen.attention_gradients_frame import Frame
from inferno.codegen.attention_tiles import Place
from inferno.codegen.integers import Integer
from inferno.codegen.mbarriers import Position
from inferno.codegen.nvvm_builder import only_if
from inferno.codegen.wgmma_epilogue import Warpgroup, store_turned
from inferno.mlir import ir, nvvm
from inferno.schedule.tiling import BEHIND


class Kept:
    """Two buffers in turn, so that one barrier a block suffices: before it one thread has seen that the block before was read."""

    def __init__(self, frame: Frame, map_: ir.Value, group: Warpgroup) -> None:
        self.frame, self.words, self.map, self.group = frame, frame.words, map_, group

    def begin(self, place: Place, block: Integer, at: Position) -> None:
        """For a block of a tile's columns, which are in a slot: round and round the slots buffers are in turn, from tile to tile, too."""
        f, words = self.frame, self.words
        where = {BEHIND: 1, **dict(zip(f.tiling.grid, place.grid))}
        row = words.add(place.first, words.mul(self.group.number, 64))
        self.at = [row, words.mul(block, f.form.columns), *(where[a] for a in f.axes.kept.axes[2:])]
        turn = words.xor(at.slot, at.parity) if f.form.stages % 2 else at.slot
        self.buffer = f.kept_at(self.group.number, words.mask(turn, 1))

    def stage(self, packed: Sequence[ir.Value]) -> None:
        """To shared memory; ``packed`` as the tensor core takes them."""
        store_turned(self.words, self.group.warp, self.group.lane, self.buffer, packed)
        tma.fence_shared()

    def store(self) -> None:
        words, group = self.words, self.group
        with only_if(words.equal(group.thread, 0)):
            tma.await_stores(0, read=True)
        nvvm.BarrierOp(barrierId=words.value(words.add(group.number, 1)), numberOfThreads=words.value(128))
        with only_if(words.equal(group.thread, 0)):
            tma.store_box(words, self.map, self.at, self.buffer)

"""Masks and biases in shared memory: a slot for each slot of keys holds, for a block of keys and all queries of a tile, panels of 128 bytes of a row."""

from collections.abc import Iterator

from inferno.codegen import tma
from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_tiles import Place
from inferno.codegen.elements import from_memory
from inferno.codegen.gpu_function import stored_type
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import tensor_map
from inferno.codegen.mbarriers import Position
from inferno.codegen.nvvm_builder import load_shared, only_if, operation, shared_pointer
from inferno.codegen.pair_epilogue import PairEpilogue
from inferno.codegen.tensor_core import load_matrices
from inferno.mlir import ir, nvvm
from inferno.schedule.attention_schedule import Attention
from inferno.schedule.result_parts import ROW, Brought


def mask_map(buffer: ir.Value, brought: Brought, s: Attention) -> ir.Value:
    """The tensor map of one, on the host."""
    box, element = [ROW // brought.bytes, s.queries] + [1] * (len(brought.axes) - 2), str(brought.access.element)
    strides = [x * brought.bytes for x in brought.strides]
    return tensor_map(buffer, sizes=[a.size for a in brought.axes], strides=strides, box=box, element="ui8" if element == "i1" else element)


def copy_masks(frame: Frame, place: Place, block: Integer, at: Position) -> None:
    """The producer's part, for the block of keys that it has begun to copy to a slot."""
    f, words, s = frame, frame.words, frame.schedule
    f.masks.acquire(at)
    f.masks.full.expect(at.slot, s.mask_bytes)
    where, target = dict(zip(f.tiling.grid, place.grid)), f.place(f.layout.masks, s.mask_bytes, at.slot)
    for map_, brought, lines in zip(f.mask_maps, f.brought, s.mask_lines):
        for line in range(lines):
            begin = words.add(words.mul(block, s.keys), line * ROW // brought.bytes)
            tma.load_box(words, map_, [begin, place.first, *(where[axis] for axis in brought.axes[2:])], target, f.masks.full.at(at.slot))
            target = words.add(target, s.queries * ROW)


class Masks:
    """A consumer's part: of its thread, which lane it is of which warp."""

    def __init__(self, frame: Frame, consumer: Integer, warp: Integer, lane: Integer) -> None:
        self.frame, self.words, self.lane = frame, frame.words, lane
        self.first = self.words.add(self.words.mul(consumer, 64), self.words.shl(warp, 4))

    def take(self, at: Position, reader: PairEpilogue) -> None:
        """Give the score function what the thread has of a slot, which is free when each warp has read it."""
        f, words, s = self.frame, self.words, self.frame.schedule
        f.masks.await_full(at)
        base = f.place(f.layout.masks, s.mask_bytes, at.slot)
        for brought, lines in zip(f.brought, s.mask_lines):
            for down, j, value in self._matrices(base, brought) if brought.bytes == 2 else self._pairs(base, brought):
                reader.know(brought.access, down, j, value)
            base = words.add(base, lines * s.queries * ROW)
        tma.fence_shared()
        nvvm.SyncWarpOp(words.value(-1))
        with only_if(words.equal(self.lane, 0)):
            f.masks.empty.arrive(at.slot)

    def _line(self, base: Integer, row: Integer, panel: int) -> Integer:
        return self.words.add(base, self.words.add(self.words.mul(self.words.add(self.first, row), ROW), panel * self.frame.schedule.queries * ROW))

    def _matrices(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """Of 16 bits: four matrices of 8 x 8 at a time."""
        words, lane, type_ = self.words, self.lane, ir.VectorType.get([2], brought.access.element)
        first = tma.swizzled(words, lane, words.shr(lane, 4), ROW)
        for j in range(0, self.frame.schedule.keys // 8, 2):
            line = self._line(base, words.mask(lane, 15), 16 * j // ROW)
            for i, register in enumerate(load_matrices(shared_pointer(words, words.add(line, words.shl(words.xor(first, j % 8), 4))))):
                yield 8 * (i % 2), j + i // 2, operation("llvm.bitcast", [type_], [register])  # 8 rows further, then 8 keys

    def _pairs(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """Of bytes and of 32 bits: two neighbours at a time."""
        words, lane, size, element = self.words, self.lane, brought.bytes, brought.access.element
        low, column = words.shr(lane, 2), words.mul(words.mask(lane, 3), 2 * size)  # bytes from the first of 8 keys
        for j in range(self.frame.schedule.keys // 8):
            panel, begin = divmod(8 * j * size, ROW)
            chunk = words.add(words.shr(column, 4), begin // 16)
            inside = words.add(words.shl(tma.swizzled(words, low, chunk, ROW), 4), words.add(words.mask(column, 15), begin % 16))
            for down in (0, 8):
                value = load_shared(words, words.add(self._line(base, words.add(low, down), panel), inside), stored_type(element), 2)
                yield down, j, from_memory(value, element)

"""Masks and biases in shared memory: a slot for each slot of keys holds, for a block of keys and all queries of a tile, panels of 64 keys."""

from inferno.codegen import tma
from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_tiles import Place
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import tensor_map
from inferno.codegen.mbarriers import Position
from inferno.codegen.nvvm_builder import only_if, operation, shared_pointer
from inferno.codegen.pair_epilogue import PairEpilogue
from inferno.codegen.tensor_core import load_matrices
from inferno.mlir import ir, nvvm
from inferno.schedule.attention_schedule import LINE, Attention, lines
from inferno.schedule.result_parts import ROW, Brought


def mask_map(buffer: ir.Value, brought: Brought, s: Attention) -> ir.Value:
    """The tensor map of one, on the host."""
    box = [LINE, s.queries] + [1] * (len(brought.axes) - 2)
    return tensor_map(
        buffer, sizes=[a.size for a in brought.axes], strides=[x * brought.bytes for x in brought.strides], box=box, element=str(brought.access.element))


def panel(frame: Frame, tensor: int, number: int, at: Position) -> Integer:
    """The shared address of a tensor's panel in a slot."""
    s = frame.schedule
    return frame.place(frame.layout.masks + (tensor * lines(s.keys) + number) * s.queries * ROW, frame.mask_bytes, at.slot)


def copy_masks(frame: Frame, place: Place, block: Integer, at: Position) -> None:
    """The producer's part, for the block of keys that it has begun to copy to a slot."""
    f, words, s = frame, frame.words, frame.schedule
    f.masks.acquire(at)
    f.masks.full.expect(at.slot, f.mask_bytes)
    where = dict(zip(f.tiling.grid, place.grid))
    for tensor, (map_, brought) in enumerate(zip(f.mask_maps, f.brought)):
        for number in range(lines(s.keys)):
            begin = words.add(words.mul(block, s.keys), LINE * number)
            outer = [where[axis] for axis in brought.axes[2:]]
            tma.load_box(words, map_, [begin, place.first, *outer], panel(f, tensor, number, at), f.masks.full.at(at.slot))


def take_masks(frame: Frame, consumer: Integer, warp: Integer, lane: Integer, at: Position, reader: PairEpilogue) -> None:
    """Give the score function what a consumer's thread has of a slot; the slot is free when each warp has read it."""
    f, words, s = frame, frame.words, frame.schedule
    f.masks.await_full(at)
    row = words.add(words.mul(consumer, 64), words.add(words.shl(warp, 4), words.mask(lane, 15)))
    first = tma.swizzled(words, lane, words.shr(lane, 4), ROW)
    for tensor, brought in enumerate(f.brought):
        type_ = ir.VectorType.get([2], brought.access.element)
        for j in range(0, s.keys // 8, 2):
            line = words.add(panel(f, tensor, 8 * j // LINE, at), words.mul(row, ROW))
            found = load_matrices(shared_pointer(words, words.add(line, words.shl(words.xor(first, j % 8), 4))))
            for i, register in enumerate(found):  # 8 rows further, then 8 keys
                value = operation("llvm.bitcast", [type_], [register])
                reader.know(brought.access, 8 * (i % 2), j + i // 2, value)
    nvvm.SyncWarpOp(words.value(-1))
    with only_if(words.equal(lane, 0)):
        f.masks.empty.arrive(at.slot)

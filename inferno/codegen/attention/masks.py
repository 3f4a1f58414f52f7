"""Masks and biases in shared memory: a slot for each slot of columns holds, for a block of them and all rows of a tile, panels of 128 bytes of a line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, join
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, load_shared, operation, shared_pointer
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.codegen.nvvm.tensor_core import load_matrices
from inferno.mlir import ir, nvvm
from inferno.schedule.attention.schedule import MaskSlot
from inferno.schedule.tiles.result_parts import ROW, Brought
from inferno.schedule.tiles.tiling import Axis


def mask_map(buffer: ir.Value, brought: Brought, form: MaskSlot) -> ir.Value:
    """The tensor map of one, on the host."""
    box, element = [ROW // brought.bytes, form.lines] + [1] * (len(brought.axes) - 2), str(brought.access.element)
    strides = [x * brought.bytes for x in brought.strides]
    return tensor_map(buffer, sizes=[a.size for a in brought.axes], strides=strides, box=box, element="ui8" if element == "i1" else element)


@dataclass(frozen=True)
class MaskSlots:
    """What is ``brought`` by ``maps`` to slots of a ``form`` from shared address ``base`` on.  Lines, of keys, are those of a tile's rows, or if keys
    are rows (``transposed``) those of columns."""

    words: Words
    brought: Sequence[Brought]
    maps: Sequence[ir.Value]
    form: MaskSlot
    base: Integer
    transposed: bool = False

    def copy(self, where: Mapping[Axis, Integer], row: Integer, column: Integer, slot: Integer, full: ir.Value) -> None:
        """The producer's part, for a tile's and a block's first row and column, to a slot whose barrier ``full`` expects them."""
        words, target = self.words, self.at(slot)
        inner, outer = (row, column) if self.transposed else (column, row)
        for map_, brought, panels in zip(self.maps, self.brought, self.form.panels):
            for panel in range(panels):
                begin = words.add(inner, panel * ROW // brought.bytes)
                tma.load_box(words, map_, [begin, outer, *(where[axis] for axis in brought.axes[2:])], target, full)
                target = words.add(target, self.panel)

    @property
    def panel(self) -> int:
        """Bytes of a panel."""
        return self.form.lines * ROW

    def at(self, slot: Integer) -> Integer:
        """The shared address of a slot."""
        return self.words.add(self.base, self.words.mul(slot, self.form.bytes))


class Masks:
    """A consumer's part: of its thread, which lane it is of which warp."""

    def __init__(self, slots: MaskSlots, consumer: Integer, warp: Integer, lane: Integer) -> None:
        self.slots, self.words, self.lane = slots, slots.words, lane
        self.first = self.words.add(self.words.mul(consumer, 64), self.words.shl(warp, 4))

    def take(self, ring: Ring, at: Position, reader: PairEpilogue) -> None:
        """Give the score function what the thread has of a slot with barriers of its own, which is free when each warp has read it."""
        words = self.words
        ring.await_full(at)
        self.read(at.slot, reader)
        tma.fence_shared()
        nvvm.SyncWarpOp(words.value(-1))
        with only_if(words.equal(self.lane, 0)):
            ring.empty.arrive(at.slot)

    def read(self, slot: Integer, *readers: PairEpilogue) -> None:
        """Give functions of scores what the thread has of a slot."""
        slots, words = self.slots, self.words
        base = slots.at(slot)
        for brought, panels in zip(slots.brought, slots.form.panels):
            read = {False: (self._pairs, self._matrices), True: (self._transposed_pairs, self._transposed_matrices)}[slots.transposed][brought.bytes == 2]
            for down, j, value in read(base, brought):
                for reader in readers:
                    reader.know(brought.access, down, j, value)
            base = words.add(base, panels * slots.panel)

    # Where lines are rows.

    def _line(self, base: Integer, row: Integer, panel: int) -> Integer:
        return self.words.add(base, self.words.add(self.words.mul(self.words.add(self.first, row), ROW), panel * self.slots.panel))

    def _matrices(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """Of 16 bits: four matrices of 8 x 8 at a time."""
        words, lane = self.words, self.lane
        first = tma.swizzled(words, lane, words.shr(lane, 4), ROW)
        for j in range(0, self.slots.form.inner // 8, 2):
            line = self._line(base, words.mask(lane, 15), 16 * j // ROW)
            yield from _four(words.add(line, words.shl(words.xor(first, j % 8), 4)), brought, j, words)

    def _pairs(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """Of bytes and of 32 bits: two neighbours at a time."""
        words, lane, size, element = self.words, self.lane, brought.bytes, brought.access.element
        low, column = words.shr(lane, 2), words.mul(words.mask(lane, 3), 2 * size)  # bytes from the first of 8 keys
        for j in range(self.slots.form.inner // 8):
            panel, begin = divmod(8 * j * size, ROW)
            chunk = words.add(words.shr(column, 4), begin // 16)
            inside = words.add(words.shl(tma.swizzled(words, low, chunk, ROW), 4), words.add(words.mask(column, 15), begin % 16))
            for down in (0, 8):
                value = load_shared(words, words.add(self._line(base, words.add(low, down), panel), inside), stored_type(element), 2)
                yield down, j, from_memory(value, element)

    # Where they are columns.

    def _byte(self, base: Integer, row: Integer, line: Integer, size: int) -> Integer:
        """The shared address of a row's number of ``size`` bytes on one of the first 8 lines."""
        words, byte = self.words, self.words.mul(self.words.add(self.first, row), size)
        chunk = words.shl(tma.swizzled(words, line, words.mask(words.shr(byte, 4), 7), ROW), 4)
        inside = words.add(words.add(words.mul(line, ROW), chunk), words.mask(byte, 15))
        return words.add(base, words.add(words.mul(words.shr(byte, 7), self.slots.panel), inside))

    def _transposed_matrices(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """As ``_matrices``, transposed on the way: 8 lines of 8 rows, the next rows, and the same of the next lines."""
        words, lane = self.words, self.lane
        first = self._byte(base, words.mask(lane, 8), words.mask(lane, 7), 2)
        first = words.add(first, words.mul(words.shr(lane, 4), 8 * ROW))
        for j in range(0, self.slots.form.lines // 8, 2):
            yield from _four(words.add(first, 8 * j * ROW), brought, j, words, transposed=True)

    def _transposed_pairs(self, base: Integer, brought: Brought) -> Iterator[tuple[int, int, ir.Value]]:
        """One at a time, which lie on two lines."""
        words, lane, element = self.words, self.lane, brought.access.element
        low, column = words.shr(lane, 2), words.shl(words.mask(lane, 3), 1)
        for down in (0, 8):
            places = [self._byte(base, words.add(low, down), words.add(column, i), brought.bytes) for i in range(2)]
            for j in range(self.slots.form.lines // 8):
                pair = [load_shared(words, words.add(place, 8 * j * ROW), stored_type(element), 1) for place in places]
                yield down, j, from_memory(join(pair), element)


def _four(address: Integer, brought: Brought, j: int, words: Words, transposed: bool = False) -> Iterator[tuple[int, int, ir.Value]]:
    """Four matrices, of which a lane has the address of a line: 8 rows further, then 8 columns."""
    type_ = ir.VectorType.get([2], brought.access.element)
    for i, register in enumerate(load_matrices(shared_pointer(words, address), transposed)):
        yield 8 * (i % 2), j + i // 2, operation("llvm.bitcast", [type_], [register])

"""Tensors of the result's size that an epilogue reads, such as a residual: the copy engine (TMA) brings them to shared memory while products run.

Each consumer has a ring of its own, of slots of 64 rows of up to 128 bytes, and of warps 1, 2, ... of the first warpgroup one that fills it:
part by part of the consumer's tiles as it finishes them, and of each part tensor by tensor.  Loads of the consumers' own would wait at the end of
each tile for memory, which has nothing to do meanwhile (100352x64x256 with a residual: 55.2 us, 115 MB).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.matmul.wgmma_epilogue import Epilogue, Warpgroup
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, elect, load_shared, operation, shared_pointer
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.codegen.nvvm.tensor_core import load_matrices
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.tiles.result_parts import ROW, Brought, columns_together, tile_parts

_SLOT = 64 * ROW  # bytes


@dataclass
class BroughtParts:
    """A consumer's side: ``slots`` is the shared address of its slots, ``count`` parts make a tile."""

    words: Words
    tensors: Sequence[Brought]
    group: Warpgroup
    ring: Ring
    slots: Integer
    width: int
    count: int
    _at: Position | None = field(default=None, init=False)
    _taken: list = field(default_factory=list, init=False)

    @property
    def accesses(self) -> set[Access]:
        return {b.access for b in self.tensors}

    def begin(self, tile: Integer) -> None:
        """For the consumer's ``tile``-th one."""
        words, before = self.words, self.words.mul(tile, self.count * len(self.tensors))
        self._at = Position(words.value(words.rem(before, self.ring.slots)), words.value(words.rem(words.div(before, self.ring.slots), 2)))

    def take(self, pairs: int) -> dict[tuple[Access, int, int], ir.Value]:
        """The next part's values, when they have arrived, by tensor, half of the rows and 8 columns, of which there are ``pairs``."""
        words, found = self.words, {}
        for tensor in self.tensors:
            self.ring.await_full(self._at)
            base = words.add(self.slots, words.mul(self._at.slot, _SLOT))
            read = self._matrices if tensor.bytes == 2 else self._pairs
            for (half, j), value in read(base, tensor, pairs).items():
                found[tensor.access, half, j] = value
            self._taken.append(self._at.slot)
            self._at = self.ring.next(self._at)
        return found

    def release(self) -> None:
        """What was taken is not needed in shared memory any more: all threads of the consumer have met behind a fence."""
        for slot in self._taken:
            self.ring.release(slot, self.group.thread)
        self._taken = []

    def _matrices(self, base: Integer, tensor: Brought, pairs: int) -> dict[tuple[int, int], ir.Value]:
        """Four matrices of 8 x 8 at a time: 16 rows of a warp x 16 columns."""
        words, lane, span = self.words, self.group.lane, self.width * tensor.bytes
        row = words.add(words.shl(self.group.warp, 4), words.mask(lane, 15))
        line = words.add(base, words.mul(row, span))
        first, type_ = tma.swizzled(words, lane, words.shr(lane, 4), span), ir.VectorType.get([2], tensor.access.element)
        found = {}
        for j in range(0, pairs, 2):
            registers = load_matrices(shared_pointer(words, words.add(line, words.shl(words.xor(first, j), 4))))
            for i, register in enumerate(registers):
                found[i % 2, j + i // 2] = operation("llvm.bitcast", [type_], [register])
        return found

    def _pairs(self, base: Integer, tensor: Brought, pairs: int) -> dict[tuple[int, int], ir.Value]:
        """Pairs of 32-bit elements, 8 bytes each."""
        words, lane, span = self.words, self.group.lane, self.width * tensor.bytes
        low, found = words.shr(lane, 2), {}
        for j in range(pairs):
            chunk = words.add(words.shr(words.mask(lane, 3), 1), 2 * j)
            at = words.add(words.shl(tma.swizzled(words, low, chunk, span), 4), words.shl(words.mask(lane, 1), 3))
            for half in range(2):
                row = words.add(words.add(words.shl(self.group.warp, 4), low), 8 * half)
                found[half, j] = load_shared(words, words.add(words.add(base, words.mul(row, span)), at), tensor.access.element, 2)
        return found


class BroughtTiles:
    """What an emitter of ``wgmma`` does for it."""

    epilogue_type: ClassVar[type[Epilogue]]

    def may_bring(self) -> bool:
        """Whether there is something to bring, and a consumer's warp, and slots for a part."""
        s = self.schedule
        usual = self.epilogue_type.emit is Epilogue.emit and s.split == 1 and not s.stream and s.helpers == 1 and s.consumers <= 3
        return usual and not self.rewrites and 0 < len(self.brought) <= s.bring

    @property
    def part_width(self) -> int:
        """Columns of a part."""
        return columns_together(self.contraction, self.tiling, self.schedule)

    @property
    def result_parts(self) -> list[tuple[int, int]]:
        return tile_parts(self.schedule.tile_n, self.part_width, self.schedule.rows // 64)

    def brought_map(self, buffer: ir.Value, brought: Brought) -> ir.Value:
        strides, box = [x * brought.bytes for x in brought.strides], [self.part_width, 64] + [1] * (len(brought.axes) - 2)
        return tensor_map(
            buffer, sizes=[a.size for a in brought.axes], strides=strides, box=box, element=str(brought.access.element),
            swizzle=self.part_width * brought.bytes,
        )

    def brought_ring(self, consumer: Integer) -> Ring:
        words, s = self.words, self.schedule
        base = words.add(self.device.shared, self.layout.barriers + 16 * (s.stages + 1 + s.raw))
        return Ring(words, words.add(base, words.mul(consumer, 16 * s.bring)), s.bring, 1)

    def initialize_brought(self) -> None:
        for consumer in range(self.schedule.consumers):
            self.brought_ring(consumer).initialize()

    def brought_slots(self, consumer: Integer) -> Integer:
        words = self.words
        return words.add(words.add(self.device.shared, self.layout.brought), words.mul(consumer, self.schedule.bring * _SLOT))

    def brought_parts(self, group: Warpgroup) -> BroughtParts:
        """For the consumer that this is."""
        ring, slots = self.brought_ring(group.number), self.brought_slots(group.number)
        return BroughtParts(self.words, self.brought, group, ring, slots, self.part_width, len(self.result_parts))

    def tile_of_consumer(self, number: Integer) -> Integer:
        """Which of its consumer's tiles tile ``number`` is."""
        return self.words.div(number, self.tiles_of(0)[1])

    def bring(self) -> None:
        """The part of the warps that fill the consumers' slots."""
        words, s = self.words, self.schedule
        consumer = words.sub(self.warp, 1)
        with only_if(arith.andi(words.less(consumer, s.consumers), elect())):  # (unsigned: warp 0 is none of them)
            ring, slots = self.brought_ring(consumer), self.brought_slots(consumer)
            maps = self.maps[len(self.factors) + len(self.stores):]

            def tile(number: ir.Value, *at: ir.Value) -> list[ir.Value]:
                at = Position(*at)
                grid, m0, n0 = self.tile(number)
                where = dict(zip(self.tiling.grid, grid))
                m0 = m0 if s.pingpong else words.add(m0, words.mul(consumer, s.rows))
                for begin, block in self.result_parts:
                    for map_, b in zip(maps, self.brought):
                        place = [words.add(n0, begin), words.add(m0, 64 * block), *(where[a] for a in b.axes[2:])]
                        ring.acquire(at)
                        ring.full.expect(at.slot, 64 * self.part_width * b.bytes)
                        tma.load_box(words, map_, place, words.add(slots, words.mul(at.slot, _SLOT)), ring.full.at(at.slot))
                        at = ring.next(at)
                return at.values

            self.each_tile(*self.tiles_of(consumer), ring.start().values, tile)

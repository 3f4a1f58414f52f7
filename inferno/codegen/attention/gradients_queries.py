"""The gradient of queries as a product of the gradients of scores, which the kernel of keys has stored, and keys.

As there one thread of warpgroup 0 starts the copies, and each of the others has 64 queries; blocks of keys that none of them sees are skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.attention.gradients_block import Block
from inferno.codegen.attention.gradients_consumer import result_of, stored
from inferno.codegen.attention.gradients_frame import Order, PointAxes, Points, kept_place, linear
from inferno.codegen.attention.products import awaited, fence
from inferno.codegen.attention.results import Results
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.codegen.nvvm.tensor_core import Tile, matrix_address, multiply_registers
from inferno.mlir import ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.attention.attention_gradients import GradientTiling
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.kept_scores import QuerySums
from inferno.schedule.attention.schedule import LINE, Attention, lines
from inferno.schedule.tiles.tiling import BEHIND


@dataclass
class Queries:
    """The device's side.  The kernel of keys had tiles of ``rows``.  Maps of ``block`` are of the gradients of scores and of keys."""

    block: Block
    gradient: AttentionGradient
    of_keys: AttentionGradient
    rows: int
    tiling: GradientTiling
    form: QuerySums

    def __post_init__(self) -> None:
        block, g, t, s = self.block, self.gradient, self.tiling, self.form
        words = self.words = block.words
        self.layout = s.shared(g.depth.size)
        points = Points(g.sizes, None, g.scale, g.seen, ())
        axes = PointAxes(t.grid, t.rows, t.columns, t.depth, t.width, block.heads)
        # What was kept last is still in L2.
        self.order = Order(words, points, axes, Attention(s.consumers, s.columns), begin=block.begin, last_first=True)
        barriers = words.add(block.shared, self.layout.barriers)
        self.slots = Ring(words, barriers, s.stages, s.consumers)
        self.turns = Ring(words, words.add(barriers, 16 * s.stages), s.consumers, 128)
        numbers = words.add(barriers, 16 * (s.stages + s.consumers))
        self.numbers = block.numbers(self.turns, numbers, self.order.count)

    def at(self, slot: Integer) -> Integer:
        return self.words.add(self.block.shared, self.words.mul(slot, self.layout.slot))

    # Copies, by one thread.

    def produce(self) -> None:
        self.numbers.give_each(self.words.value(0), self.slots.start().values, self.copy_tile)

    def copy_tile(self, tile: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        words = self.words
        place = self.order.place(tile)
        for consumer in range(self.form.consumers):
            self.turns.acquire(Position(words.value(consumer), parity))
            self.numbers.give(tile, consumer)
            self.turns.full.arrive(consumer)

        def step(block: ir.Value, *at: ir.Value) -> list[ir.Value]:
            return self.copy(place, block, Position(*at)).values

        return loop(words, place.begin, place.end, 1, at, step)

    def copy(self, place: Place, block: Integer, at: Position) -> Position:
        """A block of keys, and the tile's gradients of their scores."""
        words, t, s = self.words, self.tiling, self.form
        self.slots.acquire(at)
        self.slots.full.expect(at.slot, self.layout.slot)
        barrier, target, key = self.slots.full.at(at.slot), self.at(at.slot), words.mul(block, s.columns)
        head, query, columns = words.sub(linear(words, t, place.grid), self.block.begin), place.first, self.of_keys.columns.size
        if columns != t.rows.size:  # those of heads that share keys are one sequence there
            query = words.add(words.mul(head, t.rows.size), query)
            head, query = words.div(query, columns), words.rem(query, columns)
        tma.load_box(words, self.block.maps[0], kept_place(words, self.of_keys, self.rows, key, query, head), target, barrier)
        copied, where = t.streamed[0], {BEHIND: 1, **dict(zip(t.grid, place.grid))}
        for line in range(lines(t.depth.size)):
            to = words.add(target, self.layout.keys + line * s.columns * 2 * LINE)
            tma.load_box(words, self.block.maps[1], [LINE * line, key, *(where[a] for a in copied.axes[2:])], to, barrier)
        return self.slots.next(at)

    # Products, by a warpgroup.

    def consume(self) -> None:
        block, g, words, s = self.block, self.gradient, self.words, self.form
        axes, finished = result_of(self.tiling, s, 0, bool(block.stores))
        self.consumer = block.consumer
        staging = words.add(words.add(block.shared, self.layout.results), words.mul(self.consumer, 64 * lines(g.depth.size) * 2 * LINE))
        group = block.group(staging)
        self.member = group.thread
        self.result = Results(words, stored(g, 0), axes, finished, block.tensors, group, block.stores)
        self.numbers.take_each(self.consumer, words.value(0), self.slots.start().values, self.sum_tile)
        with only_if(words.equal(self.member, 0)):
            tma.await_stores(0, read=True)  # a block's shared memory goes when it ends

    def sum_tile(self, tile: ir.Value, *at: ir.Value) -> list[ir.Value]:
        words = self.words
        place, zeros = self.order.place(tile), [float32(0.0)] * (self.gradient.results[0].columns.size // 2)
        self.turns.empty.arrive(self.consumer)  # each thread has the tile's number
        found = loop(words, place.begin, place.end, 1, [*at, *zeros], lambda block, *values: self.add(Position(*values[:2]), values[2:]))
        at, sums = found[:2], found[2:]
        self.result.begin(place.grid, words.add(place.first, words.mul(self.consumer, 64)), 0)
        self.result.emit([sums + [float32(0.0)] * (self.result.schedule.tile_n // 2 - len(sums))])
        return at

    def add(self, at: Position, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """What a block of keys adds."""
        words, s = self.words, self.form
        self.slots.await_full(at)
        rows, columns = Tile(64, 2, True), Tile(LINE * lines(self.gradient.depth.size), 2, False, 2 * s.columns)
        slot = matrix_address(words, self.at(at.slot))
        scores, keys = words.add(slot, words.mul(self.consumer, rows.bytes >> 4)), words.add(slot, self.layout.keys >> 4)
        sums = fence(sums)
        for term in range(0, s.columns, 16):
            a, b = rows.descriptor(words, scores, 0, term), columns.descriptor(words, keys, 0, term)
            sums = multiply_registers(sums, [a], b, True, False, str(self.gradient.streamed[0].element))
        nvvm.WgmmaGroupSyncAlignedOp()
        sums = awaited(0, sums)
        self.slots.release(at.slot, self.member)
        return [*self.slots.next(at).values, *sums]

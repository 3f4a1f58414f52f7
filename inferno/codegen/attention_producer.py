"""The copies of an attention kernel: one thread starts them, for each tile its queries, and its keys and values from the last to the first."""

from collections.abc import Sequence
from itertools import product

from inferno.codegen import tma
from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_tiles import Place
from inferno.codegen.integers import Integer
from inferno.codegen.mbarriers import Position, Ring
from inferno.codegen.nvvm_builder import loop, only_if
from inferno.mlir import ir
from inferno.schedule.attention import LINE, Copied, lines, turned_lines
from inferno.schedule.tiling import BEHIND


class Producer:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.words = frame, frame.words
        t = frame.tiling
        self.q, self.k, self.v = zip(frame.maps, (t.q, t.k, t.v), (t.depth, t.depth, t.width))

    def emit(self) -> None:
        start = self.frame.keys.start()
        self.frame.numbers.give_each(self.words.value(0), start.values, self.tile)

    def prefetch(self) -> None:
        """Of this block's tile what the first slots take, in the same order."""
        f, words = self.frame, self.words
        place = f.order.place(f.worker)
        count = words.sub(place.end, place.begin)
        for i, operand in product(range(f.schedule.stages), (self.k, self.v)):
            row = words.mul(words.sub(place.end, i + 1), f.schedule.keys)
            with only_if(words.less(i, count)):
                self.copy_lines(operand, place, row, f.schedule.keys, 0, None)

    def tile(self, number: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        """Keys are a block ahead of values, as their products are; queries come after the first keys, which are free before them."""
        f, words = self.frame, self.words
        place, at = f.order.place(number), Position(*at)
        self.copy_keys(place, words.sub(place.end, 1), at)
        self.copy_queries(place, number, parity)

        def step(i: ir.Value, *at: ir.Value) -> list[ir.Value]:
            here, block = Position(*at), words.sub(words.sub(place.end, 1), i)
            following = f.keys.next(here)
            if f.schedule.overlap:
                self.copy_keys(place, block, following)
            self.copy_values(place, words.add(block, 1), here)
            if not f.schedule.overlap:  # in the order in which they are taken
                self.copy_keys(place, block, following)
            return following.values

        count = words.sub(place.end, place.begin)
        last = Position(*(loop(words, 1, count, 1, at.values, step) if count != 1 else at.values))
        self.copy_values(place, place.begin, last)
        return f.keys.next(last).values

    def copy_keys(self, place: Place, block: Integer, at: Position) -> None:
        f = self.frame
        self.fill(f.keys, at, f.k_bytes, f.place(f.layout.keys, f.k_bytes, at.slot), self.k, place, block)

    def copy_values(self, place: Place, block: Integer, at: Position) -> None:
        f = self.frame
        self.fill(f.values, at, f.v_bytes, f.place(f.layout.values, f.v_bytes, at.slot), self.v, place, block)

    def fill(self, ring: Ring, at: Position, size: int, target: Integer, operand: tuple, place: Place, block: Integer) -> None:
        ring.acquire(at)
        ring.full.expect(at.slot, size)
        rows = self.frame.schedule.keys
        self.copy_lines(operand, place, self.words.mul(block, rows), rows, target, ring.full.at(at.slot))

    def copy_queries(self, place: Place, number: ir.Value, parity: ir.Value) -> None:
        f, words = self.frame, self.words
        for consumer in range(f.schedule.consumers):
            slot = Position(words.value(consumer), parity)
            f.queries.acquire(slot)
            f.numbers.give(number, consumer)
            f.queries.full.expect(consumer, f.q_bytes)
            target, row = f.place(0, f.q_bytes, consumer), words.add(place.first, 64 * consumer)
            self.copy_lines(self.q, place, row, 64, target, f.queries.full.at(consumer))

    def copy_lines(self, operand: tuple, place: Place, row: Integer, rows: int, target: Integer, barrier: ir.Value | None) -> None:
        """``rows`` rows of a tensor of heads, in panels of 64 columns; without a ``barrier`` only to L2."""
        map_, copied, inner = operand

        def load(coordinates: Sequence[Integer], at: Integer) -> None:
            if barrier is None:
                tma.prefetch_box(self.words, map_, coordinates)
            else:
                tma.load_box(self.words, map_, coordinates, at, barrier)

        if copied.turned:
            (outer,) = self.outer(copied, place)
            for panel in range(lines(rows)):
                at = self.words.add(target, panel * turned_lines(copied) * 128)
                load([self.words.add(row, LINE * panel), 0, *outer], at)
            return
        for piece, outer in enumerate(self.outer(copied, place)):
            for line in range(lines(inner.size)):
                at = self.words.add(target, (piece * lines(inner.size) + line) * rows * 128)
                load([LINE * line, row, *outer], at)

    def outer(self, copied: Copied, place: Place) -> list[list[Integer]]:
        """Where each piece of the heads is, by a map's outer dimensions."""
        words, pieces = self.words, self.frame.schedule.pieces
        where = {BEHIND: 1, **dict(zip(self.frame.tiling.grid, place.grid))}
        outer = [where[a] for a in copied.axes[2:]]
        if pieces == 1:
            return [outer]
        head: Integer = 0
        for at, axis in zip(outer, copied.axes[2:]):
            head = words.add(words.mul(head, axis.size), at)
        return [[words.add(head, piece * copied.heads)] for piece in range(pieces)]

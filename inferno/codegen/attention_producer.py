"""The copies of an attention kernel: one thread starts them, for each tile its queries, and its keys and values from the last to the first."""

from collections.abc import Sequence

from inferno.codegen import tma
from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_tiles import Place
from inferno.codegen.integers import Integer
from inferno.codegen.mbarriers import Position, Ring
from inferno.codegen.nvvm_builder import loop
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

    def copy_lines(self, operand: tuple, place: Place, row: Integer, rows: int, target: Integer, barrier: ir.Value) -> None:
        """``rows`` rows of a tensor of heads, in panels of 64 columns."""
        map_, copied, inner = operand
        if copied.turned:
            (outer,) = self.outer(copied, place)
            for panel in range(lines(rows)):
                at = self.words.add(target, panel * turned_lines(copied) * 128)
                tma.load_box(self.words, map_, [self.words.add(row, LINE * panel), 0, *outer], at, barrier)
            return
        for piece, outer in enumerate(self.outer(copied, place)):
            for line in range(lines(inner.size)):
                at = self.words.add(target, (piece * lines(inner.size) + line) * rows * 128)
                tma.load_box(self.words, map_, [LINE * line, row, *outer], at, barrier)

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

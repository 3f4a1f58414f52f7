"""The producer of an attention kernel: one thread starts the copies of each tile's queries, and of its keys and values from the last to the first."""

from collections.abc import Sequence
from math import prod

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.pages import PageNumbers
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.mlir import ir
from inferno.passes.shapes import row_major
from inferno.schedule.attention.schedule import LINE, lines
from inferno.schedule.attention.tiling import Copied, transposed_lines
from inferno.schedule.tiles.tiling import BEHIND, Axis


class Producer:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.words = frame, frame.words
        t = frame.tiling
        if frame.maps:
            self.q, self.k, self.v = zip(frame.maps, (t.q, t.k, t.v), (t.depth, t.depth, t.width))
        self.pages = PageNumbers(frame)

    def emit(self) -> None:
        start = self.frame.keys.start()
        self.frame.numbers.give_each(self.words.value(0), start.values, self.tile)

    def tile(self, number: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        """Keys are a block ahead of values, as their products are; queries come after the first keys, which are free before them."""
        f, words = self.frame, self.words
        place, at = f.order.place(number), Position(*at)
        last = f.order.block(place, 0)
        pages, following_pages = (self.pages.read(place, block) for block in (last, words.sub(last, 1)))
        self.copy_keys(place, last, at, pages)
        self.copy_queries(place, number, parity)

        def step(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            here, block = Position(*carried[:2]), f.order.block(place, i)
            before = words.add(block, 1) if place.listed is None else f.order.block(place, words.sub(i, 1))
            pages, following_pages = self.pages.halves(carried[2:])
            after = self.pages.read(place, words.sub(block, 1))  # which comes while slots are waited for
            following = f.keys.next(here)
            if f.schedule.overlap:
                self.copy_keys(place, block, following, following_pages)
            self.copy_values(place, before, here, pages)
            if not f.schedule.overlap:  # in the order in which they are taken
                self.copy_keys(place, block, following, following_pages)
            return [*following.values, *following_pages, *after]

        count = words.sub(place.end, place.begin)
        carried = [*at.values, *pages, *following_pages]
        carried = loop(words, 1, count, 1, carried, step) if count != 1 else carried
        at, (pages, _) = Position(*carried[:2]), self.pages.halves(carried[2:])
        first = place.begin if place.listed is None else f.order.block(place, words.sub(count, 1))
        self.copy_values(place, first, at, pages)
        return f.keys.next(at).values

    def copy_keys(self, place: Place, block: Integer, at: Position, pages: Sequence[ir.Value]) -> None:
        f = self.frame
        target = f.place(f.layout.keys, f.k_bytes, at.slot)
        self.fill(f.keys, at, f.k_bytes, target, self.k, place, block, self.pages.of_keys(pages))
        if f.masks is not None:
            self.copy_masks(place, block, at)

    def copy_masks(self, place: Place, block: Integer, at: Position) -> None:
        f = self.frame
        f.mask_ring.acquire(at)
        f.mask_ring.full.expect(at.slot, f.masks.form.bytes)
        key, full = f.words.mul(block, f.schedule.keys), f.mask_ring.full.at(at.slot)
        f.masks.copy(dict(zip(f.tiling.grid, place.grid)), place.first, key, at.slot, full)

    def copy_values(self, place: Place, block: Integer, at: Position, pages: Sequence[ir.Value]) -> None:
        f = self.frame
        target = f.place(f.layout.values, f.v_bytes, at.slot)
        self.fill(f.values, at, f.v_bytes, target, self.v, place, block, self.pages.of_values(pages))

    def fill(
        self, ring: Ring, at: Position, size: int, target: Integer, operand: tuple, place: Place, block: Integer, pages: Sequence[ir.Value],
    ) -> None:
        ring.acquire(at)
        ring.full.expect(at.slot, size)
        rows = self.frame.schedule.keys
        if pages:
            self.copy_pages(operand, place, block, target, ring.full.at(at.slot), pages)
        else:
            self.copy_lines(operand, place, self.words.mul(block, rows), rows, target, ring.full.at(at.slot))

    def copy_pages(self, operand: tuple, place: Place, block: Integer, target: Integer, barrier: ir.Value, pages: Sequence[ir.Value]) -> None:
        """A block's rows from the pages that they are in, or from one that has more."""
        words, (map_, copied, inner), keys = self.words, operand, self.frame.schedule.keys
        rows = min(keys, copied.pages.rows)
        row = words.mul(words.rem(block, copied.pages.rows // rows), rows)
        (outer,) = self.outer(copied, place)
        for number, page in enumerate(pages):
            for line in range(lines(inner.size)):
                at = words.add(target, (line * keys + number * rows) * 128)
                tma.load_box(words, map_, [LINE * line, row, *outer, page], at, barrier)

    def copy_queries(self, place: Place, number: ir.Value, parity: ir.Value) -> None:
        f, words = self.frame, self.words
        for consumer in range(f.schedule.consumers):
            slot = Position(words.value(consumer), parity)
            f.queries.acquire(slot)
            f.numbers.give(number, consumer)
            f.queries.full.expect(consumer, f.q_bytes)
            target, row = f.place(0, f.q_bytes, consumer), words.add(place.first, 64 * consumer)
            self.copy_lines(self.q, place, row, f.schedule.warp_rows or 64, target, f.queries.full.at(consumer))

    def copy_lines(self, operand: tuple, place: Place, row: Integer, rows: int, target: Integer, barrier: ir.Value) -> None:
        """``rows`` rows of a tensor of heads, in panels of as many columns as a line has."""
        (map_, copied, inner), columns = operand, self.frame.schedule.line
        if copied.transposed:
            (outer,) = self.outer(copied, place)
            for panel in range(lines(rows)):
                at = self.words.add(target, panel * transposed_lines(copied) * 128)
                tma.load_box(self.words, map_, [self.words.add(row, LINE * panel), 0, *outer], at, barrier)
            return
        for piece, outer in enumerate(self.outer(copied, place)):
            count = lines(inner.size, columns)
            for line in range(count):
                at = self.words.add(target, (piece * count + line) * rows * 128)
                tma.load_box(self.words, map_, [columns * line, row, *outer], at, barrier)

    def outer(self, copied: Copied, place: Place) -> list[list[Integer]]:
        """Where each piece of the heads is, by a map's outer dimensions."""
        words, pieces = self.words, self.frame.schedule.pieces
        outer = [self.position(a, place) for a in (copied.axes[2:] if copied.pages is None else copied.axes[2:-1])]
        if pieces == 1:
            return [outer]
        head: Integer = 0
        for at, axis in zip(outer, copied.axes[2:]):
            head = words.add(words.mul(head, axis.size), at)
        return [[words.add(head, piece * copied.heads)] for piece in range(pieces)]

    def position(self, axis: Axis, place: Place) -> Integer:
        """Along one axis of a map, which may be several of the grid's, and longer in front."""
        if axis == BEHIND:
            return 1
        own = [(a.size, at) for a, at in zip(self.frame.tiling.grid, place.grid) if set(a.dims) <= set(axis.dims)]
        sizes = [size for size, _ in own]
        first = axis.size - prod(sizes) if all(isinstance(n, int) for n in (axis.size, *sizes)) else 0
        return self.words.dot([at for _, at in own], row_major(sizes), first)

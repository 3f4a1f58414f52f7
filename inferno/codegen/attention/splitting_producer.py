"""The producer of attention in float32 that splits operands into bf16 pieces itself, on their way to shared memory, without a launch in front.

All threads of the warpgroup read neighbours of rows, and leave their pieces where the copy engine would have put them.  What is read first for a slot is on
its way while the slot is waited for.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.pieces import pieces_of, read_lanes
from inferno.codegen.attention.producer import Producer
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop, shared_pointer, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.mlir import arith, ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.attention.schedule import LINE
from inferno.schedule.attention.splitting_producer import LANES, chunks
from inferno.schedule.attention.tiling import Copied
from inferno.symbolic import ceildiv

_THREADS = 128  # of the producer, a warpgroup
_TOGETHER = 4  # loads of 8 numbers that are under way at a time
_AT_ONCE = 8  # the same of a tile's queries, keys and values where these are all that there is


class Some(NamedTuple):
    """Neighbours of a row that are to be cut, and where their pieces go from a slot's beginning; ``there``: whether it is this thread's to do."""

    values: list[ir.Value]
    target: Integer
    there: ir.Value | None


class Rows:
    """``count`` rows of an operand from a place on, to a tile of ``room`` rows."""

    def __init__(self, frame: Frame, copied: Copied, number: int, source: Elements, offset: int, count: int, room: int) -> None:
        self.frame, self.words, self.copied, self.source = frame, frame.words, copied, source
        self.offset, self.count, self.room = offset, count, room
        self.number = number  # of q, k and v
        self.chunks = chunks(copied.axes[0].size, number < 2)
        self.piece = (frame.q_piece, frame.k_piece, frame.v_piece)[number]

    @property
    def items(self) -> int:
        return self.count * self.chunks

    @property
    def turns(self) -> int:
        return ceildiv(self.items, _THREADS)

    def read(self, first: Integer, row: Integer, heads: Sequence[Integer], turns: int) -> list[Some]:
        return [self.some(self.words.add(first, turn * _THREADS), row, heads, (turn + 1) * _THREADS > self.items) for turn in range(turns)]

    def some(self, item: Integer, first: Integer, heads: Sequence[Integer], behind: bool) -> Some:
        """``behind``: whether an item may be behind the last one."""
        words, (inner, outer, *others) = self.words, self.copied.strides
        columns, rows = (a.size for a in self.copied.axes[:2])
        there = words.less(item, self.items) if behind else None
        if there is not None:
            item = words.min(item, self.items - 1)
        if inner == 1 or columns == 1:
            line, chunk = words.div(item, self.chunks), words.rem(item, self.chunks)
        else:  # neighbouring threads have neighbouring rows
            line, chunk = words.rem(item, self.count), words.div(item, self.count)
        row, column = words.add(first, line), words.mul(chunk, LANES)
        inside = None
        if self.number == 0 or self.frame.order.overhangs:
            beyond = words.less(row, rows)
            row = words.min(row, rows - 1)
            inside = None if self.number == 0 else beyond  # of queries behind the last one nothing is kept
        if self.chunks * LANES > columns:
            is_one = words.less(column, columns)
            column = words.min(column, columns - LANES)
            inside = is_one if inside is None else arith.andi(inside, is_one)
        at = words.dot([column, row, *heads], [inner, outer, *others], self.offset)
        values = read_lanes(words, self.source, at, self.copied.strides, self.offset)
        if inside is not None:
            zero = float32(0.0)
            values = [arith.select(inside, x, zero) for x in values]
        return Some(values, self.place(line, chunk), there)

    def place(self, line: Integer, chunk: Integer) -> Integer:
        """In a piece: panels of 64 columns, of lines of 128 bytes under their swizzle."""
        words, panels = self.words, LINE // LANES
        inside = words.add(words.mul(line, 128), words.shl(tma.swizzled(words, line, words.rem(chunk, panels), 128), 4))
        return words.add(words.mul(words.div(chunk, panels), self.room * 128), inside)

    def leave(self, found: Sequence[Some], slot: Integer) -> None:
        words, count = self.words, self.frame.schedule.pieces
        for some in found:
            def write(some: Some = some) -> None:
                pairs = [pieces_of(some.values[i:i + 2], count) for i in range(0, LANES, 2)]
                for piece in range(count):
                    to = words.add(words.add(slot, some.target), piece * self.piece)
                    store(join([p[piece] for p in pairs]), shared_pointer(words, to), 16)

            if some.there is None:
                write()
            else:
                with only_if(some.there):
                    write()


class CuttingProducer(Producer):
    """By all threads of its warpgroup."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        f, t, a = frame, frame.tiling, frame.kernel
        self.member = f.words.mask(f.thread, _THREADS - 1)
        self.of_q, self.of_k, self.of_v = (
            Rows(f, copied, number, f.tensors[o.access.argument], o.access.offset, count, room)
            for number, (o, copied, count, room) in enumerate((
                (a.q, t.q, t.rows, 64), (a.k, t.k, f.schedule.keys, f.schedule.keys), (a.v, t.v, f.schedule.keys, f.schedule.keys))))

    def tile(self, number: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        """In the order in which slots are taken; reads of two are under way together, or of all where there are few."""
        f, words = self.frame, self.words
        place, at_ = f.order.place(number), Position(*at)
        count = words.sub(place.end, place.begin)
        last = f.order.block(place, 0)
        begun = [self.keys(place, last, at_), *(self.queries(place, number, parity, consumer) for consumer in range(f.schedule.consumers))]
        few = count == 1 and self.of_k.turns + self.of_v.turns + f.schedule.consumers * self.of_q.turns <= _AT_ONCE
        if few:
            begun.append(self.values(place, last, at_))
        for finish in begun:
            finish()
        if few:
            return f.keys.next(at_).values

        def step(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            here, block = Position(*carried), f.order.block(place, i)
            before = words.add(block, 1) if place.listed is None else f.order.block(place, words.sub(i, 1))
            following = f.keys.next(here)
            for finish in (self.values(place, before, here), self.keys(place, block, following)):
                finish()
            return following.values

        at_ = Position(*(loop(words, 1, count, 1, at_.values, step) if count != 1 else at_.values))
        self.values(place, place.begin if place.listed is None else f.order.block(place, words.sub(count, 1)), at_)()
        return f.keys.next(at_).values

    # Each begins to read, and returns what does the rest.

    def keys(self, place: Place, block: Integer, at: Position) -> Callable[[], None]:
        f = self.frame
        finish = self.bring(self.of_k, place, f.words.mul(block, f.schedule.keys), f.keys, at, f.place(f.layout.keys, f.k_bytes, at.slot))

        def finish_with_masks() -> None:
            if f.masks is not None:
                with only_if(f.words.equal(self.member, 0)):
                    self.copy_masks(place, block, at)
            finish()

        return finish_with_masks

    def values(self, place: Place, block: Integer, at: Position) -> Callable[[], None]:
        f = self.frame
        return self.bring(self.of_v, place, f.words.mul(block, f.schedule.keys), f.values, at, f.place(f.layout.values, f.v_bytes, at.slot))

    def queries(self, place: Place, number: ir.Value, parity: ir.Value, consumer: int) -> Callable[[], None]:
        f, words = self.frame, self.words
        slot, row = Position(words.value(consumer), parity), words.add(place.first, 64 * consumer)
        return self.bring(self.of_q, place, row, f.queries, slot, f.place(0, f.q_bytes, consumer))

    def bring(self, rows: Rows, place: Place, row: Integer, ring: Ring, at: Position, slot: Integer) -> Callable[[], None]:
        words, heads = self.words, [self.position(axis, place) for axis in rows.copied.axes[2:]]
        rounds = ceildiv(rows.turns, _TOGETHER)
        together = ceildiv(rows.turns, rounds)
        first = rows.read(self.member, row, heads, together) if rounds == 1 else None

        def finish() -> None:
            ring.acquire(at)
            if first is not None:
                rows.leave(first, slot)
            else:
                whole = rows.items % (together * _THREADS) == 0

                def some(item: ir.Value) -> Sequence[ir.Value]:
                    rows.leave([rows.some(words.add(item, i * _THREADS), row, heads, not whole) for i in range(together)], slot)
                    return []

                loop(words, self.member, rows.items, together * _THREADS, [], some)
            tma.fence_shared()
            nvvm.SyncWarpOp(words.value(-1))
            with only_if(words.equal(words.mask(self.member, 31), 0)):
                ring.full.arrive(at.slot)

        return finish

"""What the roles of an attention kernel share: barriers, shared memory, maps, and how tiles come to the consumers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen import tma
from inferno.codegen.attention_tiles import TileOrder
from inferno.codegen.global_memory import Elements
from inferno.codegen.integers import Integer
from inferno.codegen.mbarriers import Ring
from inferno.codegen.nvvm_builder import Words, load_shared, loop, loop_while, shared_pointer, store, uniform
from inferno.codegen.tensor_core import Tile
from inferno.mlir import ir, llvm, nvvm
from inferno.schedule.attention import Attention, AttentionTiling, Shared, lines, turned_lines
from inferno.schedule.attention_kernel import AttentionKernel
from inferno.schedule.wgmma import ROW

_NO_TILE = -1


@dataclass
class Frame:
    """``maps`` are the tensor maps of q, k and v; ``tensors`` what is read or written without them, by argument; ``worker`` is this block's
    number of ``workers``; ``counter`` counts the tiles that were given out; ``split`` is the number of this cluster of those that share a tile, ``rank``
    this block's in it, and ``scratch`` where clusters leave their sums, and counters.

    A consumer's slot of ``queries`` also holds the number of the tile, where that is given out by the counter.
    """

    words: Words
    kernel: AttentionKernel
    tiling: AttentionTiling
    schedule: Attention
    layout: Shared
    shared: ir.Value
    maps: Sequence[ir.Value]
    tensors: dict[int, Elements]
    thread: ir.Value
    warp: ir.Value
    worker: ir.Value
    workers: int
    counter: ir.Value | None
    staged: bool
    split: Integer = 0
    rank: Integer = 0
    scratch: Sequence[ir.Value] = ()

    def __post_init__(self) -> None:
        s, words = self.schedule, self.words
        self.part = words.add(words.mul(self.split, s.parts), self.rank)  # of a tile's keys
        self.order = TileOrder(words, self.kernel, self.tiling, s, self.part, self.tensors)
        t = self.tiling
        # Values lie in panels of 64 columns, with a line for each key; rows that are innermost in memory in panels of 64, with a line for each column.
        self.q_tile, self.k_tile = (
            Tile(rows, 2, not of.turned, 2 * turned_lines(of) if of.turned else ROW) for rows, of in ((64, t.q), (s.keys, t.k)))
        self.v_tile = Tile(turned_lines(t.v), 2, True) if t.v.turned else Tile(64 * lines(t.width.size), 2, False, 2 * s.keys)
        # Of an operand's piece, one behind the other, and of all.
        self.q_piece, self.k_piece = (
            tile.bytes * (1 if of.turned else lines(t.depth.size)) for tile, of in ((self.q_tile, t.q), (self.k_tile, t.k)))
        self.v_piece = self.v_tile.bytes * (lines(s.keys) if t.v.turned else 1)
        self.q_bytes, self.k_bytes, self.v_bytes = (s.pieces * size for size in (self.q_piece, self.k_piece, self.v_piece))
        barriers = words.add(self.shared, self.layout.barriers)
        self.keys = Ring(words, barriers, s.stages, s.consumers)
        self.values = Ring(words, words.add(barriers, 16 * s.stages), s.stages, s.consumers)
        self.queries = Ring(words, words.add(barriers, 32 * s.stages), s.consumers, 4 if self.early else 1)
        self.numbers = words.add(barriers, 32 * s.stages + 16 * s.consumers)

    @property
    def early(self) -> bool:
        """Whether queries are released after the last scores, by each warp; otherwise when results have left their place."""
        return self.schedule.apart or not self.staged

    @property
    def warpgroup(self) -> Integer:
        return self.words.shr(self.warp, 2)

    def initialize(self, maps: Sequence[ir.Value]) -> None:
        """By one thread."""
        for m in maps:
            tma.prefetch(m)
        for ring in (self.keys, self.values, self.queries):
            ring.initialize()
        nvvm.FenceMbarrierInitOp()

    def place(self, offset: int, size: int, slot: Integer) -> Integer:
        """The shared address of a slot of ``size`` bytes."""
        words = self.words
        return words.add(words.add(self.shared, offset), words.mul(slot, size))

    # Tiles, for a consumer, and for the producer, which gives out their numbers.

    def each_tile(self, carried: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]]) -> list[ir.Value]:
        """``body(number, *carried)`` for this block's tiles, where their numbers are known."""
        if self.schedule.order == "single":
            return list(body(self.worker, *carried))
        return loop(self.words, self.worker, self.order.count, self.workers, carried, body)

    def take_each(
        self, consumer: Integer, parity: ir.Value, carried: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]],
    ) -> None:
        """A consumer's part: ``body(number, *carried)`` when the tile's queries have come; ``parity`` is that of their barrier."""
        words = self.words

        def wait(parity: ir.Value) -> None:
            self.queries.full.wait(consumer, parity)

        def number(parity: ir.Value) -> ir.Value:
            wait(parity)
            return uniform(words, load_shared(words, self.number_at(consumer), words.type, 1))

        def turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            wait(parity)
            return [words.xor(parity, 1), *body(number, *carried)]

        def next_turn(tile: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            following = words.xor(parity, 1)
            carried = body(tile, *carried)
            return [number(following), following, *carried]

        if self.schedule.order != "dynamic":
            self.each_tile([parity, *carried], turn)
            return
        loop_while([number(parity), parity, *carried], lambda n, *_: words.less(n, self.order.count), next_turn)

    def give_each(self, parity: ir.Value, carried: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]]) -> None:
        """The producer's part: ``body(number, parity, *carried)``."""
        words = self.words

        def turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            return [words.xor(parity, 1), *body(number, parity, *carried)]

        def next_turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            following = self.count_on()  # on its way while this one's copies are started
            return [following, *turn(number, parity, *carried)]

        if self.schedule.order != "dynamic":
            self.each_tile([parity, *carried], turn)
            return
        _, parity, *_ = loop_while([self.count_on(), parity, *carried], lambda n, *_: words.less(n, self.order.count), next_turn)
        for consumer in range(self.schedule.consumers):
            self.queries.empty.wait(consumer, words.xor(parity, 1))
            self.give(words.value(_NO_TILE), consumer)
            self.queries.full.arrive(consumer)

    def count_on(self) -> ir.Value:
        return llvm.AtomicRMWOp(llvm.AtomicBinOp.add, self.counter, self.words.value(1), llvm.AtomicOrdering.monotonic).result

    def number_at(self, consumer: Integer) -> Integer:
        return self.words.add(self.numbers, self.words.shl(consumer, 2))

    def give(self, number: ir.Value, consumer: int) -> None:
        if self.schedule.order == "dynamic":
            store(number, shared_pointer(self.words, self.number_at(consumer)), 4)

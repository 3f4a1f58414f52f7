"""Gradients of queries that are accumulated in global memory, by the kernel of attention's gradients of keys and values, of which each block has a tile of
keys.

The gradients of scores of a block of queries, rounded as for the product with queries, come to shared memory, and both consumers multiply all of them with
keys, each for half of the columns or of the queries: behind the next block's scores, so that neither waits for the other one.  The products come to shared
memory, too, from where a further warp for each consumer has the copy engine add them to float32 numbers in memory, in which they lie as the tensor core
gives them, thread by thread.  What is there in the end the last kernel rounds (``gradients_rounded``).

Every launch gives the same bits: blocks of threads take turns.  A counter for each consumer's part of each block of queries says how many tiles have been
added; the first one writes.  Tiles of a head begin with queries that lie evenly apart, and walk round and round, so that a block of queries comes to the
next tile some time after the one before had it: as a rule nobody waits.  Nor can all wait for ever.  All blocks of threads run at the same time (the launch
is a cooperative one), those of a head begin it together, in the same order of heads, and a tile waits only for those that have the same queries in an
earlier step, or in the same step and have a higher number (``Order.turn``); these pass their turn on when their next products are in shared memory, for
which they wait for no later turn: by induction over steps and numbers all go on.
"""

from collections.abc import Sequence
from dataclasses import replace

from inferno.codegen.attention.gradients_consumer import Consumer, OuterPlace, Running
from inferno.codegen.attention.gradients_frame import Frame, linear
from inferno.codegen.attention.gradients_numbers import NumberedPairs, Numbers
from inferno.codegen.attention.products import awaited, undefined
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.wgmma_epilogue import store_transposed
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import assembly, integer_type, loop, opaque, shared_pointer, store, widen_pointer
from inferno.codegen.nvvm.mbarriers import Barriers, Position, Ring
from inferno.codegen.nvvm.tensor_core import Tile, matrix_address, multiply_registers
from inferno.mlir import ir, nvvm
from inferno.schedule.attention.attention_gradients import AttentionGradients
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.schedule import LINE, lines

_AWAIT = "{ .reg .pred p; .reg .u32 r; AGAIN: ld.acquire.gpu.global.u32 r, [$0]; setp.lt.u32 p, r, $1; @p bra AGAIN; }"
_PASS_ON = "st.release.gpu.global.u32 [$0], $1;"


def part_numbers(g: AttentionGradient, s: AttentionGradients) -> int:
    """Floats of a consumer's part of a block of queries."""
    return s.columns * g.depth.size // s.consumers


class Added:
    """What consumers and those that add for them share: ``sums`` and ``counters`` in memory, and in shared memory the gradients of scores of two blocks, whose
    ``scores`` are full when all warps of the consumers have arrived, and slots of each consumer's products."""

    def __init__(self, frame: Frame, sums: ir.Value, counters: ir.Value) -> None:
        self.frame, self.words, self.sums, self.counters = frame, frame.words, sums, counters
        self.barriers = frame.words.add(frame.shared, frame.layout.more)
        self.scores = Barriers(self.words, self.barriers)
        self.bytes = 4 * part_numbers(frame.gradient, frame.form)
        self.numbers = Numbers(frame)

    def initialize(self) -> None:
        s = self.frame.form
        for slot in range(s.stages):
            self.scores.initialize(slot, 4 * s.consumers)
        for consumer in range(s.consumers):
            self.parts(consumer).initialize()

    def parts(self, consumer: Integer) -> Ring:
        words, slots = self.words, self.frame.form.adds
        return Ring(words, words.add(self.barriers, words.add(words.mul(consumer, 16 * slots), 16)), slots, 1, writers=4)

    def part_at(self, consumer: Integer, slot: Integer) -> Integer:
        """The shared address of a slot of a consumer's products."""
        words, f = self.words, self.frame
        first = words.add(words.add(f.shared, f.layout.added), words.mul(consumer, f.form.adds * self.bytes))
        return words.add(first, words.mul(slot, self.bytes))

    def position(self, at: Position) -> Position:
        """The slot of products of a block whose columns are in a slot of two."""
        return at if self.frame.form.adds == 2 else Position(self.words.value(0), at.slot)

    # What adds for a consumer, by one thread.

    def add_each(self, consumer: Integer) -> None:
        """For each block of each tile of this block of threads, when its products are there."""
        f, words = self.frame, self.words
        parts = self.parts(consumer)

        def tile(number: ir.Value, *at: ir.Value) -> list[ir.Value]:
            place = f.order.place(number)
            count = words.sub(place.end, place.begin)

            def position(n: Integer, *state: ir.Value) -> list[ir.Value]:
                head = linear(words, f.axes, [*place.grid, *f.outer(n)])

                def step(i: ir.Value, *state: ir.Value) -> list[ir.Value]:
                    block = f.order.block(place, i)
                    part = words.add(words.mul(words.add(words.mul(head, f.order.blocks), block), f.form.consumers), consumer)
                    return self.add(parts, consumer, part, f.order.turn(place, block), state)

                return loop(words, 0, count, 1, state, step)

            *at, part, turn = f.each_position([*at, words.value(0), words.value(0)], position)
            self.pass_on(part, turn)
            return at

        f.numbers.each(parts.start().values, tile)

    def add(self, parts: Ring, consumer: Integer, part: Integer, turn: Integer, state: Sequence[ir.Value]) -> list[ir.Value]:
        """A slot's products to a part of the sums, whose ``turn``-th they are.  The part before is there by then as a rule, and its turn passed on."""
        words, at, (last, passed) = self.words, Position(*state[:2]), state[2:]
        target = widen_pointer(words, self.sums, words.mul(part, self.bytes // 4), 0, ir.F32Type.get())
        source = self.part_at(consumer, at.slot)
        parts.await_full(at)
        with only_if(words.less(0, passed)):
            self.pass_on(last, passed)
        with only_if(words.equal(turn, 0)):
            tma.store_piece(words, target, source, self.bytes)
        with only_if(words.less(0, turn)):
            assembly(_AWAIT, [self.counter(part), words.value(turn)])
            tma.add_piece(words, target, source, self.bytes)
        tma.await_stores(0, read=True)
        parts.empty.arrive(at.slot)
        return [*parts.next(at).values, words.value(part), words.value(words.add(turn, 1))]

    def pass_on(self, part: Integer, turn: Integer) -> None:
        """The next turn, of a part to which all is added that was started."""
        tma.await_stores(0, read=False)
        assembly(_PASS_ON, [self.counter(part), turn])

    def counter(self, part: Integer) -> ir.Value:
        return widen_pointer(self.words, self.counters, part, 0, integer_type(32))


class AddingConsumer(Consumer):
    """A consumer that also multiplies the gradients of scores with keys: those of a block behind the next block's products of rows."""

    def __init__(self, frame: Frame, added: Added) -> None:
        super().__init__(frame)
        f, words = frame, self.words
        self.added, self.group = added, f.block.group(0)
        self.parts = added.parts(self.number)
        p = self.points
        self.points = NumberedPairs(words, p.contraction, p.tiling, p.schedule, p.tensors)
        # Of each consumer's keys: the gradients of their scores, queries as rows, and themselves as a rhs that is summed over its lines.
        self.query_tile, self.key_tile = Tile(64, 2, True), Tile(LINE * lines(f.axes.depth.size), 2, False, 2 * LINE)

    def walk_blocks(self, place: OuterPlace, running: Running) -> Running:
        running = self.walk(place, 0, 1, running, first=True)
        running = self.walk(place, 1, self.words.sub(place.end, place.begin), running)
        last = self.before(running.at)
        self.leave(awaited(0, self.of_queries(last)), last)
        return running

    def begin_results(self, at: Position) -> None:
        """They lie where this consumer's keys were, which the other one has multiplied, too.  Their addresses are computed now: there are no registers to
        keep them."""
        words, consumers = self.words, self.frame.form.consumers
        nvvm.BarrierOp(barrierId=words.value(1 + 2 * consumers), numberOfThreads=words.value(128 * consumers))
        for result in self.results:
            result.group = replace(result.group, lane=opaque(words, self.group.lane, at.parity))

    def step(self, place: OuterPlace, i: Integer, old: Running, above: bool, below: bool, edge: bool, first: bool) -> Running:
        """The exponentials lie under the second product.  Where there are no registers for it before, the weights' product comes last but one."""
        f, at, last, late = self.frame, old.at, self.before(old.at), self.frame.form.late
        block = f.order.block(place, i)
        f.columns.await_full(at)
        self.turns.take()
        nvvm.WgmmaFenceAlignedOp()
        products, others = self.product(0, at), self.product(1, at)
        self.turns.pass_on()
        self.place(place, block, at, False)
        self.points.begin(self.added.numbers.at(at.slot), self.group.lane)
        bases = self.bases()
        weights = self.weights(self.scores.finish(awaited(1, products), False, False, False), bases, place)
        self.load()
        if late:
            f.columns.await_full(at)  # it is there: a block of its own, in front of which ptxas leaves the exponentials
            found = awaited(0, [*others, *weights])
            others, weights = found[:len(others)], found[len(others):]
        else:
            of_values = self.add(1, old.sums[1], weights, at)
            others = awaited(1, others)
        gradients = self.gradients(weights, others)
        of_queries = [] if first else self.of_queries(last)
        if late:
            of_values = self.add(1, old.sums[1], weights, at)
        of_keys = self.add(0, old.sums[0], gradients, at)
        if late:
            of_queries = of_queries and awaited(2, of_queries)
        else:
            found = awaited(1, [*of_values, *of_queries])
            of_values, of_queries = found[:len(of_values)], found[len(of_values):]
        store_transposed(self.words, self.group.warp, self.group.lane, f.kept_at(self.number, at.slot), self.packed)
        self.arrive(self.added.scores, at.slot)
        if not first:
            self.leave(of_queries, last)
        done = awaited(0, [*of_keys, *of_values])
        f.columns.release(at.slot, self.member)
        return self.unflatten([*f.columns.next(at).values, *done])

    def before(self, at: Position) -> Position:
        """The position of the block before, of two slots."""
        words = self.words
        return Position(words.xor(at.slot, 1), words.xor(at.parity, words.xor(at.slot, 1)))

    def of_queries(self, at: Position) -> list[ir.Value]:
        """The gradients of scores of the block at ``at``, when both consumers have left them, times keys: of 64 queries this consumer's half of the columns,
        of 128 its half of the queries."""
        f, words = self.frame, self.words
        self.added.scores.wait(at.slot, at.parity)
        several = f.form.columns > 64
        columns, rows = f.axes.depth.size // (1 if several else f.form.consumers), f.form.kept_bytes
        # Columns of a line of keys, or whole lines.
        begin = 0 if several else words.mul(self.number, (columns // LINE * self.key_tile.panel_bytes if columns >= LINE else 2 * columns) >> 4)
        first = words.mul(at.slot, rows >> 4)
        first = words.add(first, words.mul(self.number, self.query_tile.bytes >> 4)) if several else first
        sums = undefined(columns // 2)
        nvvm.WgmmaFenceAlignedOp()
        for consumer in range(f.form.consumers):
            scores = self.base_of(f.kept_at(consumer, 0), at, first)
            keys = self.base_of(f.rows_at(0, consumer), at, begin)
            for term in range(0, 64, 16):
                a, b = self.query_tile.descriptor(words, scores, 0, term), self.key_tile.descriptor(words, keys, 0, term)
                sums = multiply_registers(sums, [a], b, True, (consumer, term) == (0, 0), self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums

    def base_of(self, address: Integer, at: Position, more: Integer) -> Integer:
        return self.words.add(self.base(matrix_address(self.words, address), at), more)

    def leave(self, sums: Sequence[ir.Value], at: Position) -> None:
        """In this consumer's slot of a block at ``at``, for the one who adds for it."""
        words, at = self.words, self.added.position(at)
        self.parts.acquire(at)
        first = words.add(self.added.part_at(self.number, at.slot), words.shl(self.member, 4))
        for i in range(0, len(sums), 4):
            store(join(list(sums[i:i + 4])), shared_pointer(words, words.add(first, 512 * i)), 16)
        self.arrive(self.parts.full, at.slot)

    def arrive(self, barriers: Barriers, slot: Integer) -> None:
        """By each warp, when its threads have written to shared memory."""
        tma.fence_shared()
        nvvm.SyncWarpOp(self.words.value(-1))
        with only_if(self.words.equal(self.group.lane, 0)):
            barriers.arrive(slot)

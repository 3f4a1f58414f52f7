"""A consumer warpgroup of attention: 64 queries of a tile, whose scores, softmax and sums of values stay in its registers.

The scores of the next keys are multiplied in front of the values of these ones; while the latter are, softmax computes.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from math import inf
from typing import NamedTuple

from inferno.codegen.attention.cluster_shares import Shares, Sums, meet_parts
from inferno.codegen.attention.dropout import Drops
from inferno.codegen.attention.fixup import Meeting
from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.masks import Masks
from inferno.codegen.attention.products import Products, awaited, fence
from inferno.codegen.attention.results import Results, result_axes, result_schedule
from inferno.codegen.attention.scores import Scores
from inferno.codegen.attention.softmax import HALVES, State, fma, logarithm, pack_weights, scale_rows, softmax_of
from inferno.codegen.attention.split_keys import Splits
from inferno.codegen.attention.tiles import Place
from inferno.codegen.attention.turns import Turns
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.matmul.wgmma_epilogue import Warpgroup
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop, opaque
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import arith, ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.resources import held
from inferno.schedule.attention.schedule import stores_sums
from inferno.symbolic import is_multiple


# Numbers that a thread has at a time, up to which a loop of one turn may be none: both blocks' would be in registers, of which ptxas spills some
# (300 keys in blocks of 160: 292 bytes; 197 in blocks of 112 none).
_UNROLLED = 128


class Running(NamedTuple):
    """What goes from block to block: where the slots are, the state of softmax, sums of values, and the weights of the block whose values
    are not added yet."""

    at: Position
    state: State
    sums: list[ir.Value]
    weights: list[ir.Value]

    @property
    def flat(self) -> list[ir.Value]:
        return [*self.at.values, *self.state.values, *self.sums, *self.weights]


class Consumer:
    def __init__(self, frame: Frame, maps: dict[int, ir.Value]) -> None:
        f, words = frame, frame.words
        self.frame, self.words = frame, words
        self.number = words.sub(f.warpgroup, 1)
        self.turns = Turns(words, self.number, f.schedule.consumers, f.schedule.turns)
        self.member = words.mask(f.thread, 127)
        warp, lane = words.mask(f.warp, 3), words.mask(f.thread, 31)
        self.lane = lane
        self.masks = None if f.masks is None else Masks(f.masks, self.number, warp, lane)
        self.place_rows(warp, lane)
        self.softmax = softmax_of(f.kernel)(
            words, self.scores.factor, self.scores.made, self.scores.halves, exact=f.kernel.q.element.width == 32, added=f.kernel.added)
        self.drops = None if f.kernel.dropout is None else Drops(words, f.kernel.dropout, f.tiling.grid, f.tensors)
        finished = result_schedule(f.schedule, f.tiling, bool(maps))
        own = (f.layout.results, finished.buffers * 64 * 128) if f.schedule.apart else (0, f.q_bytes)  # else where its queries were
        staging = f.place(*own, self.number)
        group = Warpgroup(self.number, self.member, warp, lane, staging)
        self.width = finished.tile_n
        self.epilogue = Results(words, f.kernel, result_axes(f.tiling), finished, f.tensors, group, maps)
        self.shares = Shares(f, self.softmax, self.member, self.epilogue.barrier)
        self.splits = Splits(f, self.shares) if f.schedule.splits > 1 else None
        self.meeting = None
        if f.even is not None:
            self.meeting = Meeting(f.even, self.softmax, f.scratch, f.schedule.consumers, self.number, self.member)

    def place_rows(self, warp: Integer, lane: Integer) -> None:
        """Which scores this thread has, and what multiplies."""
        self.products = Products(self.frame, self.number)
        self.scores = Scores(self.frame, self.words.mul(self.number, 64), warp, lane, rows=self.frame.rows)
        self.scores.weighting = self.scores.inlined(self.frame.kernel.weighting)

    def emit(self) -> None:
        f, words = self.frame, self.words
        self.turns.begin()
        if self.splits is not None:  # while the first copies are on their way
            first = words.equal(self.member, 0)
            with only_if(first if f.adders > 1 else arith.andi(first, words.equal(f.rank, 0))):
                self.splits.begin(f.worker)
        if self.meeting is not None:
            with only_if(words.equal(self.member, 0)):
                self.meeting.begin()
        f.numbers.take_each(self.number, words.value(0), f.keys.start().values, self.tile)
        if f.staged:
            with only_if(words.equal(self.member, 0)):
                tma.await_stores(0, read=True)  # a block's shared memory goes when it ends

    def tile(self, tile: ir.Value, *at: ir.Value) -> list[ir.Value]:
        f = self.frame
        place = f.order.place(tile)
        free, low, count = f.order.turning_points(place)
        if count == low == 2 and held(f.schedule, f.kernel) > _UNROLLED:
            low = count = opaque(self.words, count)
        running = self.begin(place, Position(*at))
        running = self.walk(place, 1, free, running, above=True, below=True)
        running = self.walk(place, free, low, running)
        running = self.walk(place, low, count, running, below=True)
        return self.end(tile, place, running)

    def walk(self, place: Place, begin: Integer, end: Integer, running: Running, above: bool = False, below: bool = False) -> Running:
        if begin is end or (isinstance(begin, int) and isinstance(end, int) and begin >= end):
            return running

        def step(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
            return self.step(place, i, self.unflatten(values), above, below).flat

        return self.unflatten(loop(self.words, begin, end, 1, running.flat, step))

    def unflatten(self, values: Sequence[ir.Value]) -> Running:
        values, sums = list(values), self.sum_count
        largest, totals = self.softmax.state
        state, rest = cut(values[2:], largest + totals)
        return Running(Position(*values[:2]), State(*cut(state, largest)), *cut(rest, sums))

    @property
    def sum_count(self) -> int:
        """Numbers of the sums of values."""
        return self.frame.tiling.width.size // 2

    # A tile's blocks of keys.

    def begin(self, place: Place, at: Position) -> Running:
        f = self.frame
        f.keys.await_full(at)
        nvvm.WgmmaFenceAlignedOp()
        products = self.products.scores(at)
        self.scores.begin(place.grid, place.first, f.order.block(place, 0), first=True, brought=self.brought(at))
        products = awaited(0, products)
        f.keys.release(at.slot, self.member)
        scores = self.scores.finish(products, above=True, below=True, edge=True, kind=None if place.listed is None else place.listed.first)
        weights, state, _ = self.softmax.step(scores, self.sink(place))
        sums = [float32(0.0)] * (f.tiling.width.size // 2)
        return Running(at, state, sums, self.pack(self.kept(place, weights, edge=True)))

    def brought(self, at: Position) -> Callable[[PairEpilogue], None] | None:
        """What gives a score function that which came with the keys."""
        return None if self.masks is None else partial(self.masks.take, self.frame.mask_ring, at)

    def sink(self, place: Place) -> State | None:
        """The state of rows that have a score without a value, which one of the threads that share a row adds, of the first part."""
        f, words, sink = self.frame, self.words, self.frame.kernel.sink
        if sink is None:
            return None
        first, factor = words.equal(words.mask(self.lane, 3), 0), 1 / f.kernel.scale if self.scores.folded else 1.0
        if isinstance(sink, float):
            largest = [float32(sink * factor)] * 2
        else:
            largest = [arith.mulf(self.logit(place, sink, half), float32(factor)) for half in HALVES]
        if f.schedule.shares > 1 or f.schedule.warp_rows:
            own = self.first_share
            first, largest = arith.andi(first, own), [arith.select(own, x, float32(-inf)) for x in largest]
        return State(largest, [arith.select(first, float32(1.0), float32(0.0))] * 2)

    def logit(self, place: Place, sink: Access, half: int) -> ir.Value:
        """What the tensor of further scores has for a row."""
        f, words = self.frame, self.words
        query = words.min(words.add(words.add(place.first, self.scores.row), 8 * half), f.tiling.queries.size - 1)
        axes = [*f.tiling.grid, f.tiling.queries]
        found = f.tensors[sink.argument].read(words.dot([*place.grid, query], [a.stride(sink) for a in axes], sink.offset))
        return found if isinstance(sink.element, ir.F32Type) else arith.extf(ir.F32Type.get(), found)

    @property
    def first_share(self) -> ir.Value:
        """Whether this thread has of a tile's keys the first part."""
        return self.words.equal(self.frame.part, 0)

    def step(self, place: Place, i: ir.Value, old: Running, above: bool, below: bool) -> Running:
        """The scores of the ``i``-th block from the end, and the values of the one before."""
        f = self.frame
        block, following = f.order.block(place, i), f.keys.next(old.at)
        whole = f.kernel.blocks is not None and not above  # in a list masked ones are those that are cut
        f.keys.await_full(following)
        if not f.schedule.overlap:
            sums = self.add_values(old)
            nvvm.WgmmaFenceAlignedOp()
            products = self.products.scores(following)
            self.scores.begin(
                place.grid, place.first, block, inside=not isinstance(f.tiling.keys.size, int), whole=whole, brought=self.brought(following))
            products = awaited(0, products)
            f.keys.release(following.slot, self.member)
            scores = self.scores.finish(products, above, below, edge=False, whole=whole)
            weights, state, decay = self.softmax.step(scores, old.state)
            return Running(following, state, scale_rows(sums, decay), self.pack(self.kept(place, weights)))
        self.turns.take()
        sums, packed = cut(fence([*old.sums, *old.weights]), len(old.sums))
        products = self.products.scores(following)
        f.values.await_full(old.at)
        sums = self.products.add_values(sums, packed, old.at.slot)
        self.turns.pass_on()
        self.scores.begin(
            place.grid, place.first, block, inside=not isinstance(f.tiling.keys.size, int), whole=whole, brought=self.brought(following))
        products = awaited(1, products)
        f.keys.release(following.slot, self.member)
        scores = self.scores.finish(products, above, below, edge=False, whole=whole)
        weights, state, decay = self.softmax.step(scores, old.state)
        weights = self.kept(place, weights)
        # All of softmax is in front of the wait.
        sums, done = cut(awaited(0, [*sums, *weights, *state.values, *decay]), len(sums))
        weights, done = cut(done, len(weights))
        largest, totals = self.softmax.state
        state, decay = State(*cut(done[:largest + totals], largest)), done[largest + totals:]
        f.values.release(old.at.slot, self.member)
        return Running(following, state, scale_rows(sums, decay), self.pack(weights))

    def kept(self, place: Place, weights: Sequence[ir.Value], edge: bool = False) -> list[ir.Value]:
        """What a block's values are multiplied by: weights, 0 where they are dropped, or what is made of them; of the tensor's last block, its ``edge``."""
        if self.drops is None:
            return self.scores.weighted(weights, edge)
        kept = self.drops.kept(place.grid, self.scores.query, self.scores.key, len(weights))
        return [arith.select(k, w, float32(0.0)) for k, w in zip(kept, weights)]

    def add_values(self, running: Running) -> list[ir.Value]:
        """The sums with those of the last weights, complete."""
        f = self.frame
        f.values.await_full(running.at)
        sums, packed = cut(fence([*running.sums, *running.weights]), len(running.sums))
        sums = awaited(0, self.products.add_values(sums, packed, running.at.slot))
        f.values.release(running.at.slot, self.member)
        return sums

    def end(self, tile: ir.Value, place: Place, running: Running) -> list[ir.Value]:
        f, words = self.frame, self.words
        if f.early:
            self.release_queries()
        self.epilogue.begin(place.grid, words.add(place.first, words.mul(self.number, 64)), 0)
        sums, totals = self.complete(running)
        largest, stores = running.state.largest or [float32(0.0)] * 2, nullcontext()
        if self.meeting is not None:
            wanted, met = self.meeting.meet(place.begin, place.end, [*sums, *largest, *totals], f.numbers.at(self.number), self.epilogue.barrier)
            sums, largest, totals, stores = met[:-4], met[-4:-2], met[-2:], only_if(wanted)
        with stores:
            if f.kernel.logarithms is not None:
                self.write_statistics(place, largest, totals)
            self.gather(tile, place, sums, totals, largest)
        if not f.early:
            with only_if(words.equal(self.member, 0)):
                tma.await_stores(0, read=True)
                f.queries.empty.arrive(self.number)
        return f.keys.next(running.at).values

    def release_queries(self) -> None:
        """Each warp has read its queries, and every lane of it the number of the tile."""
        nvvm.SyncWarpOp(self.words.value(-1))
        with only_if(self.words.equal(self.lane, 0)):
            self.frame.queries.empty.arrive(self.number)

    def gather(self, tile: ir.Value, place: Place, sums: Sequence[ir.Value], totals: Sequence[ir.Value], largest: Sequence[ir.Value]) -> None:
        """The end of a tile, by the first one of the blocks that share its keys, and the last one of the clusters."""
        f, words, splits = self.frame, self.words, self.splits
        if f.schedule.shares == 1:
            self.finish(sums, totals)
            return
        shares = self.shares
        if f.schedule.parts == 1:
            shares.leave(splits.own(tile), sums, largest, totals)
            self.gather_splits(tile, place)
            return
        shares.barrier()  # another warp may still multiply
        shares.leave(shares.own, sums, largest, totals)
        meet_parts()
        with only_if(None if f.adders > 1 else words.equal(f.rank, 0)):
            blocks = [shares.block(rank) for rank in range(f.schedule.parts)]
            if splits is not None:
                shares.add_up(blocks, splits.leave_at(tile))
                self.gather_splits(tile, place)
            else:
                self.store_all(place, partial(shares.add_up, blocks))

    def gather_splits(self, tile: ir.Value, place: Place) -> None:
        with only_if(self.splits.all_arrived(tile)):
            self.store_all(place, partial(self.splits.add_up, tile))

    def store_all(self, place: Place, add_up: Callable[[Callable[[Integer, Integer, Sums], None]], None]) -> None:
        """What shares ``add_up`` to, divided by the weights' totals."""
        f, words = self.frame, self.words
        if not stores_sums(f.schedule, f.kernel):
            add_up(self.shares.hand_out)
            self.finish(*self.shares.take_back())
            return
        results = [(d.access, self.epilogue.tensor(d.access)) for d in f.kernel.destinations]

        def store(row: Integer, column: Integer, sums: Sums) -> None:
            (inverse,) = self.softmax.reciprocals([sums.total], f.kernel.safe)
            query, all_there = words.add(place.first, row), is_multiple(f.tiling.queries.size, f.rows)
            values = [arith.mulf(x, inverse) for x in sums.columns]
            with only_if(None if all_there else words.less(query, f.tiling.queries.size)):
                for access, tensor in results:
                    self.write_columns(access, tensor, query, column, values)

        add_up(store)

    def write_columns(self, access: Access, tensor: Elements, query: Integer, column: Integer, values: Sequence[ir.Value]) -> None:
        """Neighbouring columns of a result."""
        t, first = self.frame.tiling, self.epilogue.offset(access, query, column)
        if not isinstance(access.element, ir.F32Type):
            values = [arith.truncf(access.element, x) for x in values]
        step, others = t.width.stride(access), [access.offset, *(a.stride(access) for a in (*t.grid, t.queries))]
        if step == 1 and all(is_multiple(s, len(values)) for s in others):
            tensor.write(join(values), first, 0, len(values))
            return
        for i, x in enumerate(values):
            tensor.write(x, self.words.add(first, self.words.mul(i, step)))

    def complete(self, running: Running) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with those of the last weights, and both rows' sums of weights."""
        f = self.frame
        f.values.await_full(running.at)
        sums, packed = cut(fence([*running.sums, *running.weights]), len(running.sums))
        sums = self.products.add_values(sums, packed, running.at.slot)
        totals = self.softmax.totals(running.state)
        sums = awaited(0, sums)
        f.values.release(running.at.slot, self.member)
        return sums, totals

    def finish(self, sums: Sequence[ir.Value], totals: Sequence[ir.Value]) -> None:
        """Divide by the weights' totals and store."""
        factors = self.softmax.reciprocals(totals, self.frame.kernel.safe)
        if self.drops is not None:
            factors = [arith.mulf(x, float32(self.drops.dropout.scale)) for x in factors]
        sums = scale_rows(sums, factors)
        sums += [float32(0.0)] * (self.width // 2 - len(sums))  # what the staging's last line has too much
        self.epilogue.emit([sums])

    def write_statistics(self, place: Place, largest: Sequence[ir.Value], totals: Sequence[ir.Value]) -> None:
        """Of both rows the logarithm of the sum of exponentials, or that below the largest score, and that, by one of the four threads that share them."""
        a, words = self.frame.kernel, self.words
        first, scale = words.add(place.first, self.scores.row), float32(a.scale if self.scores.folded else 1.0)
        for half, (most, total) in enumerate(zip(largest, totals)):
            logs = logarithm(total)
            found = [(a.logarithms, logs if a.largest is not None else fma(most, scale, logs), inf)]
            if a.largest is not None:
                found.append((a.largest, arith.mulf(most, scale), 0.0))
            if a.safe:
                empty = arith.cmpf(arith.CmpFPredicate.OEQ, most, float32(-inf))
                found = [(access, arith.select(empty, float32(none), value), none) for access, value, none in found]
            if a.of_logarithm is not None:
                (access, value, none), = found
                found = [(access, inline_body(block := a.of_logarithm.block, [value] * len(block.arguments))[0], none)]
            row = words.add(first, 8 * half)
            with only_if(arith.andi(words.equal(words.mask(self.lane, 3), 0), words.less(row, self.frame.tiling.queries.size))):
                for access, value, _ in found:
                    self.write_row(access, [*place.grid, row], value)

    def write_row(self, access: Access, at: Sequence[Integer], value: ir.Value) -> None:
        """A number of the row there."""
        axes = [*self.frame.tiling.grid, self.frame.tiling.queries]
        self.frame.tensors[access.argument].write(value, self.words.dot(list(at), [a.stride(access) for a in axes], access.offset))

    def pack(self, weights: Sequence[ir.Value]) -> list[ir.Value]:
        return pack_weights(weights, self.frame.kernel.weight)


def cut(values: Sequence[ir.Value], count: int) -> tuple[list[ir.Value], list[ir.Value]]:
    """The first ``count`` values, and the others."""
    return list(values[:count]), list(values[count:])

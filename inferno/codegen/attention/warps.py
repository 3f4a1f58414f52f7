"""Attention of few float32 queries: keys and values come to shared memory unchanged, and each of the consumer's warps has a part of every block of keys.

A tile of 64 rows, as wgmma has it, would be nearly all zeros.  The warps of a block leave what they have of a tile in shared memory, as blocks of a cluster
do, and all threads add it up.
"""

from collections.abc import Sequence
from functools import partial

from inferno.codegen.attention.cluster_shares import InMemory, InShared, Shares, meet_parts
from inferno.codegen.attention.consumer import Consumer, Running
from inferno.codegen.attention.scores import Scores
from inferno.codegen.attention.softmax import fma
from inferno.codegen.attention.tiles import Place
from inferno.codegen.attention.warp_exact import ExactProducts
from inferno.codegen.attention.warp_products import WarpProducts
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import store
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.mlir import ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.attention.schedule import WARPS, WIDE_LINE, sums_bytes


class WarpConsumer(Consumer):
    """What goes from block to block has for weights what their sums are multiplied by, too, when their values are added."""

    def __init__(self, frame, maps) -> None:
        super().__init__(frame, maps)
        self.shares = WarpShares(frame, self.softmax, self.member, self.epilogue.barrier, self.products)
        if self.splits is not None:
            self.splits.shares = self.shares

    def place_rows(self, warp: Integer, lane: Integer) -> None:
        f, words = self.frame, self.words
        self.warp = warp
        self.scores = Scores(f, 0, 0, lane, words.mul(warp, f.schedule.warp_keys), f.rows)
        self.products = WarpProducts(f, warp, lane)
        self.exact = ExactProducts(self.products)

    @property
    def first_share(self) -> ir.Value:
        words = self.words
        return words.equal(words.either(self.warp, self.frame.part), 0)

    @property
    def sum_count(self) -> int:
        return self.products.sums

    # A tile's blocks of keys.

    def begin(self, place: Place, at: Position) -> Running:
        f = self.frame
        self.products.prepare()
        self.epilogue.barrier()
        self.scores.begin(place.grid, place.first, f.order.block(place, 0), first=True)
        f.keys.await_full(at)
        products, _ = self.exact.where_needed(self.products.scores(at), at, [], None, [])
        self.release(f.keys, at)
        weights, state, _ = self.softmax.step(self.scores.finish(products, above=True, below=True, edge=True), self.sink(place))
        return Running(at, state, [float32(0.0)] * self.sum_count, [*weights, *[float32(1.0)] * 2])

    def step(self, place: Place, i: ir.Value, old: Running, above: bool, below: bool) -> Running:
        f = self.frame
        block, following = f.order.block(place, i), f.keys.next(old.at)
        self.scores.begin(place.grid, place.first, block, inside=not isinstance(f.tiling.keys.size, int))
        f.keys.await_full(following)
        f.values.await_full(old.at)
        weights = old.weights[:-2]
        products, values = self.exact.where_needed(
            self.products.scores(following), following, self.products.values(old.at, weights), old.at, weights)
        self.release(f.keys, following)
        self.release(f.values, old.at)
        weights, state, decay = self.softmax.step(self.scores.finish(products, above, below, edge=False), old.state)
        return Running(following, state, self.added(old, values), [*weights, *decay])

    def complete(self, running: Running) -> tuple[list[ir.Value], list[ir.Value]]:
        f, weights = self.frame, running.weights[:-2]
        f.values.await_full(running.at)
        _, values = self.exact.where_needed([], None, self.products.values(running.at, weights), running.at, weights)
        self.release(f.values, running.at)
        return self.added(running, values), self.softmax.totals(running.state)

    def added(self, running: Running, values: Sequence[ir.Value]) -> list[ir.Value]:
        decay, rows = running.weights[-2:], self.products.halves
        return [fma(x, decay[i // 2 % rows], y) for i, (x, y) in enumerate(zip(running.sums, values))]

    def release(self, ring: Ring, at: Position) -> None:
        """By each warp, when all of its threads have what they read."""
        tma.fence_shared()
        nvvm.SyncWarpOp(self.words.value(-1))
        with only_if(self.words.equal(self.lane, 0)):
            ring.empty.arrive(at.slot)

    def release_queries(self) -> None:
        tma.fence_shared()
        super().release_queries()

    def gather(self, tile: ir.Value, place: Place, sums: Sequence[ir.Value], totals: Sequence[ir.Value], largest: Sequence[ir.Value]) -> None:
        f, shares, splits, parts = self.frame, self.shares, self.splits, self.frame.schedule.parts
        shares.barrier()  # another thread may still add up the tile in front
        shares.leave(shares.of_warp(self.warp), sums, largest, totals)
        if parts > 1:
            meet_parts()
        else:
            shares.barrier()
        with only_if(None if parts == 1 or f.adders > 1 else self.words.equal(f.rank, 0)):
            found = [shares.of_warp(warp, rank if parts > 1 else None) for rank in range(parts) for warp in range(WARPS)]
            if splits is None:
                self.store_all(place, partial(shares.add_up, found))
            else:
                shares.add_up(found, splits.leave_at(tile))
                self.gather_splits(tile, place)


class WarpShares(Shares):
    """Of warps, one behind the other, in memory of their own: the next tile's keys may be on their way."""

    def __init__(self, frame, softmax, member, barrier, products: WarpProducts) -> None:
        super().__init__(frame, softmax, member, barrier)
        self.products, self.base = products, self.words.add(frame.shared, frame.layout.results)
        self.own = self.of_warp(0)
        self.totals = self.words.add(self.base, sums_bytes(self.rows, self.width) - 4 * self.rows)

    def of_warp(self, warp: Integer, rank: int | None = None) -> InShared:
        words = self.words
        size = sums_bytes(self.frame.schedule.warp_rows, self.width)
        return InShared(words, words.add(self.base, words.mul(warp, size)), self.rows, self.width, rank)

    def leave(self, at: InShared | InMemory, sums: Sequence[ir.Value], largest: Sequence[ir.Value], totals: Sequence[ir.Value]) -> None:
        words, p = self.words, self.products
        for half in self.softmax.halves:
            row = words.add(p.group, 8 * half)
            with only_if(words.less(row, self.rows) if 8 * half + 8 > self.rows else None):
                columns = at.columns(row, words.shl(p.quad, 3))
                for line in range(p.width):
                    if WIDE_LINE * (line + 1) <= self.width:
                        self.leave_line(columns, line, half, sums)
                    else:
                        with only_if(words.less(words.shl(p.quad, 3), self.width - WIDE_LINE * line)):
                            self.leave_line(columns, line, half, sums)
                with only_if(words.equal(p.quad, 0)):
                    store(join([largest[half], totals[half]]), at.state(row), 8)

    def leave_line(self, columns, line: int, half: int, sums: Sequence[ir.Value]) -> None:
        """Eight neighbours: the sums of four products are those of every fourth column."""
        rows = self.products.halves
        for pair in range(2):
            found = [sums[((4 * line + column) * rows + half) * 2 + pair] for column in range(4)]
            store(join(found), columns(4 * (WIDE_LINE * line + 4 * pair)), 16)

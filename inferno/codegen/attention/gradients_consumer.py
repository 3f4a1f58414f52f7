"""A consumer of attention's gradients: 64 rows of a tile, whose products, weights and sums stay in its registers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import e, gcd, log2
from typing import NamedTuple

from inferno.codegen.attention.dropout import Drops, magnitude
from inferno.codegen.attention.gradients_frame import Frame
from inferno.codegen.attention.gradients_kept import Kept
from inferno.codegen.attention.masks import Masks
from inferno.codegen.attention.products import awaited, fence, undefined
from inferno.codegen.attention.results import Results
from inferno.codegen.attention.scores import Scores
from inferno.codegen.attention.softmax import HALVES, fma, pack_weights, power_of_two
from inferno.codegen.attention.tiles import Place
from inferno.codegen.attention.turns import Turns
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop, opaque
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import matrix_address, multiply_registers
from inferno.mlir import arith, ir, nvvm, scf
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.attention_gradients import AttentionGradients, GradientTiling, reads_early
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.schedule import lines
from inferno.schedule.matmul.contraction import Destination, Map
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.tiling import Axes


@dataclass(frozen=True)
class _Points:
    """Points of rows and columns, or of a result, as those of a contraction."""

    sizes: tuple[int, ...]
    epilogue: Map | None
    extras: tuple[Access, ...]
    destinations: tuple[Destination, ...]


def stored(g: AttentionGradient, i: int) -> _Points:
    """A result as one of a contraction, whose end it has."""
    result = g.results[i]
    return _Points(g.sizes, result.epilogue, sources(result.epilogue), (result.destination,))


def result_of(t: GradientTiling, s: AttentionGradients, i: int, staged: bool) -> tuple[Axes, Wgmma]:
    """How a result is stored; ``staged`` in whole lines, of which the last one may have columns that the copy engine drops."""
    axis = t.results[i]
    columns = 64 * lines(axis.size) if staged and gcd(axis.size, 64) < 32 else axis.size
    return Axes(t.grid, t.rows, axis, t.columns, ()), Wgmma(s.rows, columns, consumers=s.consumers, buffers=lines(axis.size))


class Running(NamedTuple):
    """Where the slots are, the sums of each result, and, where that is multiplied ``ahead``, the first product of the next block and what it is to be
    added to."""

    at: Position
    sums: list[list[ir.Value]]
    product: Sequence[ir.Value] = ()
    bases: Sequence[ir.Value] = ()

    @property
    def flat(self) -> list[ir.Value]:
        return [*self.at.values, *(x for sums in self.sums for x in sums), *self.product, *self.bases]


@dataclass(frozen=True)
class OuterPlace(Place):
    """A tile's blocks at one position of ``outer``, which also counts for the grid."""

    position: Integer = 0


class Consumer:
    def __init__(self, frame: Frame) -> None:
        f, words = frame, frame.words
        block = f.block
        g, t, s = f.gradient, f.axes, f.form
        self.frame, self.words = frame, words
        group = block.group(0)
        self.number, self.member = group.number, group.thread
        self.turns = Turns(words, self.number, s.consumers, s.turns)
        self.scores = Scores(f, words.mul(self.number, 64), group.warp, group.lane)
        self.drops = None if g.dropout is None else Drops(words, g.dropout, f.tiling.grid, f.tensors, g.transposed)
        points = _Points(g.sizes, g.gradient, sources(g.gradient), (Destination(0, g.results[0].destination.access),))
        self.points = PairEpilogue(words, points, Axes(f.tiling.grid, t.rows, t.columns, t.depth, ()), Wgmma(s.rows, s.columns), f.tensors)
        self.masks = None if f.masks is None else Masks(f.masks, self.number, group.warp, group.lane)
        self.rows = [matrix_address(words, f.rows_at(i, self.number)) for i in (0, 1)]
        self.columns = [matrix_address(words, f.columns_at(i, 0)) for i in (0, 1)]
        self.kind = str(g.streamed[0].element)
        self.results = []
        for i in range(len(g.results)):
            own = {0: block.stores[i]} if i in block.stores else {}
            axes, finished = result_of(t, s, i, bool(own))
            self.results.append(Results(words, stored(g, i), axes, finished, f.tensors, replace(group, staging=f.results_at(i, self.number)), own))
        self.kept = Kept(f, block.maps[4], group) if g.queries is not None and not s.adds else None
        self.packed: list[ir.Value] = []  # of the last sums of the first result, the weights

    def emit(self) -> None:
        f = self.frame
        self.turns.begin()
        f.numbers.take_each(self.number, self.words.value(0), f.columns.start().values, self.tile)
        with only_if(self.words.equal(self.member, 0)):
            tma.await_stores(0, read=True)  # a block's shared memory goes when it ends

    def tile(self, tile: ir.Value, *at: ir.Value) -> list[ir.Value]:
        f, words = self.frame, self.words
        place = f.order.place(tile)
        sums = [[float32(0.0)] * (r.columns.size // 2) for r in f.gradient.results]

        def at_position(n: Integer) -> OuterPlace:
            return OuterPlace([*place.grid, *f.outer(n)], place.first, place.begin, place.end, listed=place.listed, position=n)

        def position(n: Integer, *values: ir.Value) -> list[ir.Value]:
            return self.walk_blocks(at_position(n), self.unflatten(values)).flat

        running = Running(Position(*at), sums)
        if f.form.ahead:
            running = self.begin(at_position(0), running)
        running = self.unflatten(f.each_position(running.flat, position))
        if f.form.apart:  # by each thread, which has the tile's number, and awaited what reads the rows
            f.rows.empty.arrive(self.number)
        self.begin_results(running.at)
        for i, (result, own) in enumerate(zip(self.results, running.sums)):
            if i == 1 and self.drops is not None:
                own = [arith.mulf(x, float32(self.drops.dropout.scale / 2)) for x in own]
            result.begin(place.grid, words.add(place.first, words.mul(self.number, 64)), 0)
            result.emit([own + [float32(0.0)] * (result.schedule.tile_n // 2 - len(own))])
        if not f.form.apart:
            with only_if(words.equal(self.member, 0)):
                tma.await_stores(0, read=True)
            f.rows.empty.arrive(self.number)
        return running.at.values

    def begin_results(self, at: Position) -> None:
        """Before a tile's results are stored."""

    def unflatten(self, values: Sequence[ir.Value]) -> Running:
        values, sums = list(values), []
        position, rest = Position(*values[:2]), values[2:]
        for r in self.frame.gradient.results:
            sums.append(rest[:r.columns.size // 2])
            rest = rest[r.columns.size // 2:]
        scores = self.frame.form.columns // 2 if rest else 0
        return Running(position, sums, rest[:scores], rest[scores:])

    def walk_blocks(self, place: OuterPlace, running: Running) -> Running:
        """All blocks of columns, from the last one: those that the band cuts, or the tensor's edge, apart from the others."""
        f, band = self.frame, self.frame.order.band
        free, low, count = f.order.turning_points(place)
        edge = f.axes.columns.size % f.form.columns != 0
        if place.listed is not None:  # the first one may be of any kind, and at the edge
            running = self.walk(place, 0, 1, running, above=True, edge=edge, first=True)
            running = self.walk(place, 1, free, running, above=True)
            return self.walk(place, free, count, running)
        begun = 0
        if edge or band.high is not None or band.low is not None:
            running = self.walk(place, 0, 1, running, above=True, below=True, edge=edge)
            begun = 1
        if band.high is not None:
            running, begun = self.walk(place, begun, free, running, above=True, below=True), free
        running = self.walk(place, begun, low, running)
        return self.walk(place, low, count, running, below=True)

    def walk(
        self, place: OuterPlace, begin: Integer, end: Integer, running: Running, above: bool = False, below: bool = False, edge: bool = False,
        first: bool = False,
    ) -> Running:
        if begin is end or (isinstance(begin, int) and isinstance(end, int) and begin >= end):
            return running

        def turn(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
            old = self.unflatten(values)
            if self.frame.form.ahead:
                return self.step_ahead(place, i, old, above, below, edge).flat
            return self.step(place, i, old, above, below, edge, first).flat

        return self.unflatten(loop(self.words, begin, end, 1, running.flat, turn))

    def step(self, place: OuterPlace, i: Integer, old: Running, above: bool, below: bool, edge: bool, first: bool) -> Running:
        """The ``i``-th block from the end.  The first product's exponentials lie under the second product, the gradients of scores under the
        sums of the second result."""
        f, at = self.frame, old.at
        block, whole = f.order.block(place, i), place.listed is not None and not above
        f.columns.await_full(at)
        self.turns.take()
        nvvm.WgmmaFenceAlignedOp()
        products, others = self.product(0, at), self.product(1, at)
        self.turns.pass_on()
        self.place(place, block, at, edge, first, whole)
        self.place_kept(place, block, at)
        bases, early = self.bases(), reads_early(f.form, f.gradient)
        if early:  # in front of a wait for what is there: ptxas leaves the loads in their block
            self.load()
            f.columns.await_full(at)
        kind = place.listed.first if place.listed is not None and first else None
        weights = self.weights(self.scores.finish(awaited(1, products), above, below, edge, whole, kind), bases, place)
        if not early:
            self.load()
        added = self.add_both(old.sums, weights, others, at)
        self.keep()
        done = awaited(0, added)
        f.columns.release(at.slot, self.member)
        return self.unflatten([*f.columns.next(at).values, *done])

    def add_both(self, sums: Sequence[list[ir.Value]], weights: list[ir.Value], others: list[ir.Value], at: Position) -> list[ir.Value]:
        """The results' sums with those of a block, when its second product is there."""
        if len(sums) > 1:
            second = self.add(1, sums[1], weights if self.drops is None else self.drops.doubled(weights), at)
            return [*self.add(0, sums[0], self.gradients(weights, awaited(1, others)), at), *second]
        self.frame.columns.await_full(at)  # it is there: a block of its own, in front of which ptxas leaves the exponentials
        found = awaited(0, [*others, *weights])
        return self.add(0, sums[0], self.gradients(found[len(others):], found[:len(others)]), at)

    def begin(self, place: OuterPlace, running: Running) -> Running:
        """With the first product of a tile's first block."""
        f, words = self.frame, self.words
        f.columns.await_full(running.at)
        nvvm.WgmmaFenceAlignedOp()
        products = self.product(0, running.at)
        self.scores.place(place.first, words.sub(place.end, 1))
        self.points.place_thread(place.grid, self.scores.query, self.scores.key)
        return running._replace(product=awaited(0, products), bases=self.distinct())

    def step_ahead(self, place: OuterPlace, i: Integer, old: Running, above: bool, below: bool, edge: bool) -> Running:
        """The same with the block's first product there already: that of the next one is multiplied behind the sums of the first result."""
        f, words, at = self.frame, self.words, old.at
        block = words.sub(words.sub(place.end, 1), i)
        nvvm.WgmmaFenceAlignedOp()
        others = self.product(1, at)
        self.place(place, block, at, edge)
        self.place_kept(place, block, at)
        bases = [old.bases[n] for n in self.which]
        weights = self.weights(self.scores.finish(old.product, above, below, edge), bases, place)
        self.load()
        flat, following = self.add_both(old.sums, weights, others, at), f.columns.next(at)
        last = words.sub(words.sub(place.end, place.begin), 1)
        more = here = words.less(i, last)
        if f.positions > 1:
            more = arith.ori(here, words.less(place.position, f.positions - 1))
        more = scf.IfOp(more, [x.type for x in (*flat, *old.product, *old.bases)], has_else=True)
        with ir.InsertionPoint(more.then_block):
            grid, key = place.grid, words.sub(self.scores.key, f.form.columns)
            if f.positions > 1:
                grid = [*grid[:len(f.axes.grid)], *f.outer(words.add(place.position, words.select(here, 0, 1)))]
                key = words.select(here, key, words.add(self.scores.key, words.mul(last, f.form.columns)))
            self.points.place_thread(grid, self.scores.query, key, whole=f.positions == 1)  # only a position's first block is at the edge
            bases = self.distinct()
            f.columns.await_full(following)
            nvvm.WgmmaFenceAlignedOp()
            product = self.product(0, following)
            self.keep()
            scf.yield_([*awaited(0, [*flat, *product]), *bases])
        with ir.InsertionPoint(more.else_block):
            self.keep()
            scf.yield_([*awaited(0, flat), *[float32(0.0)] * (len(old.product) + len(old.bases))])
        f.columns.release(at.slot, self.member)
        return self.unflatten([*following.values, *more.results])

    def place(self, place: OuterPlace, block: Integer, at: Position, edge: bool, first: bool = False, whole: bool = False) -> None:
        """Begin with a block of columns: what is read for scores, or is there in shared memory, which the gradients of scores may be made of, too."""
        self.scores.place(place.first, block)
        self.points.place_thread(place.grid, self.scores.query, self.scores.key, whole=not edge)
        # Each warp reads its own before products of what it made of them, and behind these the slot is given back.
        brought = None if self.masks is None else lambda pairs: self.masks.read(at.slot, pairs, self.points)
        self.scores.begin(place.grid, place.first, block, first=first, inside=not edge, whole=whole, brought=brought)

    def place_kept(self, place: OuterPlace, block: Integer, at: Position) -> None:
        if self.kept is not None:
            self.kept.begin(place, block, at)

    def keep(self) -> None:
        """Leave the gradients of scores in memory, behind products that are under way and read them."""
        if self.kept is not None:
            self.kept.store(self.packed)

    def distinct(self) -> list[ir.Value]:
        """The bases that differ; ``which`` of them each score has."""
        bases = self.bases()
        found = list(dict.fromkeys(bases))
        self.which = [found.index(x) for x in bases]
        return found

    def load(self) -> None:
        """What is read for the gradients of scores."""
        self.points.load([8 * half for half in HALVES], range(self.frame.form.columns // 8))

    # The products.  Each starts a group, which is to be awaited; until then nothing may touch its registers.

    def base(self, base: Integer, at: Position) -> Integer:
        """Where there are two results, addresses are to be computed when they are needed: there are no registers to keep them."""
        return base if len(self.results) == 1 else opaque(self.words, base, at.parity)

    def product(self, operand: int, at: Position) -> list[ir.Value]:
        """64 rows times a slot's columns."""
        f, words = self.frame, self.words
        size = (f.axes.depth, f.axes.width)[operand].size
        rows, columns = self.base(self.rows[operand], at), words.add(self.base(self.columns[operand], at), words.mul(at.slot, f.layout.slot >> 4))
        sums = undefined(f.form.columns // 2)
        for term in range(0, size, 16):
            line, inside = divmod(term, f.row_tile.depth)
            a = f.row_tile.descriptor(words, words.add(rows, line * f.row_tile.bytes >> 4), 0, inside)
            b = f.column_tile.descriptor(words, words.add(columns, line * f.column_tile.bytes >> 4), 0, inside)
            sums = multiply_registers(sums, [a], b, False, term == 0, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums

    def add(self, operand: int, sums: Sequence[ir.Value], weights: Sequence[ir.Value], at: Position) -> list[ir.Value]:
        """``sums`` plus the rounded weights times the slot's columns."""
        f, words = self.frame, self.words
        packed = pack_weights(weights, f.gradient.streamed[operand].element)
        columns, tile = words.add(self.base(self.columns[operand], at), words.mul(at.slot, f.layout.slot >> 4)), f.transposed[operand]
        tied = fence([*sums, *packed])
        sums, packed = tied[:len(sums)], tied[len(sums):]
        for term in range(0, f.form.columns, 16):
            sums = multiply_registers(sums, packed[term // 4:term // 4 + 4], tile.descriptor(words, columns, 0, term), True, False, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        self.packed = packed if operand == 0 else self.packed
        return list(sums)

    # What is between them.

    def bases(self) -> list[ir.Value]:
        """Of each score what it is to be added to, as an exponent of 2."""
        f = self.frame
        found = [float32(0.0)] * (f.form.columns // 2)
        known: dict[ir.Value, list[ir.Value]] = {}
        for half in HALVES:
            for at in range(2 * half, len(found), 4):
                read = self.points.read(f.gradient.totals, 8 * half, at // 4)
                if read not in known:
                    each = lanes_of(read) if isinstance(read.type, ir.VectorType) else [read] * 2
                    made = {x: arith.mulf(self.total(x), float32(-log2(e))) for x in dict.fromkeys(each)}
                    known[read] = [made[x] for x in each]
                found[at:at + 2] = known[read]
        return found

    def total(self, read: ir.Value) -> ir.Value:
        """The logarithm of a sum of exponentials, of what is read of it."""
        map_ = self.frame.gradient.of_totals
        return read if map_ is None else inline_body(map_.block, [read] * len(map_.block.arguments))[0]

    def weights(self, scores: Sequence[ir.Value], bases: Sequence[ir.Value], place: Place) -> list[ir.Value]:
        """Those that are dropped are negative."""
        factor = float32(self.scores.factor)
        found = [power_of_two(fma(score, factor, base)) for score, base in zip(scores, bases)]
        if self.drops is None:
            return found
        return self.drops.signed(found, self.drops.kept(place.grid, self.scores.query, self.scores.key, len(found)))

    def gradients(self, weights: Sequence[ir.Value], others: Sequence[ir.Value]) -> list[ir.Value]:
        """The gradients of scores, of weights and of the gradients of these."""
        if self.drops is not None:
            others, weights = self.drops.scaled(weights, others), [magnitude(x) for x in weights]
        found = list(weights)
        for half in HALVES:
            for at in range(2 * half, len(found), 4):
                pair, = self.points.apply(8 * half, at // 4, join(list(weights[at:at + 2])), join(list(others[at:at + 2])))
                found[at:at + 2] = lanes_of(pair)
        return found

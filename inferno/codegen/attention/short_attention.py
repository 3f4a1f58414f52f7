"""Attention of many short rows on tensor cores, from registers: each warp has 16 queries of a head, reads these and all keys and values straight from memory,
and holds their scores.

The tensor core's sums are the lhs of the next product as they are: a thread's two numbers of a row and 8 keys are its pair of terms there, so that values
are read by pairs of keys, whichever these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import e, inf, log2

from inferno.codegen.attention.results import rounded, with_sources
from inferno.codegen.attention.softmax import HALVES, pack_weights, scale_rows, softmax_of
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul.direct_factor import Factor, pairs
from inferno.codegen.matmul.mma_tile import Multiplier
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import Reader
from inferno.codegen.nvvm.builder import Words, integer_type
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.passes.generics import float32
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.short_attention import ROWS, ShortAttention, ShortTiling, Side, fits, read
from inferno.schedule.matmul.contraction import Contraction, Group, Operand
from inferno.symbolic import ceildiv, is_multiple
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: ShortAttention, target: Target) -> None:
    """Add the ``gpu.module`` of attention and make ``kernel`` its launcher."""
    name, t = kernel.name.value, read(kernel, target)
    if t is None or not fits(schedule):
        raise CompileError(f"@{name} is not attention that {schedule} computes")
    a = t.kernel
    for map_ in (a.score, a.epilogue):
        if map_ is not None:
            recognise_maximum(map_.generic)
            expand_math(map_.generic)
    buffers = parameters_of(kernel, {d.access.argument for d in a.destinations})
    blocks = ceildiv(t.tiles, schedule.warps)
    width = index_width(buffers, t.tiles * ROWS)
    with gpu_function(kernel, buffers, schedule.threads, []) as function:
        _Emitter(integers_for(kernel, width, function.buffers), t, schedule, function.buffers, target).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(x) for x in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


@dataclass
class _Emitter:
    ints: Integers
    tiling: ShortTiling
    schedule: ShortAttention
    buffers: list[ir.Value]
    target: Target

    def emit(self) -> None:
        t, s, ints = self.tiling, self.schedule, self.ints
        thread = ints.thread(s.threads)
        tile, lane = ints.add(ints.mul(ints.block(), s.warps), ints.div(thread, 32)), ints.rem(thread, 32)
        present = [] if is_multiple(t.tiles, s.warps) else [ints.less(tile, t.tiles)]
        tile = ints.min(tile, ints.sub(t.tiles, 1)) if present else tile
        each = ceildiv(t.scores.M, ROWS)
        self.batch, self.first = (ints.div(tile, each), ints.mul(ints.rem(tile, each), ROWS)) if each > 1 else (tile, 0)
        self.pair, self.quad = ints.div(lane, 4), ints.rem(lane, 4)
        self.multiplier = Multiplier((str(t.kernel.q.element),) * 2, ir.F32Type.get(), self.target.capability >= 90)
        self.place_factors()
        loaded = [[f.load(self.term(step), self.ragged) for f in (self.q, self.k)] for step in range(t.steps)]
        values = [self.v.load(self.key(j, 0), self.cut) for j in range(self.k.count)]
        made, scale = t.kernel.score is not None, t.kernel.scale
        folded = t.kernel.softmax and not made and scale > 0  # softmax multiplies in any case
        softmax = softmax_of(t.kernel)(Words({}), log2(e) * (scale if folded else 1.0), made, added=t.kernel.added)
        weights, state, _ = softmax.step(self.finish(self.scores(loaded), scaled=not folded), None)
        sums = self.sums(pack_weights(weights, t.kernel.weight), values)
        results = scale_rows(sums, softmax.reciprocals(softmax.totals(state), t.kernel.safe))
        with only_if(*present):
            self.write(results)

    def place_factors(self) -> None:
        t = self.tiling
        # Of factors that both have their terms outermost neighbours of a warp are a thread's of different ones, so that whole lines are read.
        self.apart = 1 if t.q.way.along_k or t.k.way.along_k else 4
        self.q = self.factor(t.scores, t.scores.lhs, t.scores.m, t.q, t.terms, self.apart)
        self.k = self.factor(t.scores, t.scores.rhs, t.scores.n, t.k, t.terms, self.apart)
        # A pair of weights is of keys that are as far apart as rows of the factor of keys.
        self.v = self.factor(t.values, t.values.rhs, t.values.n, t.v, 2, self.k.neighbours)
        self.q.place(self.batch, self.first)
        self.k.place(self.batch, 0)
        self.v.place(self.batch, 0)
        self.ragged = t.scores.K % (4 * t.terms) != 0
        self.cut = t.scores.N % t.k.extent != 0

    def factor(self, c: Contraction, operand: Operand, side: Group, how: Side, terms: int, apart: int) -> Factor:
        along = "k" if how.way.along_k else "mn"
        reader = Reader(self.ints, operand, c.batch, side, c.k, operand.element, self.buffers, lanes=how.way.lanes, along=along)
        return Factor(reader, how.way, how.extent, self.pair, terms, apart)

    def term(self, step: int) -> Integer:
        """This thread's first term of a step of the scores' product."""
        ints, terms = self.ints, self.tiling.terms
        return ints.add(ints.mul(self.quad, terms if self.apart == 1 else 1), 4 * terms * step)

    def query(self, half: int) -> Integer:
        return self.ints.add(self.first, self.q.row(half, self.pair))

    def key(self, tile: int, lane: int) -> Integer:
        """Of 8 keys that are multiplied together one of the two whose scores a thread has."""
        ints = self.ints
        return self.k.row(tile, ints.add(ints.mul(self.quad, 2), lane))

    # The scores.

    def scores(self, loaded: list) -> list[ir.Value]:
        """For each 8 keys four numbers, two neighbours' of both rows."""
        sums = [[float32(0.0)] * 4 for _ in range(self.k.count)]
        for step, of_factors in enumerate(loaded):
            lhs, rhs = ([pairs(row) for row in f.numbers(x, self.term(step), self.ragged)] for f, x in zip((self.q, self.k), of_factors))
            for at in range(0, self.tiling.terms // 2, 2):
                upper, lower = (row[at:at + 2] for row in lhs)
                for j, row in enumerate(rhs):
                    sums[j] = self.multiplier.multiply(sums[j], [upper[0], lower[0], upper[1], lower[1]], tuple(row[at:at + 2]))
        return [x for four in sums for x in four]

    def finish(self, products: Sequence[ir.Value], scaled: bool) -> list[ir.Value]:
        """The scores, ``scaled`` unless softmax does it: what is made of them, and -inf, or 0 as a weight, where a query does not see a key."""
        ints, a, c = self.ints, self.tiling.kernel, self.tiling.scores
        scores = [arith.mulf(x, float32(a.scale)) for x in products] if scaled and a.scale != 1 else list(products)
        if a.score is not None:
            end = Epilogue(ints, c, self.buffers, self.batch, c.M % ROWS != 0, self.cut)
            width = 2 if self.k.neighbours == 1 and c.n.runs and c.n.run_sizes[-1] % 2 == 0 else 1
            for j in range(self.k.count):
                for half in HALVES:
                    row = ints.min(self.query(half), c.M - 1) if end.ragged_m else self.query(half)
                    for lane in range(0, 2, width):
                        column = ints.min(self.key(j, lane), c.N - width) if self.cut else self.key(j, lane)
                        at = 4 * j + 2 * half + lane
                        found, = end.apply(row, column, join(scores[at:at + width]), None, width)
                        scores[at:at + width] = lanes_of(found)
        none = float32(-inf if a.softmax else 0.0)
        for j in range(self.k.count):
            for half in HALVES:
                for lane in range(2):
                    at = 4 * j + 2 * half + lane
                    for hidden in self.hidden(self.query(half), self.key(j, lane)):
                        scores[at] = arith.select(hidden, none, scores[at])
        return scores

    def hidden(self, query: Integer, key: Integer) -> list[ir.Value]:
        """Conditions of which any hides a key."""
        ints, band = self.ints, self.tiling.kernel.band or Band(None, None)
        sides = [(self.tiling.scores.N - 1, key)] if self.cut else []
        sides += [] if band.high is None else [(ints.add(query, band.high), key)]
        sides += [] if band.low is None else [(key, ints.add(query, band.low))]
        return [arith.cmpi(arith.CmpIPredicate.slt, ints.value(less), ints.value(more)) for less, more in sides]

    # The values.

    def sums(self, weights: Sequence[ir.Value], loaded: list) -> list[ir.Value]:
        """For each 8 columns four numbers; of each 8 keys there are two registers of weights."""
        nothing = arith.constant(integer_type(32), 0)
        values = [[pairs(row)[0] for row in self.v.numbers(x, self.key(j, 0), self.cut)] for j, x in enumerate(loaded)]
        sums = [[float32(0.0)] * 4 for _ in range(self.v.count)]
        for j in range(0, len(values), 2):
            last = j + 1 == len(values)
            lhs = [*weights[2 * j:2 * j + 4], *([nothing] * 2 if last else [])]
            for column in range(self.v.count):
                rhs = values[j][column], nothing if last else values[j + 1][column]
                sums[column] = self.multiplier.multiply(sums[column], lhs, rhs)
        return [x for four in sums for x in four]

    # The results.

    def write(self, sums: Sequence[ir.Value]) -> None:
        """The columns of a thread that are neighbours are those of its two numbers of each of these products."""
        ints, a, c = self.ints, self.tiling.kernel, self.tiling.values
        c = replace(c, destinations=with_sources(a).destinations)
        end = _Rounded(ints, c, self.buffers, self.batch, c.M % ROWS != 0, c.N % self.tiling.v.extent != 0)
        side, most = self.v.neighbours, 16 // max(element_bytes(d.access.element) for d in c.destinations)
        for half in HALVES:
            for j in range(0, self.v.count, side):
                lanes = [sums[4 * (j + k) + 2 * half + lane] for lane in range(2) for k in range(side)]
                column = self.v.row(j, ints.mul(self.quad, 2))
                for begin in range(0, len(lanes), most):
                    end.emit(self.query(half), ints.add(column, begin), join(lanes[begin:begin + most]))


class _Rounded(Epilogue):
    """Rounds what is stored as it is to the destination's type."""

    def apply(self, m: Integer, n: Integer, sums: ir.Value, others: ir.Value | None, width: int) -> list[ir.Value]:
        made = super().apply(m, n, sums, others, width)
        return [rounded(x, d.access.element) if d.source is None else x for x, d in zip(made, self.contraction.destinations)]

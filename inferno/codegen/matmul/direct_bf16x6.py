"""Small float32 contractions as six products of bf16 by mma.sync, of factors that go from memory to registers.

A fragment of the tensor core has two pairs of terms for each thread, which may be any: thread q of four takes the neighbours 4q to 4q + 3 of both
factors' 16, and so 16 bytes at a time.  Which of the tile's rows and columns are a fragment's is as free, so that what has those innermost is read in as
wide pieces.  Each 16 terms' products are added to float32 registers, as ``bf16x6`` does each 32's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load_vector, splat, store_vector
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.matmul.direct_factor import Factor
from inferno.codegen.matmul.mma_tile import Multiplier
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import Reader
from inferno.codegen.matmul.splitting import PARTS, split
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, math, scf
from inferno.schedule.matmul.contraction import Contraction, Group, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct_bf16x6 import DirectBf16x6, Way, fits, registers, takes, ways
from inferno.symbolic import ceildiv
from inferno.target import Target

ORDER = ((0, 2), (2, 0), (1, 1), (0, 1), (1, 0), (0, 0))
"""Parts of both factors that are multiplied, the smallest products first."""
_HALF = 90  # registers for numbers and sums of which a multiprocessor has two blocks' of 8 warps


def generate(kernel: func.FuncOp, schedule: DirectBf16x6, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c, name = parse_contraction(kernel), kernel.name.value
    if not takes(kernel, c, target) or not fits(schedule, c):
        raise CompileError(f"@{name} is not a float32 contraction that {schedule} computes")
    expand_maps(c.lhs.prologue, c.rhs.prologue, c.epilogue)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    blocks = c.B * ceildiv(c.M, schedule.tile_m) * ceildiv(c.N, schedule.tile_n)
    width = index_width(buffers, blocks)
    minimum = 2 if blocks > target.multiprocessors and schedule.threads == 256 and registers(schedule, c) <= _HALF else 0
    shared = [(schedule.together * schedule.tile_m * schedule.pitch, c.accumulator)]
    with gpu_function(kernel, buffers, schedule.threads, shared, minimum) as function:
        Emitter(integers_for(kernel, width, function.buffers), c, schedule, function.buffers, function.shared[0], target).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


@dataclass
class Emitter:
    """The kernel.  ``kind`` is what the tensor core multiplies, ``order`` which parts of the numbers, ``terms`` are a thread's of each step; ``first`` and
    ``turns`` say which groups of steps are the block's, no more than ``most``, ``base`` where in shared memory a tile's sums are."""

    ints: Integers
    contraction: Contraction
    schedule: DirectBf16x6
    buffers: list[ir.Value]
    shared: ir.Value
    target: Target
    kind: str = "bf16"
    order: tuple[tuple[int, int], ...] = ORDER
    terms: int = 4

    @property
    def depth(self) -> int:
        """Terms of a step."""
        return 4 * self.terms

    @property
    def groups(self) -> int:
        """Groups of steps, of all terms."""
        return ceildiv(ceildiv(self.contraction.K, self.depth * self.schedule.warps), self.schedule.ahead)

    def emit(self) -> None:
        c, s, ints = self.contraction, self.schedule, self.ints
        thread = ints.thread(s.threads)
        block = ints.block()
        self.conditions: list[ir.Value] = []
        self.thread, tile = self.assign(thread, block)
        rows, columns = ceildiv(c.M, s.tile_m), ceildiv(c.N, s.tile_n)
        self.batch, at = (ints.div(tile, rows * columns), ints.rem(tile, rows * columns)) if c.B != 1 else (0, tile)
        self.m0, self.n0 = ints.mul(ints.rem(at, rows), s.tile_m), ints.mul(ints.div(at, rows), s.tile_n)
        self.warp, lane = ints.div(self.thread, 32), ints.rem(self.thread, 32)
        self.pair, self.quad = ints.div(lane, 4), ints.rem(lane, 4)
        left, right = self.ways()
        # Of factors that both have their terms outermost neighbours of a warp are a thread's of different ones, so that whole lines are read.
        self.apart = 1 if left.along_k or right.along_k else 4
        self.factors = [self.factor(c.lhs, c.m, left, s.tile_m), self.factor(c.rhs, c.n, right, s.tile_n)]
        for factor, first in zip(self.factors, (self.m0, self.n0)):
            factor.place(self.batch, first)
        self.multiplier = Multiplier((self.kind, self.kind), c.accumulator, self.target.capability >= 90)
        self.finish(self.multiply())

    def assign(self, thread: Integer, block: Integer) -> tuple[Integer, Integer]:
        """The number of this thread among those of its tile, and the tile's."""
        self.first, self.turns, self.most, self.base = 0, self.groups, self.groups, 0
        return thread, block

    def ways(self) -> tuple[Way, Way]:
        return ways(self.contraction, self.schedule)

    def factor(self, operand: Operand, side: Group, way: Way, extent: int) -> Factor:
        c = self.contraction
        along = "k" if way.along_k else "mn"
        reader = Reader(self.ints, operand, c.batch, side, c.k, c.accumulator, self.buffers, lanes=way.lanes, along=along)
        return Factor(reader, way, extent, self.pair, self.terms, self.apart)

    # The products.

    def multiply(self) -> list[ir.Value]:
        """This warp's sums: for each 16 rows and 8 columns four a thread."""
        c, s, ints = self.contraction, self.schedule, self.ints
        sums = [splat(c.accumulator, 0)] * (s.tile_m * s.tile_n // 32)
        ragged = c.K % (self.depth * s.warps * s.ahead) != 0
        loaded = self.load(self.first, ragged and (self.most == 1 or s.parts > 1))
        if self.most == 1:
            return self.products(loaded, self.first, sums, ragged)
        flat = _flat(loaded)

        def turn(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            group = ints.add(self.first, number)
            following = self.load(ints.add(group, 1), ragged)
            return [*_flat(following), *self.products(_like(loaded, carried), group, carried[len(flat):], False)]

        done = self.loop(ints.value(ints.sub(self.turns, 1)), [*flat, *sums], turn)
        return self.products(_like(loaded, done), ints.add(self.first, ints.sub(self.turns, 1)), done[len(flat):], ragged)

    def loop(self, count: ir.Value, values: list[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:
        for_ = scf.ForOp(self.ints.value(0), count, self.ints.value(1), values)
        with ir.InsertionPoint(for_.body):
            scf.yield_(body(for_.induction_variable, list(for_.inner_iter_args)))
        return list(for_.results)

    def term(self, group: Integer, step: int) -> Integer:
        """This thread's first term of a step of a group."""
        s, ints = self.schedule, self.ints
        first = ints.add(ints.mul(group, self.depth * s.warps * s.ahead), self.depth * s.warps * step)
        return ints.add(ints.add(ints.mul(self.warp, self.depth), ints.mul(self.quad, self.terms if self.apart == 1 else 1)), first)

    def load(self, group: Integer, ragged: bool) -> list[list[list[list[ir.Value]]]]:
        """By step and factor what is loaded of a group; ``ragged``: it may lie behind the end."""
        return [[f.load(self.term(group, i), ragged) for f in self.factors] for i in range(self.schedule.ahead)]

    def products(self, loaded: list, group: Integer, sums: list[ir.Value], ragged: bool) -> list[ir.Value]:
        """``sums`` and a group's products."""
        for i, step in enumerate(loaded):
            term = self.term(group, i)
            lhs, rhs = ([self.split(row, f is self.factors[1]) for row in f.numbers(values, term, ragged)] for f, values in zip(self.factors, step))
            tiles = [(i, j) for i in range(len(lhs) // 2) for j in range(len(rhs))]
            made = self.begin(sums)
            for left, right in self.order:
                for pair in range(0, self.terms // 2, 2):
                    for number, (i, j) in enumerate(tiles):
                        upper, lower = (lhs[2 * i + h][left][pair:pair + 2] for h in range(2))
                        factors = [upper[0], lower[0], upper[1], lower[1]], tuple(rhs[j][right][pair:pair + 2])
                        made[number] = self.multiplier.multiply(made[number], *factors)
            sums = self.end(sums, [x for four in made for x in four])
        return sums

    def split(self, row: Sequence[ir.Value], larger: bool) -> list[list[ir.Value]]:
        """For each part of a row's numbers the registers of their pairs."""
        pairs = [split(*row[i:i + 2], larger) for i in range(0, len(row), 2)]
        return [[pair[part] for pair in pairs] for part in range(PARTS)]

    def begin(self, sums: list[ir.Value]) -> list[list[ir.Value]]:
        """What a step's products are added to, by fours."""
        return [[splat(self.contraction.accumulator, 0)] * 4 for _ in range(len(sums) // 4)]

    def end(self, sums: list[ir.Value], made: list[ir.Value]) -> list[ir.Value]:
        """The sums with a step's."""
        return [arith.addf(x, y) for x, y in zip(sums, made)]

    # The results.

    def finish(self, sums: list[ir.Value]) -> None:
        """Add the warps' sums up, as many warps' at a time as shared memory holds, and write the results."""
        c, s, ints = self.contraction, self.schedule, self.ints
        tile = s.tile_m * s.tile_n
        threads = s.threads // s.tiles
        width = next(w for w in (4, 2, 1) if tile >= w * threads or w == 1)
        items = ceildiv(tile, width * threads)
        places = [ints.mul(ints.add(self.thread, i * threads), width) for i in range(items)]
        if tile < width * threads * items:
            places[-1] = ints.min(places[-1], tile - width)
        own = [splat(ir.VectorType.get([width], c.accumulator), 0)] * items
        for begin in range(0, s.warps, s.together):
            count = min(s.together, s.warps - begin)
            if begin:
                gpu.barrier()
            if count == s.warps:
                self.leave(sums, self.warp)
            else:
                mine = ints.sub(self.warp, begin)
                with only_if(ints.less(mine, count)):
                    self.leave(sums, mine)
            gpu.barrier()
            for i, at in enumerate(places):
                place = ints.add(self.base, ints.add(ints.mul(ints.div(at, s.tile_n), s.pitch), ints.rem(at, s.tile_n)))
                parts = [as_vector(load_vector(ints, self.shared, place, c.accumulator, width, width, k * s.tile_m * s.pitch), width) for k in range(count)]
                own[i] = arith.addf(own[i], add_pairwise(parts))
        epilogue = Epilogue(ints, c, self.buffers, self.batch, c.M % s.tile_m != 0, c.N % s.tile_n != 0)
        for i, at in enumerate(places):
            fewer = [ints.less(ints.add(self.thread, i * threads), tile // width)] if (i + 1) * threads * width > tile else []
            with only_if(*fewer, *self.conditions):
                self.put(epilogue, at, ints.add(self.m0, ints.div(at, s.tile_n)), ints.add(self.n0, ints.rem(at, s.tile_n)), own[i])

    def put(self, epilogue: Epilogue, at: Integer, m: Integer, n: Integer, sums: ir.Value) -> None:
        """Write results from (m, n) on, place ``at`` of the tile."""
        epilogue.emit(m, n, self.add_again(sums, m, n))

    def leave(self, sums: list[ir.Value], number: Integer) -> None:
        """This warp's sums to shared memory, as the ``number``-th there."""
        s, ints, (left, right) = self.schedule, self.ints, self.factors
        base = ints.add(self.base, ints.mul(number, s.tile_m * s.pitch))
        side = right.neighbours
        for i in range(left.count):
            line = ints.add(base, ints.mul(left.row(i, self.pair), s.pitch))
            for j in range(0, right.count, side):
                # Columns of a thread that are neighbours: those of its two numbers of each of these products.
                lanes = [sums[4 * (i // 2 * right.count + j + k) + 2 * (i % 2) + e] for e in range(2) for k in range(side)]
                column = right.row(j, ints.mul(self.quad, 2))
                for begin in range(0, len(lanes), 4):
                    some = lanes[begin:begin + 4]
                    store_vector(ints, join(some), self.shared, ints.add(ints.add(line, column), begin), len(some))

    # Sums that are not finite.

    def own_terms(self) -> tuple[Integer, Integer]:
        """The first one of the block, and the one behind its last."""
        return 0, self.contraction.K

    def add_again(self, sums: ir.Value, m: Integer, n: Integer) -> ir.Value:
        """``sums`` at (m, n) and beside it, or where one of them is infinite or NaN its terms added one after the other: what is split of infinity leaves
        NaN over."""
        c, ints, zero = self.contraction, self.ints, splat(self.contraction.accumulator, 0)
        lanes, probe = lanes_of(sums), zero
        for x in lanes:
            probe = math.fma(x, zero, probe)
        choice = scf.IfOp(arith.cmpf(arith.CmpFPredicate.UNE, probe, zero), [sums.type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            readers = [Reader(ints, o, c.batch, g, c.k, c.accumulator, self.buffers) for o, g in ((c.lhs, c.m), (c.rhs, c.n))]
            rows = [ints.min(m, c.M - 1), *(ints.min(ints.add(n, i), c.N - 1) for i in range(len(lanes)))]
            bases = [[r.base(a, self.batch, at) for a in r.operand.reads] for r, at in zip((readers[0], *[readers[1]] * len(lanes)), rows)]
            for_ = scf.ForOp(*map(ints.value, self.own_terms()), ints.value(1), [zero] * len(lanes))
            with ir.InsertionPoint(for_.body):
                left, *right = (_number(r, b, for_.induction_variable) for r, b in zip((readers[0], *[readers[1]] * len(lanes)), bases))
                scf.yield_([math.fma(left, x, total) for x, total in zip(right, for_.inner_iter_args)])
            scf.yield_([join(list(for_.results))])
        with ir.InsertionPoint(choice.else_block):
            scf.yield_([sums])
        return choice.results[0]


def _number(reader: Reader, bases: Sequence[Integer], k: ir.Value) -> ir.Value:
    """One element of a factor."""
    return reader.finish(reader.read_terms(bases, k))


def _flat(loaded: list) -> list[ir.Value]:
    return [x for step in loaded for factor in step for piece in factor for x in piece]


def _like(shape: list, values: Sequence[ir.Value]) -> list:
    """``values`` in lists as those of ``shape`` are."""
    rest = iter(values)
    return [[[[next(rest) for _ in piece] for piece in factor] for factor in step] for step in shape]


def add_pairwise(values: list[ir.Value]) -> ir.Value:
    """The sum of neighbours' sums."""
    while len(values) > 1:
        values = [arith.addf(*values[i:i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]

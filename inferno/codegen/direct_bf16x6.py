"""Small float32 contractions as six products of bf16 by mma.sync, of factors that go from memory to registers.

A fragment of the tensor core has two pairs of terms for each thread, which may be any: thread q of four takes the neighbours 4q to 4q + 3 of both
factors' 16, and so 16 bytes at a time.  Which of the tile's rows and columns are a fragment's is as free, so that what has those innermost is read in as
wide pieces.  Each 16 terms' products are added to float32 registers, as ``bf16x6`` does each 32's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen.elements import as_vector, join, lanes_of, load_vector, splat, store_vector
from inferno.codegen.expand_math import expand_math
from inferno.codegen.gpu_function import gpu_function, integers_for, parameters_of
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.launcher import launch, launcher, parameter
from inferno.codegen.mma_tile import Multiplier
from inferno.codegen.simt_epilogue import Epilogue
from inferno.codegen.simt_operand import Reader, group_offset
from inferno.codegen.splitting import PARTS, split
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, math, scf
from inferno.schedule.contraction import Contraction, Group, Operand, parse_contraction
from inferno.schedule.direct_bf16x6 import DEPTH, DirectBf16x6, Way, fits, registers, takes, ways
from inferno.symbolic import ceildiv, reach
from inferno.target import Target

_ORDER = ((0, 2), (2, 0), (1, 1), (0, 1), (1, 0), (0, 0))  # the smallest products first
_TERMS = 4  # of a thread in a step
_HALF = 90  # registers for numbers and sums of which a multiprocessor has two blocks' of 8 warps


def generate(kernel: func.FuncOp, schedule: DirectBf16x6, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c, name = parse_contraction(kernel), kernel.name.value
    if not takes(kernel, c, target) or not fits(schedule, c):
        raise CompileError(f"@{name} is not a float32 contraction that {schedule} computes")
    for map_ in (c.lhs.prologue, c.rhs.prologue, c.epilogue):
        if map_ is not None:
            expand_math(map_.generic)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    blocks = c.B * ceildiv(c.M, schedule.tile_m) * ceildiv(c.N, schedule.tile_n)
    width = 32 if max(reach(blocks), *(b.count for b in buffers if b is not None)) < 2**31 else 64
    minimum = 2 if blocks > target.multiprocessors and schedule.threads == 256 and registers(schedule, c) <= _HALF else 0
    shared = [(schedule.together * schedule.tile_m * schedule.pitch, c.accumulator)]
    with gpu_function(kernel, buffers, schedule.threads, shared, minimum) as function:
        _Emitter(integers_for(kernel, width, function.buffers), c, schedule, function.buffers, function.shared[0], target).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


@dataclass
class _Factor:
    """A warp's part of one factor: of ``extent`` rows of a tile (columns, of the rhs) thread ``pair`` of eight has an eighth."""

    reader: Reader
    way: Way
    extent: int
    pair: Integer

    @property
    def count(self) -> int:
        return self.extent // 8

    @property
    def neighbours(self) -> int:
        """Rows of a thread that lie side by side."""
        return 1 if self.way.along_k else self.way.lanes

    def row(self, number: int, pair: Integer) -> Integer:
        """Where in the tile the ``number``-th row of thread ``pair`` is."""
        ints, side = self.reader.ints, self.neighbours
        return ints.add(ints.mul(pair, side), number % side + 8 * side * (number // side))

    def place(self, batch: Integer, first: Integer) -> None:
        """Where this thread's rows begin."""
        ints, size, self.bases = self.reader.ints, self.reader.mn.size, []
        for number in range(0, self.count, self.neighbours):
            at = ints.add(first, self.row(number, self.pair))
            at = ints.min(at, size - self.neighbours) if size % self.extent else at
            self.bases.append([self.reader.base(a, batch, at) for a in self.reader.operand.reads])

    def load(self, term: Integer, ragged: bool) -> list[list[ir.Value]]:
        """What the prologue gets of the four terms from ``term`` on, piece by piece; behind the end those of the last ones."""
        ints, reader, loaded = self.reader.ints, self.reader, []
        step = self.way.lanes if self.way.along_k else 1
        for bases in self.bases:
            for at in (ints.add(term, i) for i in range(0, _TERMS, step)):
                at = ints.min(at, reader.k.size - step) if ragged else at
                loaded.append([reader.read(a, ints.add(base, group_offset(ints, reader.k, a, at))) for a, base in zip(reader.operand.reads, bases)])
        return loaded

    def numbers(self, loaded: list[list[ir.Value]], term: Integer, ragged: bool) -> list[list[ir.Value]]:
        """For each row of this thread its four numbers; terms behind the end are 0."""
        ints, pieces = self.reader.ints, []
        step = self.way.lanes if self.way.along_k else 1
        for i, values in enumerate(loaded):
            value = self.reader.finish(values)
            if ragged:
                inside = ints.less(ints.add(term, i * step % _TERMS), self.reader.k.size)
                value = arith.select(inside, value, splat(value.type, 0))
            pieces.append(lanes_of(value))
        each = _TERMS // step
        groups = [pieces[i:i + each] for i in range(0, len(pieces), each)]
        if self.way.along_k:
            return [[x for piece in group for x in piece] for group in groups]
        return [[piece[lane] for piece in group] for group in groups for lane in range(self.neighbours)]


@dataclass
class _Emitter:
    ints: Integers
    contraction: Contraction
    schedule: DirectBf16x6
    buffers: list[ir.Value]
    shared: ir.Value
    target: Target

    def emit(self) -> None:
        c, s, ints, index = self.contraction, self.schedule, self.ints, ir.IndexType.get()
        self.thread = ints.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=s.threads, results=[index]).result)
        block = ints.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[index]).result)
        rows, columns = ceildiv(c.M, s.tile_m), ceildiv(c.N, s.tile_n)
        self.batch, at = (ints.div(block, rows * columns), ints.rem(block, rows * columns)) if c.B != 1 else (0, block)
        self.m0, self.n0 = ints.mul(ints.rem(at, rows), s.tile_m), ints.mul(ints.div(at, rows), s.tile_n)
        self.warp, lane = ints.div(self.thread, 32), ints.rem(self.thread, 32)
        self.pair, self.quad = ints.div(lane, 4), ints.rem(lane, 4)
        left, right = ways(c, s)
        self.factors = [self.factor(c.lhs, c.m, left, s.tile_m), self.factor(c.rhs, c.n, right, s.tile_n)]
        for factor, first in zip(self.factors, (self.m0, self.n0)):
            factor.place(self.batch, first)
        self.multiplier = Multiplier(("bf16", "bf16"), c.accumulator, self.target.capability >= 90)
        self.finish(self.multiply())

    def factor(self, operand: Operand, side: Group, way: Way, extent: int) -> _Factor:
        c = self.contraction
        along = "k" if way.along_k else "mn"
        return _Factor(Reader(self.ints, operand, c.batch, side, c.k, c.accumulator, self.buffers, lanes=way.lanes, along=along), way, extent, self.pair)

    # The products.

    def multiply(self) -> list[ir.Value]:
        """This warp's sums: for each 16 rows and 8 columns four a thread."""
        c, s, ints = self.contraction, self.schedule, self.ints
        steps = ceildiv(c.K, DEPTH * s.warps)
        groups = ceildiv(steps, s.ahead)
        sums = [splat(c.accumulator, 0)] * (s.tile_m * s.tile_n // 32)
        ragged = c.K % (DEPTH * s.warps * s.ahead) != 0
        loaded = self.load(0, ragged and groups == 1)
        if groups == 1:
            return self.products(loaded, 0, sums, ragged)
        flat = _flat(loaded)

        def turn(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            following = self.load(ints.add(number, 1), ragged)
            return [*_flat(following), *self.products(_like(loaded, carried), number, carried[len(flat):], False)]

        done = self.loop(ints.value(groups - 1), [*flat, *sums], turn)
        return self.products(_like(loaded, done), groups - 1, done[len(flat):], ragged)

    def loop(self, count: ir.Value, values: list[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:
        for_ = scf.ForOp(self.ints.value(0), count, self.ints.value(1), values)
        with ir.InsertionPoint(for_.body):
            scf.yield_(body(for_.induction_variable, list(for_.inner_iter_args)))
        return list(for_.results)

    def term(self, group: Integer, step: int) -> Integer:
        """This thread's first term of a step of a group."""
        s, ints = self.schedule, self.ints
        first = ints.add(ints.mul(group, DEPTH * s.warps * s.ahead), DEPTH * s.warps * step)
        return ints.add(ints.add(ints.mul(self.warp, DEPTH), ints.mul(self.quad, _TERMS)), first)

    def load(self, group: Integer, ragged: bool) -> list[list[list[list[ir.Value]]]]:
        """By step and factor what is loaded of a group; ``ragged``: it may lie behind the end."""
        return [[f.load(self.term(group, i), ragged) for f in self.factors] for i in range(self.schedule.ahead)]

    def products(self, loaded: list, group: Integer, sums: list[ir.Value], ragged: bool) -> list[ir.Value]:
        """``sums`` and a group's products."""
        for i, step in enumerate(loaded):
            term = self.term(group, i)
            lhs, rhs = ([_parts(row) for row in f.numbers(values, term, ragged)] for f, values in zip(self.factors, step))
            tiles = [(i, j) for i in range(len(lhs) // 2) for j in range(len(rhs))]
            made = [[splat(self.contraction.accumulator, 0)] * 4 for _ in tiles]
            for left, right in _ORDER:
                for number, (i, j) in enumerate(tiles):
                    upper, lower = lhs[2 * i][left], lhs[2 * i + 1][left]
                    made[number] = self.multiplier.multiply(made[number], [upper[0], lower[0], upper[1], lower[1]], tuple(rhs[j][right]))
            sums = [arith.addf(x, y) for x, y in zip(sums, (x for four in made for x in four))]
        return sums

    # The results.

    def finish(self, sums: list[ir.Value]) -> None:
        """Add the warps' sums up, as many warps' at a time as shared memory holds, and write the results."""
        c, s, ints = self.contraction, self.schedule, self.ints
        tile = s.tile_m * s.tile_n
        width = next(w for w in (4, 2, 1) if tile >= w * s.threads or w == 1)
        items = ceildiv(tile, width * s.threads)
        places = [ints.mul(ints.add(self.thread, i * s.threads), width) for i in range(items)]
        if tile < width * s.threads * items:
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
                inside = scf.IfOp(ints.less(mine, count))
                with ir.InsertionPoint(inside.then_block):
                    self.leave(sums, mine)
                    scf.yield_([])
            gpu.barrier()
            for i, at in enumerate(places):
                where = ints.add(ints.mul(ints.div(at, s.tile_n), s.pitch), ints.rem(at, s.tile_n))
                parts = [as_vector(load_vector(ints, self.shared, where, c.accumulator, width, width, k * s.tile_m * s.pitch), width) for k in range(count)]
                own[i] = arith.addf(own[i], _tree(parts))
        epilogue = Epilogue(ints, c, self.buffers, self.batch, c.M % s.tile_m != 0, c.N % s.tile_n != 0)
        for i, at in enumerate(places):
            number = ints.add(self.thread, i * s.threads)
            inside = scf.IfOp(ints.less(number, tile // width)) if (i + 1) * s.threads * width > tile else None
            with ir.InsertionPoint(inside.then_block) if inside else ir.InsertionPoint.current:
                m, n = ints.add(self.m0, ints.div(at, s.tile_n)), ints.add(self.n0, ints.rem(at, s.tile_n))
                epilogue.emit(m, n, self.add_again(own[i], m, n))
                if inside:
                    scf.yield_([])

    def leave(self, sums: list[ir.Value], number: Integer) -> None:
        """This warp's sums to shared memory, as the ``number``-th there."""
        s, ints, (left, right) = self.schedule, self.ints, self.factors
        base = ints.mul(number, s.tile_m * s.pitch)
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
            for_ = scf.ForOp(ints.value(0), ints.value(c.K), ints.value(1), [zero] * len(lanes))
            with ir.InsertionPoint(for_.body):
                left, *right = (_number(r, b, for_.induction_variable) for r, b in zip((readers[0], *[readers[1]] * len(lanes)), bases))
                scf.yield_([math.fma(left, x, total) for x, total in zip(right, for_.inner_iter_args)])
            scf.yield_([join(list(for_.results))])
        with ir.InsertionPoint(choice.else_block):
            scf.yield_([sums])
        return choice.results[0]


def _number(reader: Reader, bases: Sequence[Integer], k: ir.Value) -> ir.Value:
    """One element of a factor."""
    ints = reader.ints
    return reader.finish([reader.read(a, ints.add(base, group_offset(ints, reader.k, a, k))) for a, base in zip(reader.operand.reads, bases)])


def _parts(row: Sequence[ir.Value]) -> list[list[ir.Value]]:
    """For each part of four numbers the registers of its two pairs."""
    pairs = [split(*row[:2]), split(*row[2:])]
    return [[pair[part] for pair in pairs] for part in range(PARTS)]


def _flat(loaded: list) -> list[ir.Value]:
    return [x for step in loaded for factor in step for piece in factor for x in piece]


def _like(shape: list, values: Sequence[ir.Value]) -> list:
    """``values`` in lists as those of ``shape`` are."""
    rest = iter(values)
    return [[[[next(rest) for _ in piece] for piece in factor] for factor in step] for step in shape]


def _tree(values: list[ir.Value]) -> ir.Value:
    while len(values) > 1:
        values = [arith.addf(*values[i:i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]

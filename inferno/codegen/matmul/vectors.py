"""Products with few vectors on CUDA cores: every thread streams its part of the other factor from memory straight to registers.

All loads of a step are started before its first product, and there are enough threads that memory is never idle.  Few terms are
added in a row, their sums in trees or, in float32, with what the additions lose: eager adds such products in trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of, load, splat, store
from inferno.codegen.builders.exact_sums import add_exactly
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.multiply_adds import MultiplyAdds
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import Reader
from inferno.codegen.nvvm.shuffles import exchange
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, scf, vector
from inferno.schedule.matmul.contraction import Contraction, Operand, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.vectors import Vectors
from inferno.symbolic import ceildiv
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Vectors, target: Target) -> None:
    """Add the ``gpu.module`` of a product with vectors and make ``kernel`` its launcher."""
    c, name = parse_contraction(kernel), kernel.name.value
    if c is None:
        raise CompileError(f"@{name} is not a contraction")
    c = oriented(c, schedule.swapped)
    emit(kernel, c, (c.rhs,), schedule)


def emit(kernel: func.FuncOp, c: Contraction, factors: Sequence[Operand], schedule: Vectors) -> None:
    """The same for the products of the lhs with one or two ``factors``, whose sums ``c``'s epilogue takes."""
    name = kernel.name.value
    if not isinstance(c.K, int) or c.K % schedule.terms or (not schedule.along_k and c.N % schedule.columns != 0):
        raise CompileError(f"@{name}: {schedule} cannot read {c.N} columns of {c.K} terms")
    expand_maps(c.lhs.prologue, *(f.prologue for f in factors), c.epilogue)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    blocks = c.B * ceildiv(c.M, schedule.rows) * ceildiv(c.N, schedule.width)
    width = index_width(buffers, blocks)
    with gpu_function(kernel, buffers, schedule.threads, [(len(factors) * schedule.shared_elements, c.accumulator)]) as function:
        ints = integers_for(kernel, width, function.buffers)
        _Emitter(ints, c, factors, schedule, function.buffers, function.shared[0]).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


@dataclass
class _Emitter(MultiplyAdds):
    ints: Integers
    contraction: Contraction
    factors: Sequence[Operand]
    schedule: Vectors
    buffers: list[ir.Value]
    shared: ir.Value

    def emit(self) -> None:
        c, s, ints = self.contraction, self.schedule, self.ints
        self.exact = all(str(t) == "f32" for t in (c.accumulator, c.lhs.element, c.rhs.element))
        thread = ints.thread(s.threads)
        block = ints.block()
        rows, columns = ceildiv(c.M, s.rows), ceildiv(c.N, s.width)
        batch, at = (ints.div(block, rows * columns), ints.rem(block, rows * columns)) if c.B != 1 else (0, block)
        m0, n0 = ints.mul(ints.rem(at, rows), s.rows), ints.mul(ints.div(at, rows), s.width)
        warp, lane = ints.div(thread, 32), ints.rem(thread, 32)
        self.term = ints.mul(ints.add(ints.mul(warp, 32 // s.across), ints.div(lane, s.across)), s.terms)
        self.place(batch, m0, ints.add(n0, ints.mul(ints.rem(lane, s.across), s.columns)))
        sums = self.meet(self.multiply())
        epilogue = Epilogue(ints, c, self.buffers, batch, c.M % s.rows != 0, c.N % s.width != 0)
        self.finish(sums, thread, warp, lane, lambda row, column, *x: epilogue.emit(ints.add(m0, row), ints.add(n0, column), *x))

    def place(self, batch: Integer, m0: Integer, n0: Integer) -> None:
        """Where this thread reads: of each row, and of each column or of the columns together."""
        c, s, ints = self.contraction, self.schedule, self.ints
        self.left = Reader(ints, c.lhs, c.batch, c.m, c.k, c.accumulator, self.buffers, lanes=s.terms)
        self.rights = [
            Reader(ints, f, c.batch, c.n, c.k, c.accumulator, self.buffers, lanes=s.terms if s.along_k else s.columns, along="k" if s.along_k else "mn")
            for f in self.factors
        ]
        rows = [ints.min(ints.add(m0, i), c.M - 1) if c.M % s.rows != 0 else ints.add(m0, i) for i in range(s.rows)]
        if s.along_k:
            columns = [ints.min(ints.add(n0, i), c.N - 1) if c.N % s.width != 0 else ints.add(n0, i) for i in range(s.columns)]
        else:
            columns = [ints.min(n0, c.N - s.columns) if c.N % s.width != 0 else n0]
        self.rows, *self.columns = (
            [[reader.base(a, batch, at) for a in reader.operand.reads] for at in places]
            for reader, places in ((self.left, rows), *((right, columns) for right in self.rights))
        )

    # The products.

    def multiply(self) -> list[ir.Value]:
        """This thread's sums: for each factor, of each row those of all columns."""
        c, s, ints = self.contraction, self.schedule, self.ints
        each, lanes = s.depth * s.unroll, s.terms if s.along_k else s.columns
        count = len(self.factors) * s.rows * (s.columns if s.along_k else 1)
        type_ = ir.VectorType.get([lanes], c.accumulator) if lanes > 1 else c.accumulator
        whole, rest = divmod(c.K, each)
        run = s.steps_in_a_row(c.K)
        zeros = [splat(type_, 0)] * count
        if not (self.exact and s.has_totals(c.K)):
            return self.lanes(self.steps(0, whole, rest, zeros))
        add, totals = (add_exactly, 2) if s.keeps_losses(c.K) else (self.add_each, 1)
        carried = [splat(c.accumulator if s.along_k else type_, 0)] * (totals * count)
        loop = scf.ForOp(ints.value(0), ints.value(whole // run), ints.value(1), carried)
        with ir.InsertionPoint(loop.body):
            sums = self.steps(ints.mul(loop.induction_variable, run * each), run, 0, zeros)
            scf.yield_(add(list(loop.inner_iter_args), self.lanes_added(sums)))
        carried = list(loop.results)
        if whole % run or rest:
            carried = add(carried, self.lanes_added(self.steps(whole // run * run * each, whole % run, rest, zeros)))
        sums = self.add_each(carried, carried[count:]) if totals > 1 else carried
        return [x for v in sums for x in lanes_of(v)]

    def add_each(self, sums: Sequence[ir.Value], more: Sequence[ir.Value]) -> list[ir.Value]:
        return [arith.addf(a, b) for a, b in zip(sums, more)]

    def steps(self, first: Integer, whole: int, rest: int, carried: list[ir.Value]) -> list[ir.Value]:
        """Add the products of so many whole steps from ``first`` on, and of ``rest`` terms behind them."""
        ints, each = self.ints, self.schedule.depth * self.schedule.unroll
        if whole > 1:
            loop = scf.ForOp(ints.value(0), ints.value(whole), ints.value(1), carried)
            with ir.InsertionPoint(loop.body):
                scf.yield_(self.step(ints.add(first, ints.mul(loop.induction_variable, each)), list(loop.inner_iter_args), each))
            carried = list(loop.results)
        elif whole:
            carried = self.step(first, carried, each)
        return self.step(ints.add(first, whole * each), carried, rest) if rest else carried

    def lanes_added(self, sums: list[ir.Value]) -> list[ir.Value]:
        return [self.tree(lanes_of(x)) for x in sums] if self.schedule.along_k else sums

    def lanes(self, sums: list[ir.Value]) -> list[ir.Value]:
        return [x for v in self.lanes_added(sums) for x in lanes_of(v)]

    def step(self, first: Integer, carried: list[ir.Value], count: int) -> list[ir.Value]:
        """Add the products of ``count`` terms from ``first`` on, at most those of a whole step."""
        s, ints, c = self.schedule, self.ints, self.contraction
        loaded = []
        for begin in range(0, count, s.depth):
            at, inside = ints.add(ints.add(self.term, first), begin), None
            if begin + s.depth > count:
                inside = ints.less(at, c.K)
                at = ints.min(at, c.K - s.terms)
            left = [self.left.read_terms(bases, at) for bases in self.rows]
            loaded.append((left, [self.load_columns(*factor, at) for factor in zip(self.rights, self.columns)], inside))
        sums = list(carried)
        own = len(sums) // len(self.factors)
        for left, rights, inside in loaded:
            left = [self.keep(self.left.finish(v), inside) for v in left]
            for f, (reader, right) in enumerate(zip(self.rights, rights)):
                right = [self.keep(reader.finish(v), inside) for v in right]
                sums[f * own:(f + 1) * own] = self.products(left, right, sums[f * own:(f + 1) * own])
        return sums

    def load_columns(self, reader: Reader, columns: list[list[Integer]], at: Integer) -> list[list[ir.Value]]:
        """The terms from ``at`` on of each column, or of all columns term by term."""
        if self.schedule.along_k:
            return [reader.read_terms(bases, at) for bases in columns]
        return [reader.read_terms(columns[0], self.ints.add(at, p)) for p in range(self.schedule.terms)]

    def products(self, left: list[ir.Value], right: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        s, made = self.schedule, list(sums)
        for i, x in enumerate(left):
            if s.along_k:
                for j, y in enumerate(right):
                    made[i * s.columns + j] = self.fma(x, y, made[i * s.columns + j])
                continue
            for one, y in zip(lanes_of(x), right):
                made[i] = self.fma(vector.broadcast(y.type, one) if isinstance(y.type, ir.VectorType) else one, y, made[i])
        return made

    def tree(self, values: list[ir.Value]) -> ir.Value:
        while len(values) > 1:
            half = len(values) // 2
            values = [self.plus(a, b) for a, b in zip(values[:half], values[half:])] + values[2 * half:]
        return values[0]

    # All threads' sums together.

    def meet(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums of a warp's lanes that have the same columns, in each of them."""
        distance = self.schedule.across
        while distance < 32:
            sums = [self.plus(x, exchange(x, distance)) for x in sums]
            distance *= 2
        return sums

    def finish(self, sums: list[ir.Value], thread: Integer, warp: Integer, lane: Integer, emit) -> None:
        """Add the warps' sums up; ``emit(row, column, sum)``, with a sum for each factor, a thread for each result."""
        s, ints, rows = self.schedule, self.ints, len(self.factors) * self.schedule.rows
        with only_if(ints.less(lane, s.across)):
            for i, x in enumerate(sums):
                row, column = divmod(i, s.columns)
                where = ints.mul(ints.add(ints.mul(warp, rows), row), s.width)
                store(ints, x, self.shared, ints.add(ints.add(where, ints.mul(lane, s.columns)), column))
        gpu.barrier()
        results = s.rows * s.width
        for begin in range(0, results, s.threads):
            number = ints.add(thread, begin)
            inside = scf.IfOp(ints.less(number, results)) if begin + s.threads > results else None
            with ir.InsertionPoint(inside.then_block) if inside else ir.InsertionPoint.current:
                sums = [join([self.total(ints.add(number, f * results), rows * s.width)]) for f in range(len(self.factors))]
                emit(ints.div(number, s.width), ints.rem(number, s.width), *sums)
                if inside:
                    scf.yield_([])

    def total(self, number: Integer, each: int) -> ir.Value:
        """The sum of all warps' sums, of which each has so many."""
        ints, warps = self.ints, self.schedule.threads // 32
        parts = [load(ints, self.shared, number, self.contraction.accumulator, w * each) for w in range(warps)]
        if not self.exact:
            return self.tree(parts)
        carried = [parts[0], splat(parts[0].type, 0)]
        for part in parts[1:]:
            carried = add_exactly(carried, [part])
        return arith.addf(*carried)

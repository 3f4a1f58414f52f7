"""Products of few vectors with many columns of few terms on CUDA cores: each warp reads contiguous columns, without shared memory.

Where terms are neighbours lanes share a column, read pieces of it that lie side by side, and have as many columns one after the other: a
lane then gets from the others their parts of the columns that it finishes, so that all lanes have results to compute and store.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of, splat, tree
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.multiply_adds import MultiplyAdds
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import Reader
from inferno.codegen.nvvm.shuffles import exchange
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, vector
from inferno.schedule.matmul.contraction import Contraction, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.short_vectors import ShortVectors
from inferno.target import Target

_IN_A_ROW = 8  # terms that a thread adds one after the other


def generate(kernel: func.FuncOp, schedule: ShortVectors, target: Target) -> None:
    """Add the ``gpu.module`` of such a product and make ``kernel`` its launcher."""
    c, s, name = parse_contraction(kernel), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} is not a contraction")
    c = oriented(c, s.swapped)
    runs = ((g.run_sizes[-1] if g.runs else 1) for g in (c.k, c.n))
    if c.M != s.rows or s.columns % s.share or any(n % each for n, each in zip(runs, (s.terms, 1 if s.along_k else s.columns))):
        raise CompileError(f"@{name}: {s} cannot read {c.N} columns of {c.K} terms")
    expand_maps(c.lhs.prologue, c.rhs.prologue, c.epilogue)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    warps = c.B * -(-c.N // s.width)
    width = index_width(buffers, 32 * (warps + s.threads))
    with gpu_function(kernel, buffers, s.threads, []) as function:
        _Emitter(integers_for(kernel, width, function.buffers), c, s, function.buffers).emit(warps)
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (-(-32 * warps // s.threads), 1, 1), (s.threads, 1, 1))


@dataclass
class _Emitter(MultiplyAdds):
    ints: Integers
    contraction: Contraction
    schedule: ShortVectors
    buffers: list[ir.Value]

    def emit(self, warps: int) -> None:
        s, ints = self.schedule, self.ints
        thread = ints.thread(s.threads)
        block = ints.block()
        warp, lane = ints.add(ints.mul(block, s.threads // 32), ints.div(thread, 32)), ints.rem(thread, 32)
        if 32 * warps % s.threads == 0:
            self.columns_of(warp, lane)
            return
        with only_if(ints.less(warp, warps)):
            self.columns_of(warp, lane)

    def columns_of(self, warp: Integer, lane: Integer) -> None:
        """All results of a warp."""
        c, s, ints = self.contraction, self.schedule, self.ints
        chunks = -(-c.N // s.width)
        batch, n0 = (ints.div(warp, chunks), ints.mul(ints.rem(warp, chunks), s.width)) if c.B != 1 else (0, ints.mul(warp, s.width))
        self.left = Reader(ints, c.lhs, c.batch, c.m, c.k, c.accumulator, self.buffers, lanes=s.terms)
        self.right = Reader(
            ints, c.rhs, c.batch, c.n, c.k, c.accumulator, self.buffers, lanes=s.terms if s.along_k else s.columns, along="k" if s.along_k else "mn",
        )
        self.rows = [[self.left.base(a, batch, m) for a in c.lhs.reads] for m in range(s.rows)]
        epilogue = Epilogue(ints, c, self.buffers, batch, False, c.N % s.width != 0)
        beside = 32 // s.share
        if not s.along_k:
            own, place, each = ints.rem(lane, beside), ints.div(lane, beside), s.columns // s.share
            n = ints.add(n0, ints.mul(own, s.columns))
            for m, total in enumerate(self.neighbours(batch, n, place)):
                parts = lanes_of(total)
                mine = [self.exchanged(parts[i::each], place, beside) for i in range(each)]
                epilogue.emit(m, ints.add(n, ints.mul(place, each)), join(mine))
            return
        own, place = ints.div(lane, s.share), ints.rem(lane, s.share)
        sums = self.shared(batch, [ints.add(ints.add(n0, own), u * beside) for u in range(s.columns)], place)
        for each, first in enumerate(range(0, s.columns, s.share)):
            n = ints.add(ints.add(n0, ints.add(own, ints.mul(place, beside))), each * 32)
            for m, totals in enumerate(sums):  # rows may be neighbours in memory, whose lines are written while they are in caches
                epilogue.emit(m, n, join([self.exchanged(totals[first:first + s.share], place)]))

    # Terms are neighbours.

    def shared(self, batch: Integer, columns: list[Integer], place: Integer) -> list[list[ir.Value]]:
        """This lane's part of the sums: of each row those of all columns."""
        c, s, ints, reader = self.contraction, self.schedule, self.ints, self.right
        loads = s.loads(c.K)
        terms, inside = self.terms(place)
        columns = [ints.min(n, c.N - 1) if c.N % s.width else n for n in columns]
        bases = [[reader.base(a, batch, n) for a in c.rhs.reads] for n in columns]
        left = [[self.left.read_terms(row, term) for term in terms] for row in self.rows]
        sums: list[list[ir.Value]] = [[] for _ in self.rows]
        together = max(1, s.ahead // loads)
        for first in range(0, s.columns, together):
            loaded = [[reader.read_terms(base, term) for term in terms] for base in bases[first:first + together]]
            if not first:
                left = [[self.keep(self.left.finish(v), known) for v, known in zip(row, inside)] for row in left]
            for column in loaded:
                right = [self.keep(reader.finish(v), known) for v, known in zip(column, inside)]
                for row, made in zip(left, sums):
                    made.append(tree(self.plus, lanes_of(self.dot(row, right))))
        return sums

    # Columns are neighbours.

    def neighbours(self, batch: Integer, n: Integer, place: Integer) -> list[ir.Value]:
        """This lane's part of the sums of its columns for each row."""
        c, s, ints, reader = self.contraction, self.schedule, self.ints, self.right
        n = ints.min(n, c.N - s.columns) if c.N % s.width else n
        base = [reader.base(a, batch, n) for a in c.rhs.reads]
        parts: list[list[ir.Value]] = [[] for _ in self.rows]
        units, together = list(zip(*self.terms(place))), max(1, s.ahead // s.terms)
        for first in range(0, len(units), together):
            some = units[first:first + together]
            right = [reader.read_terms(base, ints.add(at, i)) for at, _ in some for i in range(s.terms)]
            left = [[self.left.read_terms(row, at) for at, _ in some] for row in self.rows]
            known = [inside for _, inside in some for _ in range(s.terms)]
            right = [self.keep(reader.finish(v), inside) for v, inside in zip(right, known)]
            for row, made in zip(left, parts):
                numbers = [x for v, (_, inside) in zip(row, some) for x in lanes_of(self.keep(self.left.finish(v), inside))]
                spread = [vector.broadcast(right[0].type, x) if s.columns > 1 else x for x in numbers]
                made += [self.dot(spread[i:i + _IN_A_ROW], right[i:i + _IN_A_ROW]) for i in range(0, len(right), _IN_A_ROW)]
        return [tree(self.plus, made) for made in parts]

    # Both.

    def terms(self, place: Integer) -> tuple[list[Integer], list[ir.Value | None]]:
        """Where the pieces of terms that a lane has begin, and whether they do where not all lanes have one."""
        c, s, ints = self.contraction, self.schedule, self.ints
        terms, inside = [], []
        for i in range(s.loads(c.K)):
            term = ints.mul(ints.add(place, i * s.share), s.terms)
            beyond = (i + 1) * s.share * s.terms > c.K
            inside.append(ints.less(term, c.K) if beyond else None)
            terms.append(ints.min(term, c.K - s.terms) if beyond else term)
        return terms, inside

    def exchanged(self, sums: list[ir.Value], place: Integer, step: int = 1) -> ir.Value:
        """The sum of the column that has this lane's ``place`` among those that ``share`` lanes, ``step`` apart, have parts of: each time half of the
        columns go to the lane that many further, and as many come."""
        ints, distance = self.ints, len(sums) // 2
        while distance:
            upper = ints.equal(ints.rem(ints.div(place, distance), 2), 1)
            pairs = list(zip(sums[:distance], sums[distance:]))
            sums = [self.plus(arith.select(upper, b, a), exchange(arith.select(upper, a, b), distance * step)) for a, b in pairs]
            distance //= 2
        return sums[0]

    def dot(self, left: list[ir.Value], right: list[ir.Value]) -> ir.Value:
        total = splat(left[0].type, 0)
        for x, y in zip(left, right):
            total = self.fma(x, y, total)
        return total

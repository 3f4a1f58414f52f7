"""Contractions on CUDA cores: tiles in shared memory, a small block of sums in each thread's registers.

While one pair of tiles is multiplied, the next is on its way from global memory to registers; with two stages it is stored
to the other half of shared memory, so that a step costs one barrier.  Long sums are cut into chunks (see ``Simt``).
"""

from dataclasses import dataclass

from inferno.codegen.builders.elements import lanes_of, join, load_vector, splat, store_vector
from inferno.codegen.builders.exact_sums import add_exactly
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import device_module_of, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.multiply_adds import MultiplyAdds
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import Tiles
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, llvm, scf, vector
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.simt import Simt, by_vectors
from inferno.symbolic import bounds, ceildiv, hint
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Simt, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c = parse_contraction(kernel)
    if c is None:
        raise CompileError(f"@{kernel.name.value} is not a contraction")
    expand_maps(c.lhs.prologue, c.rhs.prologue, c.epilogue)
    written = {d.access.argument for d in c.destinations}
    buffers = parameters_of(kernel, written)
    blocks = c.B * ceildiv(c.M, schedule.tile_m) * ceildiv(c.N, schedule.tile_n)
    width = index_width(buffers, blocks)
    emitter = _Emitter(c, schedule, Integers(width))
    name = kernel.name.value
    # Two blocks of 256 threads a multiprocessor, where there are so many; ptxas then keeps to 128 registers.
    crowded = hint(blocks) > target.multiprocessors and c.accumulator.width <= 32
    minimum = 2 if schedule.thread_m * schedule.thread_n >= 64 and crowded and not c.varies else 0
    with gpu_function(kernel, buffers, schedule.threads, [(schedule.shared_elements, c.accumulator)], minimum) as function:
        emitter.ints = integers_for(kernel, width, function.buffers)
        emitter.emit(function.buffers, function.shared[0])
    if emitter.dynamic:
        _declare_dynamic(kernel)
    with launcher(kernel) as arguments:
        launch(
            f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1),
            shared=emitter.dynamic,
        )


_TOTALS = "inferno_totals"
# Products with a vector, whose few sums eager adds in a tree (with 32 terms in a row the error was 1.6 times eager's): so many
# terms are added before their sum goes to a total, and what the totals lose is kept beside them.
_TERMS = 8
_LOOPED = 4  # terms of straight code where one step has all


def _declare_dynamic(kernel: func.FuncOp) -> None:
    """Dynamic shared memory is an external array without a size, which starts after the static arrays."""
    with ir.InsertionPoint.at_block_begin(device_module_of(kernel).regions[0].blocks[0]), kernel.location:
        attributes = "{addr_space = 3 : i32, alignment = 16 : i64}"
        parsed = ir.Module.parse(f"llvm.mlir.global external @{_TOTALS}() {attributes} : !llvm.array<0 x i8>", kernel.context)
        ir.InsertionPoint.current.insert(parsed.body.operations[0].operation.detach_from_parent())


@dataclass
class _Emitter(MultiplyAdds):
    contraction: Contraction
    schedule: Simt
    ints: Integers

    def __post_init__(self) -> None:
        c, s = self.contraction, self.schedule
        self.steps = ceildiv(c.K, s.tile_k)
        terms = max(1, s.chunk * s.slices // s.tile_k)  # steps of one chunk
        self.per_chunk = terms if bounds(self.steps)[1] > terms else self.steps
        self.chunks = ceildiv(self.steps, self.per_chunk) if isinstance(self.per_chunk, int) else 1
        sums = s.thread_m * s.thread_n
        in_memory = self.chunks != 1 and not s.totals_in_registers
        self.dynamic = s.threads * sums * c.accumulator.width // 8 if in_memory else 0
        self.wide_m, self.wide_n = min(4, s.thread_m), min(4, s.thread_n)
        self.exact = by_vectors(c) and s.totals_in_registers and isinstance(c.accumulator, ir.F32Type)

    def emit(self, buffers: list[ir.Value], shared: ir.Value) -> None:
        c, s, ints = self.contraction, self.schedule, self.ints
        thread = ints.thread(s.threads)
        block = ints.block()
        tile_m, tile_n, batch = self.tile(block)
        m0, n0 = ints.mul(tile_m, s.tile_m), ints.mul(tile_n, s.tile_n)
        self.shared = shared
        tiles = (
            Tiles(ints, c.lhs, c.batch, c.m, c.k, c.accumulator, buffers, s.tile_m, s.tile_k, s.threads, s.tile_m + 4),
            Tiles(ints, c.rhs, c.batch, c.n, c.k, c.accumulator, buffers, s.tile_n, s.tile_k, s.threads, s.tile_n + 4),
        )
        for t, first in zip(tiles, (m0, n0)):
            t.place(thread, batch, first)
        self.locate(thread)
        self.thread = thread
        sums = self.multiply(tiles)
        epilogue = Epilogue(ints, c, buffers, batch, c.M % s.tile_m != 0, c.N % s.tile_n != 0)
        if s.slices == 1:
            for (row, column), value in zip(self.positions(), sums):
                epilogue.emit(ints.add(m0, row), ints.add(n0, column), value)
        else:
            self.reduce(sums, epilogue, m0, n0)

    def tile(self, block: Integer) -> tuple[Integer, Integer, Integer]:
        """Which tile a block computes: down columns of 8 tiles, so that blocks which run together share operands in L2."""
        c, s, ints = self.contraction, self.schedule, self.ints
        rows, columns = ceildiv(c.M, s.tile_m), ceildiv(c.N, s.tile_n)
        batch, at = ints.div(block, rows * columns) if c.B != 1 else 0, ints.rem(block, rows * columns) if c.B != 1 else block
        if rows % 8 != 0 or rows == 8:
            return ints.rem(at, rows), ints.div(at, rows), batch
        group, inside = ints.div(at, 8 * columns), ints.rem(at, 8 * columns)
        return ints.add(ints.mul(group, 8), ints.rem(inside, 8)), ints.div(inside, 8), batch

    def locate(self, thread: Integer) -> None:
        """This thread's slice, and its row and column among the slice's threads: 8 x 4 a warp where there are so many."""
        s, ints = self.schedule, self.ints
        rows, columns = s.tile_m // s.thread_m, s.tile_n // s.thread_n
        self.slice, t = ints.div(thread, rows * columns), ints.rem(thread, rows * columns)
        if rows * columns >= 32:
            high = min(8, rows)
            wide = min(32 // high, columns)
            high = 32 // wide
            warp, lane = ints.div(t, 32), ints.rem(t, 32)
            self.row = ints.add(ints.mul(ints.div(warp, columns // wide), high), ints.div(lane, wide))
            self.column = ints.add(ints.mul(ints.rem(warp, columns // wide), wide), ints.rem(lane, wide))
        else:
            self.row, self.column = ints.div(t, columns), ints.rem(t, columns)

    def first_rows(self) -> list[Integer]:
        """Where this thread's runs of ``wide_m`` rows begin in the tile."""
        count = self.schedule.thread_m // self.wide_m
        start = self.ints.mul(self.row, self.wide_m)
        return [self.ints.add(start, q * (self.schedule.tile_m // count)) for q in range(count)]

    def first_columns(self) -> list[Integer]:
        count = self.schedule.thread_n // self.wide_n
        start = self.ints.mul(self.column, self.wide_n)
        return [self.ints.add(start, q * (self.schedule.tile_n // count)) for q in range(count)]

    def positions(self) -> list[tuple[Integer, Integer]]:
        """The row and first column of each vector of sums, in the order in which they are carried."""
        return [(self.ints.add(row, i), column)
                for row in self.first_rows() for i in range(self.wide_m) for column in self.first_columns()]

    # The loop over the terms.

    def multiply(self, tiles: tuple[Tiles, Tiles]) -> list[ir.Value]:
        """The sums over all terms of this thread's slice."""
        s, ints = self.schedule, self.ints
        for t, begin, values in zip(tiles, s.shared_begins, [t.fetch(0) for t in tiles]):
            t.commit(values, self.shared, begin, 0)
        gpu.barrier()
        zeros = [splat(ir.VectorType.get([self.wide_n], self.contraction.accumulator), 0)] * len(self.positions())
        if self.steps == 1:
            return self.only_step(zeros)
        if self.chunks == 1:
            return self.loop(0, self.steps, zeros, lambda step, sums: self.step(tiles, step, sums))

        def chunk(number: Integer, totals: list[ir.Value]) -> list[ir.Value]:
            begin = ints.mul(number, self.per_chunk)
            end = ints.min(ints.add(begin, self.per_chunk), self.steps)
            sums = self.loop(begin, end, zeros, lambda step, sums: self.step(tiles, step, sums))
            if self.exact:
                return add_exactly(totals, sums)
            if not self.dynamic:
                return [self.plus(a, b) for a, b in zip(totals, sums)]
            self.add_to_memory(sums, number)
            return []

        if self.exact:
            totals = self.loop(0, self.chunks, [*zeros, *zeros], chunk)
            return [self.plus(a, b) for a, b in zip(totals, totals[len(zeros):])]
        if not self.dynamic:
            return self.loop(0, self.chunks, zeros, chunk)
        self.loop(0, self.chunks, [], chunk)
        return [self.total(i) for i in range(len(zeros))]

    def only_step(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The products of one pair of tiles, in a loop: of straight code the assembler starts the loads of all terms first (8 x 8 results and 16 terms: 632
        bytes of spills, 1856 with a vector that is added; 672 lists of 63x16 to 128 33.5 us on an H200, of which 5 are memory's)."""
        depth = self.schedule.tile_k // self.schedule.slices
        if self.schedule.totals_in_registers or depth % _LOOPED or depth == _LOOPED:
            return self.products(0, sums)
        return self.loop(0, depth // _LOOPED, sums, lambda turn, sums: self.products(0, sums, self.ints.mul(turn, _LOOPED), _LOOPED))

    def loop(self, begin: Integer, end: Integer, values: list[ir.Value], body) -> list[ir.Value]:
        ints = self.ints
        for_ = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), values)
        with ir.InsertionPoint(for_.body):
            scf.yield_(body(for_.induction_variable, list(for_.inner_iter_args)))
        return list(for_.results)

    def step(self, tiles: tuple[Tiles, Tiles], step: Integer, sums: list[ir.Value]) -> list[ir.Value]:
        """Multiply one pair of tiles; meanwhile bring the next (in the last step, the same one again)."""
        s, ints = self.schedule, self.ints
        following = ints.min(ints.add(step, 1), self.steps - 1)
        first = ints.mul(following, s.tile_k)
        loaded = [t.fetch(first) for t in tiles]
        half = ints.rem(step, 2) if s.stages == 2 else 0
        sums = self.products(half, sums)
        if s.stages == 1:
            gpu.barrier()
        other = ints.sub(1, half) if s.stages == 2 else 0
        for t, begin, values in zip(tiles, s.shared_begins, loaded):
            t.commit(values, self.shared, ints.add(ints.mul(other, s.tile_k * t.pitch), begin), first)
        gpu.barrier()
        return sums

    def products(self, half: Integer, sums: list[ir.Value], first: Integer = 0, count: int = 0) -> list[ir.Value]:
        """Add the products of this slice's terms of the tiles in ``half`` of shared memory, all or ``count`` of them from ``first`` on."""
        s, ints = self.schedule, self.ints
        depth, element = s.tile_k // s.slices, self.contraction.accumulator
        pitches = (s.tile_m + 4, s.tile_n + 4)
        begins = [
            [ints.add(ints.add(ints.mul(ints.add(ints.add(ints.mul(half, s.tile_k), ints.mul(self.slice, depth)), first), pitch), at), base)
             for at in ats]
            for pitch, ats, base in zip(pitches, (self.first_rows(), self.first_columns()), s.shared_begins)
        ]
        sums, totals = list(sums), []
        for term in range(count or depth):
            if self.exact and term and term % _TERMS == 0:
                totals = [self.plus(a, b) for a, b in zip(totals, sums)] if totals else sums
                sums = [splat(x.type, 0) for x in sums]
            rows, columns = (
                [load_vector(ints, self.shared, at, element, wide, wide, term * pitch) for at in ats]
                for ats, wide, pitch in zip(begins, (self.wide_m, self.wide_n), pitches)
            )
            rows = [x for v in rows for x in lanes_of(v)]
            wide = [vector.broadcast(columns[0].type, x) for x in rows]
            for i, x in enumerate(wide):
                for j, y in enumerate(columns):
                    sums[i * len(columns) + j] = self.fma(x, y, sums[i * len(columns) + j])
        return [self.plus(a, b) for a, b in zip(totals, sums)] if totals else sums

    # Totals in dynamic shared memory: vector i of thread t at (i * threads + t) vectors, free of bank conflicts.

    def total_address(self, number: int) -> ir.Value:
        bytes_ = self.wide_n * self.contraction.accumulator.width // 8
        pointer_type = ir.Type.parse("!llvm.ptr<3>")
        base = llvm.mlir_addressof(pointer_type, _TOTALS)
        where = self.ints.value(self.ints.add(self.ints.mul(self.thread, bytes_), number * self.schedule.threads * bytes_))
        dynamic = ir.Attribute.parse("array<i32: -2147483648>")
        return llvm.getelementptr(pointer_type, base, [where], dynamic, ir.IntegerType.get_signless(8), None)

    def total(self, number: int) -> ir.Value:
        return llvm.load(ir.VectorType.get([self.wide_n], self.contraction.accumulator), self.total_address(number), alignment=16)

    def add_to_memory(self, sums: list[ir.Value], chunk: Integer) -> None:
        first = arith.cmpi(arith.CmpIPredicate.eq, self.ints.value(chunk), self.ints.value(0))
        for i, x in enumerate(sums):
            old = arith.select(first, splat(x.type, 0), self.total(i))
            llvm.store(self.plus(old, x), self.total_address(i), alignment=16)

    # Sums of several slices.

    def reduce(self, sums: list[ir.Value], epilogue: Epilogue, m0: Integer, n0: Integer) -> None:
        """Add the slices' sums through shared memory, as many slices at a time as it holds."""
        c, s, ints = self.contraction, self.schedule, self.ints
        array = self.shared
        tile = s.tile_m * s.tile_n
        width = self.wide_n if tile // self.wide_n >= s.threads else 1
        items = tile // width // s.threads
        room = min(s.slices, s.shared_elements // tile)
        zero = splat(ir.VectorType.get([width], c.accumulator), 0)
        own = [zero] * (2 * items if self.exact else items)
        for begin in range(0, s.slices, room):
            gpu.barrier()
            count = min(room, s.slices - begin)
            mine = ints.sub(self.slice, begin)
            inside = scf.IfOp(ints.less(mine, count)) if room < s.slices else None
            with ir.InsertionPoint(inside.then_block) if inside else ir.InsertionPoint.current:
                for (row, column), value in zip(self.positions(), sums):
                    where = ints.add(ints.mul(mine, tile), ints.add(ints.mul(row, s.tile_n), column))
                    store_vector(ints, value, array, where, self.wide_n)
                if inside:
                    scf.yield_([])
            gpu.barrier()
            for k in range(count):
                at = [ints.mul(ints.add(self.thread, i * s.threads), width) for i in range(items)]
                parts = [load_vector(ints, array, a, c.accumulator, width, width, k * tile) for a in at]
                parts = [p if isinstance(p.type, ir.VectorType) else join([p]) for p in parts]
                own = add_exactly(own, parts) if self.exact else [self.plus(x, p) for x, p in zip(own, parts)]
        if self.exact:
            own = [self.plus(x, lost) for x, lost in zip(own, own[items:])]
        for i in range(items):
            at = ints.mul(ints.add(self.thread, i * s.threads), width)
            row, column = ints.div(at, s.tile_n), ints.rem(at, s.tile_n)
            epilogue.emit(ints.add(m0, row), ints.add(n0, column), own[i])

"""Float32 contractions as six products of bf16 on Hopper's tensor cores, as exact as float32 on CUDA cores.

Built like ``wgmma``; but the tiles come as float32.  Helpers split the rhs's into three tiles of bf16; the consumers read the
lhs to registers and split it there.  Products of small parts come first, and each step's are added to float32 registers.

The tensor core cuts off what does not fit into its sums: all results were about 4.4e-8 too small, were the rhs not split as much too large
(``schedule.bf16x6.CUT``).  Rounding errors grow with the root of the steps (4096 terms: 2.1e-7), but not where sums are ``compensated``
(6.6e-8, for any number).  (A model of it says the same:
16 products and a sum are cut to 25 bits behind the largest one's first, and added; this is cut to float32.  The products of both high
parts in a chain of their own, with a bit less on one side, would be 1.6e-8 too small; that took 3 to 9% more time, and wide tiles have no
registers for it.)

Infinite inputs leave NaN over when they are split, and large ones may overflow on the way.  So where a sum is not finite its
thread adds all its terms once more on the CUDA core, as they are.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.matmul.splitting import PARTS, Fragments, Pieces, split_all
from inferno.codegen.matmul.wgmma import Emitter, emit, prepare_bodies
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import integer_type, load_shared, loop, opaque, operation, shared_pointer, store
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.codegen.nvvm.tensor_core import Tile, matrix_address, multiply_registers, pin
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.bf16x6 import DEPTH, Bf16x6, divides, raw_bytes, sources, tile
from inferno.schedule.matmul.contraction import Operand, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Shared
from inferno.schedule.tiles.tiling import Axis, Source
from inferno.target import Target

PANEL = 32  # rows of a panel of the lhs, where k is not innermost: 128 bytes
# Registers of a helper's and a consumer's thread, by the number of helpers; all 384 or 512 threads together have 65536.
_REGISTERS = {1: (88, 208), 2: (64, 192)}
_FIRST_TURN = 3  # the first of two named barriers


def generate(kernel: func.FuncOp, schedule: Bf16x6, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c = parse_contraction(kernel)
    c = oriented(c, schedule.swapped) if c is not None else None
    tiling = tile(c) if c is not None else None
    if tiling is None:
        raise CompileError(f"@{kernel.name.value} is not a float32 contraction that can be copied to shared memory")
    if not divides(schedule, tiling):
        raise CompileError(f"@{kernel.name.value}: {schedule} cannot divide {tiling.k_steps(DEPTH)} steps")
    if not schedule.fits_registers:
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more registers than a thread has")
    prepare_bodies(c)
    emit(kernel, _Emitter(kernel.name.value, c, tiling, schedule, target, "bf16"))


class _Emitter(Emitter):
    parts = PARTS

    def __post_init__(self) -> None:
        c, t, s = self.contraction, self.tiling, self.schedule
        (self.left, self.left_source), (self.right, self.right_source) = sources(c, t)
        self.interleaved = self.left_source.raw_along_k
        self.depth = DEPTH
        self.lhs = Tile(64, 2, True, 2 * DEPTH)  # a consumer's, in registers
        self.rhs = Tile(s.tile_n, 2, self.right_source.raw_along_k, 2 * DEPTH)
        self.raw_bytes = raw_bytes(s, c, t)
        self.rewrites = True
        self.prepare()

    def lay_out(self) -> Shared:
        return self.schedule.shared(sum(self.raw_bytes))

    def plain_reads(self) -> list[Access]:
        return [*self.contraction.lhs.reads, *self.contraction.rhs.reads]

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value) -> list[ir.Value]:
        s, left = self.schedule, self.left_source
        rows = s.tile_n
        return [
            raw_map(lhs, left, (DEPTH, s.tile_m) if left.raw_along_k else (PANEL, DEPTH), 128),
            raw_map(rhs, self.right_source, (DEPTH, rows) if self.right_source.raw_along_k else (rows, DEPTH), 0),
        ]

    def tile(self, number: Integer) -> tuple[list[Integer], Integer, Integer]:
        # (256x4096x11008 in tiles of 128 x 128 spilled 976 bytes a thread.)
        grid, m0, n0 = super().tile(number)
        return grid, opaque(self.words, m0), opaque(self.words, n0)

    @property
    def helpers(self) -> int:
        return self.schedule.helpers

    @property
    def registers(self) -> tuple[int, int]:
        return _REGISTERS[self.helpers]

    @property
    def readers(self) -> int:
        return self.schedule.tile_m // 64

    @property
    def raw_readers(self) -> int:
        return 1 + 4 * self.readers  # a thread of each warp: they read on their own

    def operands(self, m0: Integer, n0: Integer) -> list[tuple]:
        return [
            (self.maps[0], self.lhs, self.left_source, m0, 0, self.raw_bytes[0], 1),
            (self.maps[1], self.rhs, self.right_source, n0, self.layout.rhs, self.raw_bytes[1], 1),
        ]

    def copy_raw(
        self, map_: ir.Value, source: Source, outer: list[Integer], first: Integer, k0: Integer, target: Integer, barrier: ir.Value,
    ) -> None:
        if source is not self.left_source or source.raw_along_k:
            super().copy_raw(map_, source, outer, first, k0, target, barrier)
            return
        words = self.words
        for i in range(self.schedule.tile_m // PANEL):
            place = words.add(target, i * PANEL * DEPTH * 4)
            super().copy_raw(map_, source, outer, words.add(first, i * PANEL), k0, place, barrier)

    def rewrite(self) -> None:
        """Groups of warps take turns, a step each: a step's way through their hands is longer than its products."""
        s, words = self.schedule, self.words
        for group in range(s.groups):
            with only_if(words.equal(words.shr(self.warp, 1), group + 1)):
                self.rewrite_steps(words.sub(self.thread, 64 * (group + 1)), 64, group, s.groups)

    def rewritings(self, threads: int) -> list[Pieces | None]:
        t = self.tiling
        return [None, Pieces(self.words, self.right, self.right_source, self.rhs, t.n, t.k, self.tensors, threads, self.interleaved)]

    # The consumers.

    def consume(self) -> None:
        words = self.words
        self.begin_consumer()
        self.rhs_base = matrix_address(words, words.add(self.device.shared, self.layout.rhs))
        self.fragments = Fragments(words, self.left, self.left_source, self.lhs, self.tiling.m, self.tiling.k, self.tensors)
        lane = self.epilogue.group.lane
        # This consumer's slice of the steps, and which rows of the tile are its.
        self.slice, self.block = (self.number, 0) if self.schedule.slices > 1 else (0, self.number)
        self.quad = words.mask(lane, 3)
        row = words.add(words.shl(self.epilogue.group.warp, 4), words.shr(lane, 2))
        self.row = words.add(words.shl(self.block, 6), row)
        if self.readers == 2:
            with only_if(words.equal(self.number, 1)):
                self.pass_turn()
        start = [*self.ring.start().values, *self.raw.start().values]
        self.each_tile(self.worker, self.workers, start, self.compute)
        self.end_consumer()

    def take_turn(self) -> None:
        """Wait until the other consumer's products have been started."""
        if self.readers == 2:
            words = self.words
            nvvm.BarrierOp(barrierId=words.value(words.add(self.number, _FIRST_TURN)), numberOfThreads=words.value(256))

    def pass_turn(self) -> None:
        words = self.words
        if self.readers == 2:
            nvvm.BarrierArriveOp(words.value(256), barrierId=words.value(words.sub(_FIRST_TURN + 1, self.number)))

    def compute(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        """One tile; ``at`` are the positions of its first step in both rings."""
        words, slices = self.words, self.schedule.slices
        grid, m0, n0 = self.tile(number)
        zero = float32(0.0)
        count = self.rhs.rows // 2
        sums = [zero] * (count * (2 if self.schedule.compensated else 1))
        here, raw = self.own(self.ring, Position(*at[:2])), self.own(self.raw, Position(*at[2:]))
        first = words.add(self.first, self.slice)
        self.raw.await_full(raw)
        loaded = self.load(grid, m0, first, raw)
        self.release_raw(raw.slot)
        factors = self.split(loaded)

        def step(n: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            here, raw, factors = Position(*carried[:2]), Position(*carried[2:4]), carried[4:4 + len(loaded) * PARTS // 2]
            here, raw, sums, factors = self.step(grid, m0, words.add(n, slices), here, raw, carried[4 + len(factors):], factors)
            return [*here.values, *raw.values, *factors, *sums]

        carried = [*here.values, *raw.values, *factors, *sums]
        carried = loop(words, first, words.sub(self.end, slices), slices, carried, step)
        here, raw, factors = Position(*carried[:2]), Position(*carried[2:4]), carried[4:4 + len(factors)]
        if slices == 1:
            self.epilogue.begin(grid, words.add(m0, words.shl(self.block, 6)), n0)
        _, _, sums, _ = self.step(grid, m0, None, here, raw, carried[4 + len(factors):], factors)
        sums = self.add_again(sums[:count], grid, m0, n0)
        if slices == 1:
            self.finish(sums, grid, m0, n0)
        else:
            self.gather(sums, grid, m0, n0)
        return [*self.ring.skip(Position(*at[:2]), self.steps).values, *self.raw.skip(Position(*at[2:]), self.steps).values]

    def own(self, ring: Ring, at: Position) -> Position:
        """Where this consumer's slice begins."""
        if self.schedule.slices == 1:
            return at
        words, following, second = self.words, ring.next(at), self.words.equal(self.slice, 1)
        return Position(words.select(second, following.slot, at.slot), words.select(second, following.parity, at.parity))

    def finish(self, sums: list[ir.Value], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        if self.schedule.split > 1:
            self.add_up([sums], grid, self.words.add(m0, self.words.shl(self.block, 6)), n0)
        else:
            self.epilogue.emit([sums])

    def gather(self, sums: list[ir.Value], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """The second slice leaves its sums where results are staged, once the last ones have been read; the first adds them."""
        words = self.words
        staging = words.add(self.device.shared, self.layout.results)
        places = [words.add(staging, words.shl(words.add(self.member, 128 * i), 4)) for i in range(len(sums) // 4)]
        with only_if(arith.andi(words.equal(self.slice, 0), words.equal(self.member, 0))):
            tma.await_stores(0, read=True)
        self.meet_consumers()
        with only_if(words.equal(self.slice, 1)):
            for i, place in enumerate(places):
                store(join(sums[4 * i:4 * i + 4]), shared_pointer(words, place), 16)
        self.meet_consumers()
        choice = scf.IfOp(words.equal(self.slice, 0), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            self.epilogue.begin(grid, m0, n0)
            parts = [load_shared(words, place, ir.F32Type.get(), 4) for place in places]
            others = [x for part in parts for x in lanes_of(part)]
            self.finish([arith.addf(x, y) for x, y in zip(sums, others)], grid, m0, n0)
            scf.yield_([])
        with ir.InsertionPoint(choice.else_block):
            if self.schedule.split > 1:
                self.meet(aligned=False)
            scf.yield_([])

    def load(self, grid: Sequence[Integer], m0: Integer, step: Integer, raw: Position) -> list[ir.Value]:
        where, k0 = self.place(grid, step)
        return self.fragments.read_step(self.raw_slot(raw.slot), self.row, self.quad, m0, k0, where)

    def release_raw(self, slot: ir.Value) -> None:
        """This warp has read its part of a raw slot."""
        tma.fence_shared()
        nvvm.SyncWarpOp(self.words.value(-1))
        with only_if(self.words.equal(self.epilogue.group.lane, 0)):
            self.raw.empty.arrive(slot)

    def step(
        self, grid: Sequence[Integer], m0: Integer, following: Integer | None, here: Position, raw: Position,
        sums: Sequence[ir.Value], factors: Sequence[ir.Value],
    ) -> tuple[Position, Position, list[ir.Value], list[ir.Value]]:
        """Multiply one step, whose part of the lhs is in ``factors``, while the ``following`` one's is read.

        The next factors are split last.  In front of the barriers the assembler would not leave it; and while the products run
        it may not change their registers, which are those of the next ones.
        """
        self.ring.await_full(here)
        factors = pin("wgmma.fence.sync.aligned;", factors)
        self.take_turn()
        products = self.products(here.slot, factors)
        nvvm.WgmmaGroupSyncAlignedOp()
        self.pass_turn()
        raw, loaded = self.raw.skip(raw, self.schedule.slices), []
        if following is not None:
            self.raw.await_full(raw)
            loaded = self.load(grid, m0, following, raw)
            # A block's end, which keeps the wait for the products behind the loads.
            self.raw.await_full(raw)
        products = pin("wgmma.wait_group.sync.aligned 0;", products)
        self.ring.release(here.slot, self.member)
        if following is not None:
            self.release_raw(raw.slot)
        sums = self.add_step(sums, products)
        return self.ring.skip(here, self.schedule.slices), raw, sums, self.split(loaded)

    def add_step(self, sums: Sequence[ir.Value], products: Sequence[ir.Value]) -> list[ir.Value]:
        """``sums`` and a step's; compensated ones are followed by what rounding has added to each too much, which the next
        step's take with them (Kahan)."""
        if not self.schedule.compensated:
            return [arith.addf(x, y) for x, y in zip(sums, products)]
        count, made, errors = len(products), [], []
        for old, error, product in zip(sums[:count], sums[count:], products):
            term = arith.subf(product, error)
            made.append(arith.addf(old, term))
            errors.append(arith.subf(arith.subf(made[-1], old), term))
        return made + errors

    def split(self, numbers: Sequence[ir.Value]) -> list[ir.Value]:
        """Registers for the tensor core: all high parts, then the others."""
        return [x for part in split_all(numbers) for x in part]

    def products(self, slot: ir.Value, factors: Sequence[ir.Value]) -> list[ir.Value]:
        """Start the products of a slot, those of the smallest parts first."""
        words, size = self.words, len(factors) // PARTS
        base = words.add(self.rhs_base, words.mul(slot, PARTS * self.rhs.bytes >> 4))
        undefined = operation("llvm.mlir.undef", [ir.F32Type.get()])
        sums, first = [undefined] * (self.rhs.rows // 2), True
        for left, right in ((0, 2), (2, 0), (1, 1), (0, 1), (1, 0), (0, 0)):
            for t in range(DEPTH // 16):
                registers = factors[left * size + 4 * t:left * size + 4 * t + 4]
                descriptor = self.rhs.descriptor(words, words.add(base, right * self.rhs.bytes >> 4), 0, 16 * t)
                sums = multiply_registers(sums, registers, descriptor, not self.rhs.along_k, first)
                first = False
        return sums

    # Sums that are not finite.

    def add_again(self, sums: list[ir.Value], grid: Sequence[Integer], m0: Integer, n0: Integer) -> list[ir.Value]:
        """``sums``, or where one of them is infinite or NaN this block's terms added one after the other."""
        f32 = ir.F32Type.get()
        zero = arith.constant(f32, 0.0)
        probe = zero
        for s in sums:
            probe = operation("llvm.intr.fma", [f32], [s, zero, probe])
        return if_else(
            arith.cmpf(arith.CmpFPredicate.UNE, probe, zero), [f32] * len(sums), lambda: self.add_terms(len(sums), grid, m0, n0), lambda: sums,
        )

    def add_terms(self, count: int, grid: Sequence[Integer], m0: Integer, n0: Integer) -> list[ir.Value]:
        words, t, c = self.words, self.tiling, self.contraction
        zero = float32(0.0)
        rows = [words.min(words.add(words.add(m0, self.row), 8 * h), t.m.size - 1) for h in range(2)]
        column = words.add(n0, words.shl(self.quad, 1))

        def step(number: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            where, k0 = self.place(grid, number)
            end = words.min(words.add(k0, DEPTH), t.k.size)
            return loop(words, k0, end, 1, sums, lambda k, *sums: term({**where, t.k: k}, sums))

        def term(where: dict[Axis, Integer], sums: Sequence[ir.Value]) -> list[ir.Value]:
            left, made = [self.factor(c.lhs, {**where, t.m: r}) for r in rows], list(sums)
            for j in range(count // 4):
                operand, place = self.column(j)
                for e in range(2):
                    at = words.min(words.add(column, 8 * place + e), t.n.size - 1)
                    right = self.factor(operand, {**where, t.n: at})
                    for h in range(2):
                        i = 4 * j + 2 * h + e
                        made[i] = operation("llvm.intr.fma", [right.type], [left[h], right, sums[i]])
            return made

        return loop(words, words.add(self.first, self.slice), self.end, self.schedule.slices, [zero] * count, step)

    def column(self, j: int) -> tuple[Operand, int]:
        """Of which operand the ``j``-th 8 columns of the tensor core's are, and where there."""
        return self.contraction.rhs, j

    def factor(self, operand: Operand, where: dict[Axis, Integer]) -> ir.Value:
        """One element of an operand, from global memory."""
        words, values = self.words, []
        for access in operand.reads:
            strides = [a.stride(access) for a in where]
            values.append(self.tensors[access.argument].read(words.dot(list(where.values()), strides, access.offset)))
        if operand.prologue is None:
            return values[0]
        rest, unused = iter(values), arith.constant(integer_type(1), 0)
        return inline_body(operand.prologue.block, [unused if s is None else next(rest) for s in operand.prologue.sources])[0]


def raw_map(buffer: ir.Value, source: Source, box: tuple[int, int], swizzle: int) -> ir.Value:
    """The map of an operand's tiles as they are in memory."""
    element, ones = source.raw.element, [1] * (len(source.axes) - 2)
    strides = [x * (element.width // 8) for x in source.strides]
    return tensor_map(
        buffer, sizes=[a.size for a in source.axes], strides=strides, box=[*box, *ones], element=str(element), swizzle=swizzle)

"""Contractions on Hopper's tensor cores: warp-specialised, pipelined by the copy engine, persistent.

One thread of warpgroup 0 starts the copies of the operands' tiles into a ring of slots; its warps 1 to 3 apply prologues to the
tiles in shared memory, where there are any.  The other warpgroups multiply (one group of products is always under way while the
next slot is awaited), apply the epilogue in registers and hand the results to the copy engine.
Consumers are not tied to each other, so that one's epilogue partly hides behind another's products; ``pingpong`` orders it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from inferno.codegen import tma
from inferno.codegen.brought_tiles import BroughtTiles
from inferno.codegen.expand_math import expand_math
from inferno.codegen.global_memory import Elements
from inferno.codegen.gpu_function import element_bytes
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import launch, launcher, pointer, scalar, temporary, tensor_map
from inferno.codegen.mbarriers import Barriers, Position, Ring
from inferno.codegen.minmax import recognise_maximum
from inferno.codegen.nvvm_builder import (
    TENSOR_MAP, Device, Words, device_kernel, device_module, elect, loop, only_if, opaque, special_register, uniform,
)
from inferno.codegen.operand_copy import THREADS, OperandCopy
from inferno.codegen.rewriting import Rewriting
from inferno.codegen.split_sums import SplitSums
from inferno.codegen.tensor_core import Multiplier, Tile, matrix_address
from inferno.codegen.tile_copies import TileCopies, operand_map
from inferno.codegen.tile_order import tile_position
from inferno.codegen.wgmma_epilogue import Epilogue, Warpgroup
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Contraction, Operand, oriented, parse_contraction
from inferno.schedule.cost import clusters_at_once
from inferno.schedule.kept_operands import COPY, kept
from inferno.schedule.result_parts import brought_tensors, columns_together, store_maps, written_in_lines
from inferno.schedule.tiling import BEHIND, Axis, Source, Tiling, tile_contraction
from inferno.schedule.wgmma import ROW, Shared, Wgmma, lies_inside, precision, raw_bytes
from inferno.symbolic import Int, Symbol, ceildiv, minimum
from inferno.target import Target

# Registers of a thread by role: all 384 threads together have 65536.  (More threads would not do: ptxas wants 154 registers for the widest product and
# gives each thread an equal share.)  With True the warps behind the first rewrite tiles.
_REGISTERS = {False: (24, 240), True: (88, 208)}
_REWRITER_BARRIER, _CONSUMER_BARRIER = 8, 7  # named barriers; each consumer has one of 1, 2, ...


def generate(kernel: func.FuncOp, schedule: Wgmma, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c = parse_contraction(kernel)
    kind = precision(kernel, c) if c is not None else None
    if kind is None:
        raise CompileError(f"@{kernel.name.value} is not a contraction for tensor cores")
    c = oriented(c, schedule.swapped)
    width = 4 if kind == "tf32" else 2
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=schedule.rewrite, registers=schedule.registers)
    if tiling is None:
        raise CompileError(f"@{kernel.name.value} has operands that cannot be copied to shared memory")
    if schedule.threads > 384:
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more registers than a block has")
    prepare_bodies(c)
    emitter = Emitter
    if schedule.stream or schedule.registers:
        from inferno.codegen.stream_k import emitter_for  # which is made of this module's
        emitter = emitter_for(schedule)
    emit(kernel, emitter(kernel.name.value, c, tiling, schedule, target, kind))


def prepare_bodies(c: Contraction) -> None:
    """Bring what is inlined to the forms that become good instructions."""
    for map_ in (c.lhs.prologue, c.rhs.prologue, c.epilogue):
        if map_ is not None:
            recognise_maximum(map_.generic)
            expand_math(map_.generic)


def emit(kernel: func.FuncOp, emitter: "Emitter") -> None:
    """Add the emitter's kernel, and those that compute operands to temporaries, and launch them."""
    c, tiling = emitter.contraction, emitter.tiling
    if emitter.layout.total > emitter.target.shared:
        raise CompileError(f"@{kernel.name.value}: {emitter.schedule} needs {emitter.layout.total} bytes of shared memory")
    copies = {
        f"{kernel.name.value}_{side}": OperandCopy(operand, source)
        for side, operand, source in (("lhs", c.lhs, tiling.lhs), ("rhs", c.rhs, tiling.rhs))
        if source.copied and _kept_copy(emitter, operand) is None
    }
    with device_module(kernel) as module:
        for name, copy in copies.items():
            copy.emit(module, name, emitter.symbols)
        emitter.emit(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments, copies)


def _kept_copy(emitter: "Emitter", operand: Operand) -> int | None:
    """The kernel's argument that is this operand as the copy engine can read it, if it has one."""
    if operand.prologue is not None:
        return None
    return kept(emitter.contraction.module.body.operations[0], COPY).get(operand.access.argument)


@dataclass
class Emitter(TileCopies, BroughtTiles, SplitSums):
    """The kernel of one contraction; ``bf16x6`` has another way to multiply, with ``parts`` tiles in a slot, ``dual`` a second rhs,
    ``wgmma_rows`` another epilogue."""

    parts: ClassVar[int] = 1
    epilogue_type: ClassVar[type[Epilogue]] = Epilogue
    scratch: ClassVar[tuple[str, ...]] = ()  # types of the last parameters: what is in the workspace

    name: str
    contraction: Contraction
    tiling: Tiling
    schedule: Wgmma
    target: Target
    kind: str

    def __post_init__(self) -> None:
        t, s = self.tiling, self.schedule
        width = 4 if self.kind == "tf32" else 2
        self.lhs = Tile(s.lhs_height, width, t.lhs.along_k, s.row)
        self.rhs = Tile(s.tile_n, width, t.rhs.along_k, s.row, s.panel)
        self.depth = self.lhs.depth * s.chunks
        self.raw_bytes = raw_bytes(s, t, self.depth)
        self.rewrites = sum(self.raw_bytes) > 0  # by warps 1 to 3, which have nothing else to do
        self.prepare()

    def prepare(self) -> None:
        """What follows from the depth of a step and from the raw tiles."""
        c, t, s = self.contraction, self.tiling, self.schedule
        self.words = Words({})
        self.steps = t.k_steps(self.depth)
        self.rows, self.columns = ceildiv(t.m.size, s.tile_m * s.sharing[1]), ceildiv(t.n.size, s.tile_n * s.sharing[0])
        self.tiles = t.positions * self.rows * self.columns
        known = isinstance(self.steps, int)
        if s.split > 1 and (s.cluster > 1 or not known or (s.split - 1) * ceildiv(self.steps, s.split) >= self.steps):
            raise CompileError(f"@{self.name}: {s} cannot split {self.steps} steps")
        shared = self.lhs if s.across else self.rhs
        if s.cluster > 1 and (shared.rows // 8 if shared.along_k else shared.panels) % s.cluster:
            raise CompileError(f"@{self.name}: the blocks of a cluster have no equal shares of {shared.rows} rows to copy")
        if s.spread and (s.tile_n % s.share or s.tile_m * s.tile_n * 4 > self.lay_out().results):
            raise CompileError(f"@{self.name}: {s} has no equal shares of columns, or no room for its sums")
        if s.inside and not lies_inside(s, c, t):
            raise CompileError(f"@{self.name}: {s} would compute rows twice that may not be")
        if s.pingpong and not (known and isinstance(self.tiles, int)):
            raise CompileError(f"@{self.name}: {s} needs to know how many tiles and steps there are")
        self.workers: Int = self.tiles
        if s.persistent and s.split == 1:  # where the number of tiles varies, the blocks find out
            most = clusters_at_once(s.cluster, self.target.multiprocessors) * s.resident
            self.workers = min(most, self.tiles) if isinstance(self.tiles, int) else most
        self.layout = self.lay_out()
        # What a block finishes: a tile, or a share of the columns of the cluster's.
        self.finished = replace(s, tile_n=s.share) if s.spread else s
        self.stores = store_maps(c, t, self.finished)
        self.lines = written_in_lines(c, t, self.finished)
        written = {d.access.argument for d in c.destinations}
        plain = {d.access.argument: d.access.element for i, d in enumerate(c.destinations) if i not in self.stores}
        self.brought = brought_tensors(c, t, s) if s.bring else []
        if s.bring and not self.may_bring():
            raise CompileError(f"@{self.name}: {s} has nothing to bring for the end of a tile, no warps that could, or too few slots")
        directly = [a for a in c.extras if a not in {b.access for b in self.brought}]
        plain.update({a.argument: a.element for a in directly})
        plain.update({a.argument: a.element for a in self.plain_reads()})
        # Tensors that are read or written without the copy engine: argument -> (element, only read).
        self.plain = {a: (plain[a], a not in written) for a in sorted(plain)}

    def lay_out(self) -> Shared:
        return self.schedule.shared(sum(self.raw_bytes), self.rhs.bytes // self.rhs.row)

    def plain_reads(self) -> list[Access]:
        """What is read of the operands without the copy engine."""
        c, t = self.contraction, self.tiling
        sources = ((c.lhs, t.lhs.raw), (c.rhs, t.rhs.raw))
        return [a for operand, raw in sources if raw is not None for a in operand.reads if a != raw]

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value], copies: dict[str, OperandCopy]) -> None:
        c, t, s = self.contraction, self.tiling, self.schedule
        buffers, sizes = [], [scalar(v) for v in self.sizes(arguments).values()]
        for side, operand, source in self.factors:
            if not source.copied:
                buffers.append(arguments[(source.raw or operand.access).argument])
                continue
            if (held := _kept_copy(self, operand)) is not None:
                buffers.append(arguments[held])
                continue
            name = f"{self.name}_{side}"
            copy, made = copies[name], temporary(source.shape, operand.element)
            parameters = [*(pointer(arguments[a]) for a in copy.arguments), pointer(made), *sizes]
            launch(f"{self.name}_gpu", name, parameters, (copy.blocks, 1, 1), (THREADS, 1, 1))
            buffers.append(made)
        maps = self.operand_maps(*buffers)
        together = columns_together(c, t, self.finished)
        for i, m in self.stores.items():
            access = c.destinations[i].access
            size = element_bytes(access.element)
            box = [64, together] if s.swapped else [together, 64]
            maps.append(tensor_map(
                arguments[access.argument], sizes=[a.size for a in m.axes], strides=[x * size for x in m.strides],
                box=box + [1] * (len(m.axes) - 2), element=str(access.element), swizzle=box[0] * size, l2=0,
            ))
        maps += [self.brought_map(arguments[b.access.argument], b) for b in self.brought]
        launch(
            f"{self.name}_gpu", self.name, [*maps, *(pointer(arguments[a]) for a in self.plain), *sizes, *self.launch_scratch()],
            (minimum(self.tiles, self.workers) * s.blocks, 1, 1), (s.threads, 1, 1), (s.blocks, 1, 1), self.layout.total,
        )

    def launch_scratch(self) -> list[ir.Value]:
        """What the last parameters are, made ready."""
        return []

    @property
    def symbols(self) -> list[Symbol]:
        """The kernel's sizes that vary: its last parameters."""
        return list(symbol_arguments(self.contraction.module.body.operations[0].operation))

    def sizes(self, arguments: Sequence[ir.Value]) -> dict[Symbol, ir.Value]:
        """The kernel's sizes, as ``arguments`` has them."""
        function = self.contraction.module.body.operations[0].operation
        return {s: arguments[v.arg_number] for s, v in symbol_arguments(function).items()}

    @property
    def factors(self) -> list[tuple[str, Operand, Source]]:
        """What the copy engine brings, in the order of its maps."""
        c, t = self.contraction, self.tiling
        return [("lhs", c.lhs, t.lhs), ("rhs", c.rhs, t.rhs)]

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value) -> list[ir.Value]:
        left, right = self.schedule.sharing
        return [self.lhs_map(lhs, left), self.rhs_map(rhs, right)]

    def lhs_map(self, lhs: ir.Value, share: int) -> ir.Value:
        return operand_map(lhs, self.tiling.lhs, self.lhs, self.kind, share)

    def rhs_map(self, rhs: ir.Value, share: int) -> ir.Value:
        return operand_map(rhs, self.tiling.rhs, self.rhs, self.kind, share, self.rhs_piece)

    @property
    def rhs_piece(self) -> int:
        """Bytes that L2 reads of the rhs together.  Where a tile's panel is as wide as a line of L2, and others' panels next to it are read
        once, the next line is another block's, in its own time (1x8192x28672 118 us with 256 bytes, 113 with 128; 64x4096x11008 28.2 and 27.4)."""
        return 128 if self.schedule.tile_m == 64 and self.rows == 1 and not self.rhs.along_k and self.rhs.span == 128 else 256

    # The kernel.

    def emit(self, module: ir.Block) -> None:
        s, words = self.schedule, self.words
        pointers = [
            "!llvm.ptr<1> {llvm.noalias, llvm.readonly}" if readonly else "!llvm.ptr<1> {llvm.noalias}"
            for _, readonly in self.plain.values()
        ]
        count = len(self.factors) + len(self.stores) + len(self.brought)
        parameters = [*[TENSOR_MAP] * count, *pointers, *["i64"] * len(self.symbols), *self.scratch]
        with device_kernel(module, self.name, parameters, s.threads, s.blocks, True, s.resident) as device:
            for symbol, value in zip(self.symbols, device.parameters[count + len(pointers):]):
                words.symbols[symbol] = arith.trunci(words.type, value)
            self.begin(device, count)
            role = scf.IfOp(words.less(self.warpgroup, self.helpers), has_else=True)
            with ir.InsertionPoint(role.then_block):
                nvvm.SetMaxRegisterOp(self.registers[0], ir.Attribute.parse("#nvvm<action decrease>"))
                with only_if(arith.andi(words.equal(self.warp, 0), elect())):
                    self.produce()
                if self.rewrites:
                    with only_if(words.less(0, self.warp)):
                        self.rewrite()
                if self.brought:
                    self.bring()
                if s.split > 1:
                    self.meet(aligned=False)
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(self.registers[1], ir.Attribute.parse("#nvvm<action increase>"))
                self.consume()
                scf.yield_([])
            if s.blocks > 1:  # shared memory must stay until the others are done with it
                self.meet(aligned=False)

    def begin(self, device: Device, maps: int) -> None:
        """What all threads need, and the barriers."""
        s, words = self.schedule, self.words
        self.device, self.maps = device, device.parameters[:maps]
        self.tensors = {
            a: Elements(words, p, element, readonly)
            for (a, (element, readonly)), p in zip(self.plain.items(), device.parameters[maps:])
        }
        self.thread = special_register("tid.x")
        self.warp = uniform(words, words.shr(self.thread, 5))
        self.warpgroup = words.shr(self.warp, 2)
        self.rank = special_register("cluster.ctarank") if s.blocks > 1 else 0
        self.worker = special_register("clusterid.x" if s.blocks > 1 else "ctaid.x")
        # This block's steps along k.
        each = ceildiv(self.steps, s.split)
        self.first = words.mul(self.rank, each) if s.split > 1 else 0
        self.end = words.min(words.add(self.first, each), self.steps)
        barriers = words.add(device.shared, self.layout.barriers)
        self.ring = Ring(words, barriers, s.stages, self.releases, s.cluster, self.fillers)
        self.turns = Barriers(words, words.add(barriers, 16 * s.stages))
        self.raw = Ring(words, words.add(barriers, 16 * s.stages + 16), s.raw, self.raw_readers)
        with only_if(words.equal(self.thread, 0)):
            for m in self.maps:
                tma.prefetch(m)
            self.ring.initialize()
            if self.rewrites:
                self.raw.initialize()
            if s.pingpong:
                for i in range(2):
                    self.turns.initialize(i, 1)
            if self.brought:
                self.initialize_brought()
            nvvm.FenceMbarrierInitOp()
        self.meet(aligned=True)
        # From here on global memory is read and written (see ``await-kernels``).
        for action in ("wait", "launch_dependents"):
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind[action])

    @property
    def helpers(self) -> int:
        """Warpgroups in front of those that multiply: a warp that starts copies, and warps that rewrite."""
        return self.schedule.helpers

    @property
    def registers(self) -> tuple[int, int]:
        """Of a helper's thread, and of a consumer's."""
        s = self.schedule
        if s.resident == 1:
            return _REGISTERS[self.rewrites]
        # What each thread gets at first, of which helpers give to consumers.
        few, each = _REGISTERS[self.rewrites][0], 65536 // (s.resident * s.threads) // 8 * 8
        return few, min(232, ((each - few) * s.helpers // s.consumers + each) // 8 * 8)

    def meet_consumers(self) -> None:
        """A barrier of all consumers."""
        words, threads = self.words, 128 * self.schedule.consumers
        nvvm.BarrierOp(barrierId=words.value(_CONSUMER_BARRIER), numberOfThreads=words.value(threads))

    @property
    def readers(self) -> int:
        """Consumers that read a slot."""
        return 1 if self.schedule.pingpong else self.schedule.consumers

    @property
    def releases(self) -> int:
        """Arrivals that free a slot."""
        return self.readers

    @property
    def fillers(self) -> int:
        """Arrivals that fill a slot: it is full when the copies have arrived and what is rewritten has been."""
        return (self.direct_bytes > 0) + self.rewrites

    @property
    def raw_readers(self) -> int:
        """Arrivals that free a raw slot."""
        return 1

    def meet(self, aligned: bool) -> None:
        """A barrier of the block or, where there is one, the cluster."""
        if self.schedule.blocks > 1:
            nvvm.ClusterArriveOp(aligned=aligned or None)
            nvvm.ClusterWaitOp(aligned=aligned or None)
        else:
            nvvm.BarrierOp()

    def tile(self, number: Integer) -> tuple[list[Integer], Integer, Integer]:
        """Tile ``number``: its position in the grid's axes, its first row and column."""
        s, words = self.schedule, self.words
        outer, row, column = tile_position(words, number, [a.size for a in self.tiling.grid], self.rows, self.columns, s.group)
        if s.cluster > 1 and s.across:
            column = words.add(words.mul(column, s.cluster), self.rank)
        elif s.cluster > 1:
            row = words.add(words.mul(row, s.cluster), self.rank)
        m0, n0 = words.mul(row, s.tile_m), words.mul(column, s.tile_n)
        if s.inside:
            m0 = words.min(m0, self.tiling.m.size - s.tile_m)
        return outer, m0, n0 if isinstance(self.tiles, int) else opaque(words, n0)

    def tiles_of(self, consumer: Integer) -> tuple[Integer, Int]:
        """A consumer's first tile, and how far it is to its next."""
        if self.schedule.pingpong:
            return self.words.add(self.worker, self.words.mul(consumer, self.workers)), 2 * self.workers
        return self.worker, self.workers

    def each_tile(self, first: Integer, step: Int, carried: Sequence[ir.Value], body: Callable) -> None:
        """``body(tile, *carried)`` for this worker's tiles."""
        if self.workers == self.tiles and not self.schedule.pingpong:
            body(first, *carried)
        else:
            loop(self.words, first, self.tiles, step, carried, body)

    # The producer.

    @property
    def direct_bytes(self) -> int:
        """Bytes of a slot that the copy engine fills."""
        return self.schedule.chunks * sum(tile.bytes for tile, raw in zip((self.lhs, self.rhs), self.raw_bytes) if not raw)

    def produce(self) -> None:
        words, carried = self.words, [*self.ring.start().values, *self.raw.start().values]

        def tile(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            grid, m0, n0 = self.tile(number)
            return loop(words, self.first, self.end, 1, at, lambda step, *at: self.fill(
                grid, m0, n0, step, Position(*at[:2]), Position(*at[2:])))

        self.each_tile(self.worker, self.workers, carried, tile)

    def place(self, grid: Sequence[Integer], step: ir.Value) -> tuple[dict[Axis, Integer], Integer]:
        """Where a step along k is: the positions of all axes that are not tiled, and the first k."""
        t, words = self.tiling, self.words
        chunks = ceildiv(t.k.size, self.depth)
        outer, chunk = (words.div(step, chunks), words.rem(step, chunks)) if t.steps else (0, step)
        where: dict[Axis, Integer] = {BEHIND: 1, **dict(zip(t.grid, grid))}
        where.update(zip(t.steps, words.split(outer, [a.size for a in t.steps])))
        return where, words.mul(chunk, self.depth)

    def operands(self, m0: Integer, n0: Integer) -> list[tuple]:
        """(map, tile, source, first row, offset of its slots, bytes of its raw tile, blocks that share it) of both operands."""
        t, layout, sharing = self.tiling, self.layout, self.schedule.sharing
        return [
            (self.maps[0], self.lhs, t.lhs, m0, layout.lhs, self.raw_bytes[0], sharing[0]),
            (self.maps[1], self.rhs, t.rhs, n0, layout.rhs, self.raw_bytes[1], sharing[1]),
        ]

    def fill(
        self, grid: Sequence[Integer], m0: Integer, n0: Integer, step: ir.Value, at: Position, raw: Position,
    ) -> list[ir.Value]:
        """Start the copies of both tiles of one step along k: raw tiles, and then, when a slot is free, the others."""
        words, ring = self.words, self.ring
        where, k0 = self.place(grid, step)
        operands = self.operands(m0, n0)
        if self.rewrites:
            self.raw.acquire(raw)
            self.raw.full.expect(raw.slot, sum(self.raw_bytes))
            base = self.raw_slot(raw.slot)
            for map_, _, source, first, _, size, _ in operands:
                if size:
                    outer = [where[a] for a in source.axes[2:]]
                    self.copy_raw(map_, source, outer, first, k0, base, self.raw.full.at(raw.slot))
                    base = words.add(base, size)
            raw = self.raw.next(raw)
        if self.direct_bytes:
            ring.acquire(at)
            ring.full.expect(at.slot, self.direct_bytes)
            for map_, tile, source, first, base, size, blocks in operands:
                if not size:
                    slot = words.add(words.add(self.device.shared, base), words.mul(at.slot, self.schedule.chunks * tile.bytes))
                    outer = [where[a] for a in source.axes[2:]]
                    for i in range(self.schedule.chunks):
                        target = words.add(slot, i * tile.bytes)
                        self.copy_tile(map_, tile, outer, first, words.add(k0, i * tile.depth), target, ring.full.at(at.slot), blocks)
        return [*ring.next(at).values, *raw.values]

    def raw_slot(self, slot: ir.Value) -> Integer:
        words = self.words
        return words.add(words.add(self.device.shared, self.layout.raw), words.mul(slot, sum(self.raw_bytes)))

    # The rewriter.

    def rewrite(self) -> None:
        """The part of the warps behind the first."""
        self.rewrite_steps(self.words.sub(self.thread, 32), 128 * self.helpers - 32, 0, 1)

    def rewrite_steps(self, member: ir.Value, threads: int, slice: int, slices: int) -> None:
        """Turn raw tiles into the tensor core's, in the order in which they come, every ``slices``-th step; ``member`` of
        ``threads`` threads."""
        words, rewritings, ring, rounds = self.words, self.rewritings(threads), self.ring, self.raw

        def step(grid: Sequence[Integer], m0: Integer, n0: Integer, number: ir.Value, *values: ir.Value) -> list[ir.Value]:
            at, raw = Position(*values[:2]), Position(*values[2:])
            where, k0 = self.place(grid, number)
            rounds.await_full(raw)
            ring.acquire(at)
            base = self.raw_slot(raw.slot)
            for rewriting, (_, tile, _, first, offset, size, _) in zip(rewritings, self.operands(m0, n0)):
                if rewriting is not None:
                    slot = words.add(words.add(self.device.shared, offset), words.mul(at.slot, self.parts * tile.bytes))
                    rewriting.emit(member, base, slot, first, k0, where)
                base = words.add(base, size)
            tma.fence_shared()
            nvvm.BarrierOp(barrierId=words.value(_REWRITER_BARRIER + slice), numberOfThreads=words.value(threads))
            with only_if(words.equal(member, 0)):
                ring.full.arrive(at.slot)
                rounds.empty.arrive(raw.slot)
            return [*ring.skip(at, slices).values, *rounds.skip(raw, slices).values]

        def tile(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            grid, m0, n0 = self.tile(number)
            start = [*ring.skip(Position(*at[:2]), slice).values, *rounds.skip(Position(*at[2:]), slice).values]
            done = loop(words, words.add(self.first, slice), self.end, slices, start, lambda n, *at: step(grid, m0, n0, n, *at))
            if slices == 1:
                return done
            return [*ring.skip(Position(*at[:2]), self.steps).values, *rounds.skip(Position(*at[2:]), self.steps).values]

        self.each_tile(self.worker, self.workers, [*ring.start().values, *rounds.start().values], tile)

    def rewritings(self, threads: int) -> list[Rewriting | None]:
        """What is rewritten of the lhs and of the rhs, by this number of threads."""
        c, t = self.contraction, self.tiling
        return [
            Rewriting(self.words, operand, source, tile, rows, t.k, self.tensors, threads) if source.raw is not None else None
            for operand, source, tile, rows in ((c.lhs, t.lhs, self.lhs, t.m), (c.rhs, t.rhs, self.rhs, t.n))
        ]

    # The consumers.

    def consume(self) -> None:
        s, words, layout = self.schedule, self.words, self.layout
        self.begin_consumer()
        self.multiplier = Multiplier(words, self.kind, self.lhs, self.rhs)
        own = 0 if s.pingpong else words.mul(self.number, s.rows)
        # In MN-major order a panel of 64 rows is as large as 64 rows of 128 bytes, so both orders begin at the same place.
        self.lhs_base = matrix_address(words, words.add(words.add(self.device.shared, layout.lhs), words.mul(own, self.lhs.row)))
        self.rhs_base = matrix_address(words, words.add(self.device.shared, layout.rhs))
        start = self.ring.start()
        if s.pingpong:
            second = words.equal(self.number, 1)
            skipped = self.ring.skip(start, self.steps)
            carried = [
                words.select(second, skipped.slot, start.slot), words.select(second, skipped.parity, start.parity),
                words.select(second, 0, 1),
            ]
            self.each_tile(*self.tiles_of(self.number), carried, self.take_turn)
        else:
            self.each_tile(*self.tiles_of(self.number), start.values, lambda n, *at: self.compute(n, Position(*at)).values)
        self.end_consumer()

    def begin_consumer(self) -> None:
        """Which consumer this is, and its epilogue."""
        s, words = self.schedule, self.words
        self.number = words.sub(self.warpgroup, self.helpers)
        self.member = words.mask(self.thread, 127)
        staging = words.add(words.add(self.device.shared, self.layout.results), words.mul(self.number, s.buffers * 64 * ROW))
        group = Warpgroup(self.number, self.member, words.mask(self.warp, 3), words.mask(self.thread, 31), staging)
        maps = {i: m for i, m in zip(self.stores, self.maps[len(self.factors):])}
        self.epilogue = self.epilogue_type(words, self.contraction, self.tiling, self.finished, self.tensors, group, maps)
        if self.epilogue_type.emit is Epilogue.emit:
            self.epilogue.lines = self.lines
        if self.brought:
            self.epilogue.brought = self.brought_parts(group)

    def end_consumer(self) -> None:
        if self.stores:
            with only_if(self.words.equal(self.member, 0)):
                tma.await_stores(0, read=True)  # a block's shared memory goes when it ends

    def take_turn(self, number: ir.Value, slot: ir.Value, parity: ir.Value, turn: ir.Value) -> list[ir.Value]:
        """Ping-pong: multiply when the other consumer has started its epilogue, and pass over its slots."""
        self.turns.wait(self.number, turn)
        at = self.ring.skip(self.compute(number, Position(slot, parity)), self.steps)
        return [*at.values, self.words.xor(turn, 1)]

    def compute(self, number: ir.Value, at: Position) -> Position:
        """One tile, from the first slot at ``at``; returns where the next one begins."""
        s, words, ring, multiplier = self.schedule, self.words, self.ring, self.multiplier
        grid, m0, n0 = self.tile(number)
        m0 = m0 if s.pingpong else words.add(m0, words.mul(self.number, s.rows))
        if self.brought:
            self.epilogue.brought.begin(self.tile_of_consumer(number))
        self.epilogue.begin_early(grid, m0, n0, self.registers[1] - self.rhs.rows * s.rows // 128)
        ring.await_full(at)
        sums = self.multiply(at.slot, multiplier.start(s.rows // 64), first=True)
        previous, at = at.slot, ring.next(at)

        def step(_, slot: ir.Value, parity: ir.Value, previous: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            here = Position(slot, parity)
            ring.await_full(here)
            sums = self.multiply(slot, sums, first=False)
            multiplier.await_groups(1)
            ring.release(previous, self.member)
            return [*ring.next(here).values, slot, *sums]

        if self.steps != 1:
            slot, parity, previous, *sums = loop(words, words.add(self.first, 1), self.end, 1, [*at.values, previous, *sums], step)
            at = Position(slot, parity)
        if s.pingpong:
            with only_if(words.equal(self.member, 0)):
                self.turns.arrive(words.sub(1, self.number))
        if s.split > 1:
            (self.add_up_shares if s.spread else self.add_up)(multiplier.finish(sums), grid, m0, n0)
            return at
        self.complete(sums, previous, grid, m0, n0)
        return at

    def complete(self, sums: list[ir.Value], previous: ir.Value, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """The end of a tile, whose last slot is ``previous``."""
        self.epilogue.begin(grid, m0, n0)
        values = self.multiplier.finish(sums)
        self.ring.release(previous, self.member)
        self.epilogue.emit(values)

    def multiply(self, slot: ir.Value, sums: Sequence[ir.Value], first: bool) -> list[ir.Value]:
        words = self.words
        lhs = words.add(self.lhs_base, words.mul(slot, self.schedule.chunks * self.lhs.bytes >> 4))
        rhs = words.add(self.rhs_base, words.mul(slot, self.schedule.chunks * self.rhs.bytes >> 4))
        return self.multiplier.multiply(sums, lhs, rhs, first, self.schedule.chunks)

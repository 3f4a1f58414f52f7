"""Contractions on Hopper's tensor cores: warp-specialised, pipelined by the copy engine, persistent.

One thread of warpgroup 0 starts the copies of the operands' tiles into a ring of slots; its warps 1 to 3 apply prologues to the
tiles in shared memory, where there are any.  The other warpgroups multiply (one group of products is always under way while the
next slot is awaited), apply the epilogue in registers and hand the results to the copy engine.
Consumers are not tied to each other, so that one's epilogue partly hides behind another's products; ``pingpong`` orders it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launcher
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul.brought_tiles import BroughtTiles
from inferno.codegen.matmul.operand_copy import OperandCopy
from inferno.codegen.matmul.split_sums import SplitSums
from inferno.codegen.matmul.tile_copies import TileCopies
from inferno.codegen.matmul.tile_order import tile_position
from inferno.codegen.matmul.wgmma_consumer import Consumer
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.matmul.wgmma_launch import Launch
from inferno.codegen.matmul.wgmma_producer import Producer
from inferno.codegen.matmul.wgmma_rewriter import Rewriter
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import (
    READ_BUFFER, TENSOR_MAP, WRITTEN_BUFFER, Device, Words, device_kernel, device_module, elect, loop, opaque, special_register, uniform,
)
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Barriers, Ring
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.await_kernels import await_predecessors
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Contraction, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.short_sums import fits_ends
from inferno.schedule.matmul.wgmma_schedule import Shared, Wgmma, lies_inside, precision, raw_bytes
from inferno.schedule.tiles.result_parts import brought_tensors, store_maps, written_in_lines
from inferno.schedule.tiles.tiling import Tiling, shortest_part, tile_contraction
from inferno.symbolic import Int, ceildiv
from inferno.target import Target, clusters_at_once

# Registers of a thread by role: all 384 threads together have 65536.  (More threads would not do: ptxas wants 154 registers for the widest product and
# gives each thread an equal share.)  With True the warps behind the first rewrite tiles.
_REGISTERS = {False: (24, 240), True: (88, 208)}
_CONSUMER_BARRIER = 7  # a named barrier; each consumer has one of 1, 2, ... of its own, rewriters those behind


def generate(kernel: func.FuncOp, schedule: Wgmma, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c = parse_contraction(kernel)
    kind = precision(kernel, c) if c is not None else None
    if kind is None:
        raise CompileError(f"@{kernel.name.value} is not a contraction for tensor cores")
    c = oriented(c, schedule.swapped)
    width = 4 if kind == "tf32" else 2
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=schedule.rewrite, offset=True, registers=schedule.registers)
    if tiling is None:
        raise CompileError(f"@{kernel.name.value} has operands that cannot be copied to shared memory")
    if schedule.threads > 384:
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more registers than a block has")
    prepare_bodies(c)
    emitter = Emitter
    if schedule.stream or schedule.registers:
        from inferno.codegen.matmul.stream_k import emitter_for  # which is made of this module's
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
        if source.copied and emitter.kept_copy(operand) is None
    }
    with device_module(kernel) as module:
        for name, copy in copies.items():
            copy.emit(module, name, emitter.symbols)
        emitter.emit(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments, copies)


@dataclass
class Emitter(Launch, Producer, Rewriter, Consumer, TileCopies, BroughtTiles, SplitSums):
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
        self.rows, self.columns = self.count_tiles()
        self.tiles = t.positions * self.rows * self.columns
        self.check()
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

    def count_tiles(self) -> tuple[Int, Int]:
        """Tiles, or what the tiles of a cluster make up, along the rows and along the columns."""
        t, s = self.tiling, self.schedule
        return ceildiv(t.m.size, s.tile_m * s.sharing[1]), ceildiv(t.n.size, s.tile_n * s.sharing[0])

    def check(self) -> None:
        """CompileError for what the schedule asks of sizes that they do not have."""
        c, t, s, known = self.contraction, self.tiling, self.schedule, isinstance(self.steps, int)
        if s.split > 1 and (s.split > 8 or s.cluster > 1 or shortest_part(self.steps, s.split) < 1):
            raise CompileError(f"@{self.name}: {s} cannot split {self.steps} steps")
        shared = self.lhs if s.across else self.rhs
        if s.cluster > 1 and (shared.rows // 8 if shared.along_k else shared.panels) % s.cluster:
            raise CompileError(f"@{self.name}: the blocks of a cluster have no equal shares of {shared.rows} rows to copy")
        if s.spread and (s.tile_n % s.share or (not s.sends and s.tile_m * s.tile_n * 4 > self.lay_out().results)):
            raise CompileError(f"@{self.name}: {s} has no equal shares of columns, or no room for its sums")
        if s.sends and not (s.spread and s.share * s.split == s.tile_n):
            raise CompileError(f"@{self.name}: {s} does not give each block of a cluster one share of the columns")
        if s.inside and not lies_inside(s, c, t):
            raise CompileError(f"@{self.name}: {s} would compute rows twice that may not be")
        if (s.line or s.by_threads or s.kept) and not fits_ends(s, c, t, self.steps):
            raise CompileError(f"@{self.name}: {s} does not have the tensors' whole lines, or its rhs is not the same for all tiles")
        if s.pingpong and not (known and isinstance(self.tiles, int)):
            raise CompileError(f"@{self.name}: {s} needs to know how many tiles and steps there are")

    def lay_out(self) -> Shared:
        return self.schedule.shared(sum(self.raw_bytes), self.rhs.bytes // self.rhs.row)

    def plain_reads(self) -> list[Access]:
        """What is read of the operands without the copy engine."""
        c, t = self.contraction, self.tiling
        sources = ((c.lhs, t.lhs.raw), (c.rhs, t.rhs.raw))
        return [a for operand, raw in sources if raw is not None for a in operand.reads if a != raw]

    # The kernel.

    def emit(self, module: ir.Block) -> None:
        s, words = self.schedule, self.words
        pointers = [
            READ_BUFFER if readonly else WRITTEN_BUFFER
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
                self.start_copies()
                if self.rewrites:
                    with only_if(words.less(0, self.warp)):
                        self.rewrite()
                if self.brought:
                    self.bring()
                if s.split > 1 and not s.sends:
                    self.meet(aligned=False)
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(self.registers[1], ir.Attribute.parse("#nvvm<action increase>"))
                self.consume()
                scf.yield_([])
            if s.blocks > 1 and not s.sends:  # shared memory must stay until the others are done with it
                self.meet(aligned=False)

    def start_copies(self) -> None:
        """What the threads do that start the copies of operands."""
        with only_if(arith.andi(self.words.equal(self.warp, 0), elect())):
            self.produce()

    def further_rings(self) -> list[Ring]:
        """Rings of slots beside that of the operands' tiles."""
        return [self.raw] if self.rewrites else []

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
        self.kept = self.arrived = Barriers(words, words.add(device.shared, self.layout.total - 8))
        with only_if(words.equal(self.thread, 0)):
            for m in self.maps:
                tma.prefetch(m)
            for ring in (self.ring, *self.further_rings()):
                ring.initialize()
            if s.pingpong:
                for i in range(2):
                    self.turns.initialize(i, 1)
            if self.brought:
                self.initialize_brought()
            if s.kept or s.sends:
                self.kept.initialize(0, 1)
            nvvm.FenceMbarrierInitOp()
            if s.sends:
                self.arrived.expect(0, s.sent)
        self.meet(aligned=True)
        # From here on global memory is read and written (see ``await-kernels``).
        await_predecessors()

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

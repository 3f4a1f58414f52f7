"""Attention on Hopper's tensor cores: warp-specialised, pipelined by the copy engine, without scores in memory.

After FlashAttention-3 (Shah, Bikshandi, Zhang, Thakkar, Ramani, Dao, "FlashAttention-3: Fast and Accurate Attention with Asynchrony and
Low-precision", 2024).  One thread of warpgroup 0 starts the copies of queries, keys and values (``producer``); each of the others
has 64 queries and walks over the blocks of keys (``consumer``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferno.codegen.attention.blocks import BlockLists, LaidLists, laid_at
from inferno.codegen.attention.cluster_shares import InMemory, meet_parts
from inferno.codegen.attention.consumer import Consumer
from inferno.codegen.attention.exact_consumer import ExactConsumer
from inferno.codegen.attention.fixup import Meeting
from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.masks import mask_map
from inferno.codegen.attention.pieces import Pieces
from inferno.codegen.attention.producer import Producer
from inferno.codegen.attention.results import result_axes, result_schedule, with_sources
from inferno.codegen.attention.splitting_producer import CuttingProducer
from inferno.codegen.attention.warps import WarpConsumer
from inferno.codegen.attention.writes import CacheWriter, emit_copies, launch_copies
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.launcher import launch, launcher, pointer, scalar, temporary, tensor_map
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul.tile_numbers import emit_counter, launch_counter
from inferno.codegen.nvvm.builder import (
    READ_BUFFER, TENSOR_MAP, WRITTEN_BUFFER, Device, Words, device_kernel, device_module, elect, integer_type, special_register, uniform,
)
from inferno.codegen.nvvm.global_memory import Elements
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.await_kernels import await_predecessors
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.masks import brought_masks
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import FEW_ROWS, Attention, adders, most_rows, tile_rows
from inferno.schedule.attention.support import read
from inferno.schedule.attention.tiling import AttentionTiling, Copied, transposed_lines
from inferno.schedule.tiles.result_parts import columns_together, store_maps
from inferno.symbolic import Symbol, minimum
from inferno.target import Target

# Registers of the producer's and a consumer's thread, by the number of consumers: a block has 65536.  The producer of pages has the numbers of three
# blocks' in registers.
REGISTERS = {1: (24, 240), 2: (24, 240), 3: (32, 160)}
_OF_PAGES = (96, 240)
_OF_CUTS, _OF_TWO = {1: (120, 240), 2: (120, 192)}, (104, 152)  # of one that cuts, whose loads are under way together, and of two blocks of these


def generate(kernel: func.FuncOp, schedule: Attention, target: Target) -> None:
    """Add the ``gpu.module`` of attention and make ``kernel`` its launcher."""
    found = read(kernel, target)
    if found is None:
        raise CompileError(f"@{kernel.name.value} is not attention for tensor cores")
    emit(kernel, *found, schedule, target)


def emit(kernel: func.FuncOp, a: AttentionKernel, tiling: AttentionTiling, schedule: Attention, target: Target) -> None:
    """The same for what is known to be ``a``."""
    if not fits(schedule, a, target):
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more shared memory or registers than there are")
    if schedule.warp_rows and tiling.whole is None:
        raise CompileError(f"@{kernel.name.value}: the copy engine cannot bring its operands as they are")
    inlined = (a.score, a.weighting, a.epilogue, a.of_logarithm, a.divisor and a.divisor.made)
    for map_ in (*inlined, a.blocks.whole.score if a.blocks is not None and a.blocks.whole.differs else None):
        if map_ is not None:
            recognise_maximum(map_.generic)
            expand_math(map_.generic)
    if schedule.warp_rows:
        tiling = replace(tiling, **dict(zip("qkv", tiling.whole)))
    emitter = Emitter(kernel.name.value, with_sources(a), tiling, schedule, target)
    with device_module(kernel) as module:
        emitter.emit(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments)


@dataclass
class Emitter:
    name: str
    kernel: AttentionKernel
    tiling: AttentionTiling
    schedule: Attention
    target: Target

    def __post_init__(self) -> None:
        a, t, s = self.kernel, self.tiling, self.schedule
        self.words = Words({})
        self.tiles = t.tiles(s)
        self.workers = self.tiles if s.order == "single" else minimum(self.target.multiprocessors * s.resident, self.tiles)
        self.stores = store_maps(a, result_axes(t), result_schedule(s, t, True))
        if len(self.stores) < len(a.destinations) or not s.staged:
            self.stores = {}
        self.finished = result_schedule(s, t, bool(self.stores))
        self.layout = s.shared(t.depth.size, t.width.size)
        self.brought = brought_masks(a, t) if s.masks else []
        apart = {b.access for b in self.brought}
        read = (
            *(x for x in (*a.score_extras, *a.weighting_extras) if x not in apart), *a.extras, *a.sinks,
            *(p.table for p in a.pages if s.pieces == 1),
        )
        plain = {x.argument: x.element for x in (*read, *(() if a.dropout is None else (a.dropout.seed,)))}
        plain.update({d.access.argument: d.access.element for i, d in enumerate(a.destinations) if i not in self.stores})
        self.pieces = Pieces(self.words, [a.q, a.k, a.v], [t.q, t.k, t.v], s.pieces)
        if s.cut:
            plain.update({o.access.argument: o.access.element for o in (a.q, a.k, a.v)})
        self.maps = 0 if s.cut else 3
        plain.update({x.argument: x.element for x in a.statistics})
        self.lists = None if a.blocks is None else BlockLists(self.words, a.blocks, t.grid, t.keys.size, s.keys, counts=s.order == "dynamic")
        for w in a.writes:
            plain.update({w.new: w.element, w.table: w.place, w.cache: w.element})
        self.caches = {w.cache for w in a.writes}
        written = {x.argument for x in (*(d.access for d in a.destinations), *a.statistics)} | self.caches
        # Tensors that are read or written without the copy engine: argument -> (element, only read).
        self.plain = {x: (plain[x], x not in written) for x in sorted(plain)}

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        a, t, s = self.kernel, self.tiling, self.schedule
        launch_copies(self.name, a.writes, arguments)
        rows = s.warp_rows or 64
        operands = [(arguments[o.access.argument], copied, n) for o, copied, n in ((a.q, t.q, rows), (a.k, t.k, s.keys), (a.v, t.v, s.keys))]
        maps = []
        if not s.cut:
            maps = [self.operand_map(*o) for o in operands] if s.pieces == 1 else self.pieces.launch(self.name, operands, arguments, self.sizes(arguments))
        together = columns_together(a, result_axes(t), self.finished)
        for i, m in self.stores.items():
            access = a.destinations[i].access
            size = element_bytes(access.element)
            maps.append(tensor_map(
                arguments[access.argument], sizes=[x.size for x in m.axes], strides=[x * size for x in m.strides],
                box=[together, 64] + [1] * (len(m.axes) - 2), element=str(access.element), swizzle=together * size, l2=0,
            ))
        maps += [mask_map(arguments[b.access.argument], b, s.mask_slot) for b in self.brought]
        scratch = []
        if self.lists is not None:
            scratch = self.lists.launch(self.name, arguments[a.blocks.table.argument])
        elif s.order == "dynamic":
            scratch = [launch_counter(self.name, self.workers)]
        if s.splits > 1:
            sums, counters = self.tiles * s.splits * InMemory.size(tile_rows(s, t.queries.size), t.width.size), self.tiles * adders(s, a)
        elif s.order == "even":
            counters = (self.workers + 1) * s.consumers
            sums = counters * 2 * 128 * Meeting.numbers(t.width.size)
        if self.adds_up:
            scratch = [pointer(temporary((sums,), ir.F32Type.get())), pointer(temporary((counters,), integer_type(64)))]
        parameters = [*maps, *(pointer(arguments[x]) for x in self.plain), *self.sizes(arguments), *scratch]
        launch(f"{self.name}_gpu", self.name, parameters, (self.workers * s.shares, 1, 1), (s.threads, 1, 1), (s.parts, 1, 1), self.layout.total)

    def operand_map(self, buffer: ir.Value, copied: Copied, rows: int) -> ir.Value:
        """The map of queries, keys or values.  What few queries read once comes to L2 by lines of 128 bytes: 64x32x4096x128 of 8 heads of keys took
        246 us, and 259 with neighbours fetched too; 64x32x512x128 35.4 and 36.5."""
        rows = rows if copied.pages is None else min(rows, copied.pages.rows)
        box = [self.schedule.line, transposed_lines(copied) if copied.transposed else rows] + [1] * (len(copied.axes) - 2)
        element = self.kernel.q.element
        return tensor_map(
            buffer, sizes=[x.size for x in copied.axes], strides=[element_bytes(element) * x for x in copied.strides], box=box, element=str(element),
            l2=128 if most_rows(self.kernel.queries.size) <= FEW_ROWS else 256,
        )

    @property
    def adds_up(self) -> bool:
        """Whether blocks of threads leave sums in memory for others."""
        return self.schedule.splits > 1 or self.schedule.order == "even"

    @property
    def symbols(self) -> list[Symbol]:
        """The kernel's sizes that vary."""
        return list(symbol_arguments(self.kernel.module.body.operations[0].operation))

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread of the producer's and of a consumer's."""
        s = self.schedule
        if s.cut:
            return _OF_TWO if s.resident == 2 else _OF_CUTS[s.consumers]
        return _OF_PAGES if self.kernel.pages and s.pieces == 1 else REGISTERS[s.consumers]

    def sizes(self, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """These as parameters, of a launcher's arguments."""
        return [scalar(arguments[v.arg_number]) for v in symbol_arguments(self.kernel.module.body.operations[0].operation).values()]

    # The kernel.

    def emit(self, module: ir.Block) -> None:
        s, words = self.schedule, self.words
        pointers = [  # a cache is read by the copy engine, too
            "!llvm.ptr<1>" if x in self.caches else READ_BUFFER if readonly else WRITTEN_BUFFER
            for x, (_, readonly) in self.plain.items()
        ]
        emit_copies(words, module, self.name, self.kernel.writes)
        count = self.maps + len(self.stores) + len(self.brought)
        if s.pieces > 1 and not s.cut:
            self.pieces.emit(module, self.name, self.symbols)
        scratch = ["!llvm.ptr<1>"] * (2 if self.adds_up else 1 if s.order == "dynamic" else 0)
        lists = []
        if self.lists is not None:
            self.lists.emit(module, self.name)
            lists = [READ_BUFFER]
        elif s.order == "dynamic":
            emit_counter(words, module, self.name)
        sizes = ["i64"] * len(self.symbols)
        with device_kernel(module, self.name, [*[TENSOR_MAP] * count, *pointers, *sizes, *lists, *scratch], s.threads, s.parts, True, s.resident) as device:
            words.take(self.symbols, device.parameters[count + len(pointers):])
            behind = count + len(pointers) + len(sizes)
            frame = self.frame(device, count, laid_at(self.lists, device.parameters[behind]) if lists else None)
            with only_if(words.equal(frame.thread, 0)):
                frame.initialize(device.parameters[:count])
            nvvm.BarrierOp()
            # From here on global memory is read and written (see ``await-kernels``).
            await_predecessors()
            if self.tiling.writes:
                CacheWriter(frame).emit()
            role = scf.IfOp(words.equal(frame.warpgroup, 0), has_else=True)
            few, many = self.registers
            with ir.InsertionPoint(role.then_block):
                nvvm.SetMaxRegisterOp(few, ir.Attribute.parse("#nvvm<action decrease>"))
                if s.cut:
                    CuttingProducer(frame).emit()
                else:
                    with only_if(arith.andi(words.equal(frame.warp, 0), elect())):
                        Producer(frame).emit()
                if s.parts > 1:
                    meet_parts()
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(many, ir.Attribute.parse("#nvvm<action increase>"))
                consumer = WarpConsumer if s.warp_rows else Consumer if s.pieces == 1 else ExactConsumer
                consumer(frame, dict(zip(self.stores, device.parameters[self.maps:]))).emit()
                scf.yield_([])
            if s.parts > 1:  # shared memory must stay until the first one is done with it
                meet_parts()

    def frame(self, device: Device, count: int, lists: LaidLists | None) -> Frame:
        words, thread = self.words, special_register("tid.x")
        tensors = {
            x: Elements(words, p, element, readonly)
            for (x, (element, readonly)), p in zip(self.plain.items(), device.parameters[count:])
        }
        s = self.schedule
        several = s.parts > 1
        worker, split = special_register("clusterid.x" if several else "ctaid.x"), 0
        if s.splits > 1:
            worker, split = words.div(worker, s.splits), words.rem(worker, s.splits)
        return Frame(
            words, self.kernel, self.tiling, self.schedule, self.layout, device.shared, device.parameters[:self.maps], tensors, thread,
            uniform(words, words.shr(thread, 5)), worker, self.workers,
            device.parameters[-1] if s.order == "dynamic" else None, bool(self.stores), split,
            special_register("cluster.ctarank") if several else 0, device.parameters[-2:] if self.adds_up else (), lists,
            self.brought, device.parameters[self.maps + len(self.stores):count],
        )

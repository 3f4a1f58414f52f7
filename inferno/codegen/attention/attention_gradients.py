"""Attention's gradients on Hopper's tensor cores: warp-specialised, with neither weights nor their gradients in memory.

After the backward of FlashAttention (Dao, "FlashAttention-2", 2023), as two kernels, each of which computes the weights for itself: so no result
is added up in memory, and every launch gives the same bits.  One thread of warpgroup 0 starts the copies
(``gradients_producer``); each of the others has 64 rows and walks over the blocks of columns (``gradients_consumer``).

Or the first kernel leaves gradients of scores in memory for the second one (``gradients_kept``), or it adds up the gradients of queries there, in
turns (``gradients_added``), and the last one rounds the sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from inferno.codegen.attention.attention import REGISTERS
from inferno.codegen.attention.blocks import BlockLists, laid_at
from inferno.codegen.attention.gradients_added import Added, AddingConsumer
from inferno.codegen.attention.gradients_block import Block
from inferno.codegen.attention.gradients_consumer import Consumer, result_of, stored
from inferno.codegen.attention.gradients_frame import Frame
from inferno.codegen.attention.gradients_producer import Producer
from inferno.codegen.attention.gradients_queries import Queries
from inferno.codegen.attention.gradients_rounded import Rounded
from inferno.codegen.attention.masks import mask_map
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.launcher import launch, launcher, pointer, scalar, size, temporary, tensor_map
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul.tile_numbers import emit_counter, launch_counter
from inferno.codegen.nvvm.builder import READ_BUFFER, TENSOR_MAP, WRITTEN_BUFFER, Words, device_kernel, device_module, elect
from inferno.codegen.nvvm.filled_words import add_filling, launch_filled
from inferno.codegen.nvvm.global_memory import Elements
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.await_kernels import await_predecessors
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.attention_gradients import AttentionGradients, GradientTiling, brought_masks, fits, heads_at_a_time, read
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.kept_scores import QuerySums, heads_together, kept_line, lies_in_blocks, query_sums
from inferno.schedule.attention.schedule import LINE
from inferno.schedule.attention.tiling import Copied
from inferno.schedule.tiles.result_parts import StoreMap, columns_together, store_maps
from inferno.target import Target

Roles = tuple[Callable[[], None], Callable[[], None], Callable[[], None]]
"""Of a kernel: what one thread does first, the thread that copies, and the consumers."""
Plain = dict[int, tuple[ir.Type, bool]]
"""Tensors that are read or written without the copy engine: argument -> (element, only read)."""


def generate(kernel: func.FuncOp, schedule: AttentionGradients, target: Target) -> None:
    """Add the ``gpu.module`` of the gradients and make ``kernel`` its launcher."""
    found = read(kernel, target)
    if found is None:
        raise CompileError(f"@{kernel.name.value} is no gradient of attention for tensor cores")
    g, tiling = found
    if not fits(schedule, g, target):
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more shared memory or registers than there are")
    whole = g.blocks.whole.score if g.blocks is not None and g.blocks.whole.differs else None
    for map_ in (g.score, whole, g.of_totals, g.gradient, *(r.epilogue for r in g.results)):
        if map_ is not None:
            recognise_maximum(map_.generic)
            expand_math(map_.generic)
    emitter = Emitter(kernel.name.value, g, tiling, schedule, target)
    with device_module(kernel) as module:
        emitter.emit(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments)


@dataclass(frozen=True)
class _Kernel:
    """One of the device's: of ``blocks`` blocks, each of one warpgroup that copies and ``consumers`` that multiply.  ``copied``: how many tensor maps it has
    beside those of results.  ``counts``: tiles are given out by a counter.  ``group``: positions of its grid for each one of the kernel of keys."""

    name: str
    copied: int
    stores: dict[int, StoreMap]
    plain: Plain
    blocks: int
    counts: bool
    consumers: int
    shared: int
    group: int = 1


@dataclass
class Emitter:
    name: str
    kernel: AttentionGradient
    tiling: GradientTiling
    schedule: AttentionGradients
    target: Target

    def __post_init__(self) -> None:
        g, t, s = self.kernel, self.tiling, self.schedule
        self.words = Words({})
        # Positions of the grid that a launch computes.
        self.heads = t.heads if g.queries is None or s.adds else heads_together(g)
        self.layout = s.shared(g)
        self.adds = s.adds > 0
        rows = ceil(t.rows.size / s.rows)
        blocks = heads_at_a_time(s, t, self.target) * rows if self.adds else min(self.target.multiprocessors, self.heads * rows)
        self.lists = None if g.blocks is None else BlockLists(self.words, g.blocks, t.grid, t.columns.size, s.columns, g.transposed)
        self.brought = brought_masks(g, t) if s.masks else []
        copied, extras = 4 + (g.queries is not None and not s.adds) + len(self.brought), [x for x in g.extras if x not in [b.access for b in self.brought]]
        self.keys = _Kernel(self.name, copied, *_tensors(g, t, s, extras), blocks, s.order == "dynamic", s.consumers, self.layout.total)
        if self.adds:
            self.rounded = Rounded(self.words, g.queries, t.queries)
            form = self.rounded.form
            plain = _tensors(g.queries, t.queries, form, stored(g.queries, 0).extras)
            self.queries = _Kernel(f"{self.name}_queries", 0, *plain, self.rounded.blocks, False, form.consumers, self.rounded.shared)
        elif g.queries is not None:
            sums, group = query_sums(g.queries, self.target), t.queries.heads // t.heads
            tiles = self.heads * group * ceil(t.queries.rows.size / sums.rows)
            blocks = min(self.target.multiprocessors, tiles)
            plain, counts = _tensors(g.queries, t.queries, sums, stored(g.queries, 0).extras), g.band is not None and tiles > blocks
            self.sums = sums
            self.queries = _Kernel(f"{self.name}_queries", 2, *plain, blocks, counts, sums.consumers, sums.shared(g.queries.depth.size).total, group)

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        g, t, s = self.kernel, self.tiling, self.schedule
        maps = [
            self.operand_map(arguments[o.access.argument], copied, rows)
            for pair, axes, rows in ((g.stationary, t.stationary, 64), (g.streamed, t.streamed, s.columns)) for o, copied in zip(pair, axes)
        ]
        masks = [mask_map(arguments[b.access.argument], b, s.mask_slot(g.transposed)) for b in self.brought]
        results = self.store_maps(self.keys.stores, g, t, s, arguments)
        if g.queries is None:
            self.launch_one(self.keys, [*maps, *masks, *results], arguments, [])
            return
        if self.adds:
            self.launch_added([*maps, *masks, *results], arguments)
            return
        q, of_q, sums = g.queries, t.queries, self.sums
        if g.of_scores is None:
            kept = temporary((self.heads * g.outer.size * g.columns.size * kept_line(g),), q.streamed[0].element)
        else:
            kept = arguments[g.of_scores]
        keys = self.operand_map(arguments[q.streamed[0].access.argument], of_q.streamed[0], sums.columns)
        of_queries = [self.kept_map(kept, sums.rows), keys, *self.store_maps(self.queries.stores, q, of_q, sums, arguments)]
        of_keys = [*maps, self.kept_map(kept, s.columns), *masks, *results]
        for begin in range(0, t.heads, self.heads):
            first = [scalar(size(begin))] if self.heads < t.heads else []
            self.launch_one(self.keys, of_keys, arguments, first)
            self.launch_one(self.queries, of_queries, arguments, first)

    def launch_added(self, maps: Sequence[ir.Value], arguments: Sequence[ir.Value]) -> None:
        """The kernel that adds gradients of queries up, between one that makes its counters 0 and one that rounds the sums."""
        kernel, last, g, t = self.keys, self.queries, self.kernel.queries, self.tiling.queries
        counters = launch_filled(f"{self.name}_gpu", f"{self.name}_counters", self.counters, 32)
        sums = pointer(temporary((last.blocks * 64 * g.depth.size,), ir.F32Type.get()))
        parameters = [*maps, *(pointer(arguments[x]) for x in kernel.plain), sums, counters]
        threads = 128 * (kernel.consumers + 1)
        launch(f"{self.name}_gpu", kernel.name, parameters, (kernel.blocks, 1, 1), (threads, 1, 1), shared=kernel.shared, cooperative=True)
        parameters = [*self.store_maps(last.stores, g, t, self.rounded.form, arguments), *(pointer(arguments[x]) for x in last.plain), sums]
        launch(f"{self.name}_gpu", last.name, parameters, (last.blocks, 1, 1), (self.rounded.threads, 1, 1), shared=last.shared)

    @property
    def counters(self) -> int:
        """One of each consumer's part of each block of queries."""
        return self.queries.blocks * 64 // self.schedule.columns * self.schedule.consumers

    def launch_one(self, kernel: _Kernel, maps: Sequence[ir.Value], arguments: Sequence[ir.Value], first: Sequence[ir.Value]) -> None:
        lists = [] if self.lists is None else self.lists.launch(self.name, arguments[self.kernel.blocks.table.argument])
        counter = [launch_counter(self.name, kernel.blocks)] if kernel.counts else []
        parameters = [*maps, *(pointer(arguments[x]) for x in kernel.plain), *first, *lists, *counter]
        threads = 128 * (kernel.consumers + 1)
        launch(f"{self.name}_gpu", kernel.name, parameters, (kernel.blocks, 1, 1), (threads, 1, 1), (1, 1, 1), kernel.shared)

    def store_maps(
        self, stores: dict[int, StoreMap], g: AttentionGradient, t: GradientTiling, s: AttentionGradients | QuerySums, arguments: Sequence[ir.Value],
    ) -> list[ir.Value]:
        found = []
        for i, m in stores.items():
            access = g.results[i].destination.access
            together, width = columns_together(stored(g, i), *result_of(t, s, i, True)), element_bytes(access.element)
            found.append(tensor_map(
                arguments[access.argument], sizes=[x.size for x in m.axes], strides=[x * width for x in m.strides],
                box=[together, 64] + [1] * (len(m.axes) - 2), element=str(access.element), swizzle=together * width, l2=0,
            ))
        return found

    def kept_map(self, buffer: ir.Value, together: int) -> ir.Value:
        """Of the gradients of scores that are kept; those of ``together`` queries are copied at a time."""
        g = self.kernel
        keys, queries, line, count = g.rows.size, g.columns.size, 2 * kept_line(g), self.heads * g.outer.size
        sizes = [keys, queries, count]
        if lies_in_blocks(g, self.schedule.rows):
            sizes, line = [LINE, queries, keys // LINE * count], 2 * LINE
        return tensor_map(
            buffer, sizes=sizes, strides=[2, line, line * queries], box=[LINE, together, 1], element=str(g.streamed[0].element), l2=0,
        )

    def operand_map(self, buffer: ir.Value, copied: Copied, rows: int) -> ir.Value:
        return tensor_map(
            buffer, sizes=[x.size for x in copied.axes], strides=[2 * x for x in copied.strides], box=[LINE, rows] + [1] * (len(copied.axes) - 2),
            element=str(self.kernel.streamed[0].element),
        )

    # The kernels.

    def emit(self, module: ir.Block) -> None:
        g, t, s = self.kernel, self.tiling, self.schedule
        if self.lists is not None:
            self.lists.emit(module, self.name)
        both = [self.keys] if g.queries is None or self.adds else [self.keys, self.queries]
        if any(kernel.counts for kernel in both):
            emit_counter(self.words, module, self.name)

        def of_keys(block: Block) -> Roles:
            frame = Frame(block, g, t, s, self.layout, self.brought)
            if self.adds:
                added = Added(frame, *block.added)
                producer = Producer(frame, added.numbers)
                return lambda: block.initialize(frame.columns, frame.rows, added), producer.emit, lambda: AddingConsumer(frame, added).emit(), added.add_each
            return lambda: block.initialize(frame.columns, frame.rows), Producer(frame).emit, lambda: Consumer(frame).emit()

        def of_queries(block: Block) -> Roles:
            queries = Queries(block, g.queries, g, s.rows, t.queries, self.sums)
            return lambda: block.initialize(queries.slots, queries.turns), queries.produce, queries.consume

        for kernel, make in zip(both, (of_keys, of_queries)):
            self.emit_roles(module, kernel, make)
        if self.adds:
            add_filling(module.owner, f"{self.name}_counters", self.counters, 32, 0)
            self.emit_rounded(module)

    def emit_roles(self, module: ir.Block, kernel: _Kernel, make: Callable[[Block], Roles]) -> None:
        """A kernel in which each role does what ``make`` says."""
        words, several, maps = self.words, self.heads < self.tiling.heads, kernel.copied + len(kernel.stores)
        readonly = [readonly for _, readonly in kernel.plain.values()]
        pointers = [READ_BUFFER if only else WRITTEN_BUFFER for only in readonly]
        lists = [] if self.lists is None else [READ_BUFFER]
        types = [*[TENSOR_MAP] * maps, *pointers, *["i64"] * several, *lists, *["!llvm.ptr<1>"] * (2 * self.adds or kernel.counts)]
        with device_kernel(module, kernel.name, types, 128 * (kernel.consumers + 1), 1, True) as device:
            given = device.parameters
            tensors = {x: Elements(words, p, element, only) for (x, (element, only)), p in zip(kernel.plain.items(), given[maps:])}
            begin = arith.trunci(words.type, given[maps + len(kernel.plain)]) if several else 0
            block = Block(
                words, device.shared, given[:kernel.copied], dict(zip(kernel.stores, given[kernel.copied:])), tensors, kernel.blocks,
                given[-1] if kernel.counts else None, self.heads * kernel.group, words.mul(begin, kernel.group),
                laid_at(self.lists, given[maps + len(kernel.plain) + several]) if lists else None, given[-2:] if self.adds else None,
            )
            initialize, produce, consume, *add = make(block)
            with only_if(words.equal(block.thread, 0)):
                initialize()
            nvvm.BarrierOp()
            # From here on global memory is read and written (see ``await-kernels``).
            await_predecessors()
            role = scf.IfOp(words.equal(words.shr(block.warp, 2), 0), has_else=True)
            few, many = REGISTERS[kernel.consumers]
            with ir.InsertionPoint(role.then_block):
                nvvm.SetMaxRegisterOp(few, ir.Attribute.parse("#nvvm<action decrease>"))
                with only_if(arith.andi(words.equal(block.warp, 0), elect())):
                    produce()
                for consumer in range(len(add) * kernel.consumers):
                    with only_if(arith.andi(words.equal(block.warp, 1 + consumer), elect())):
                        add[0](consumer)
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(many, ir.Attribute.parse("#nvvm<action increase>"))
                consume()
                scf.yield_([])

    def emit_rounded(self, module: ir.Block) -> None:
        kernel, words, maps = self.queries, self.words, len(self.queries.stores)
        pointers = [READ_BUFFER if only else WRITTEN_BUFFER for _, only in kernel.plain.values()]
        types = [*[TENSOR_MAP] * maps, *pointers, READ_BUFFER]
        with device_kernel(module, kernel.name, types, self.rounded.threads, shared=True) as device:
            given = device.parameters
            tensors = {x: Elements(words, p, element, only) for (x, (element, only)), p in zip(kernel.plain.items(), given[maps:])}
            await_predecessors()
            self.rounded.emit(device.shared, given[-1], tensors, dict(zip(kernel.stores, given)))


def _tensors(g: AttentionGradient, t: GradientTiling, s: AttentionGradients | QuerySums, extras: Sequence[Access]) -> tuple[dict[int, StoreMap], Plain]:
    """Tensor maps of the results that the copy engine writes, by number, and what is read and written without it."""
    stores = {i: m for i in range(len(g.results)) for m in store_maps(stored(g, i), *result_of(t, s, i, True)).values()}
    written = {r.destination.access.argument: r.destination.access for r in g.results}
    plain = {x.argument: x.element for x in extras}
    plain.update({r.destination.access.argument: r.destination.access.element for i, r in enumerate(g.results) if i not in stores})
    return stores, {x: (plain[x], x not in written) for x in sorted(plain)}

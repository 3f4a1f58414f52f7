"""Attention's gradients on Hopper's tensor cores: warp-specialised, with neither weights nor their gradients in memory.

After the backward of FlashAttention (Dao, "FlashAttention-2", 2023), as two kernels, each of which computes the weights for itself: so no result
is added up in memory, and every launch gives the same bits.  One thread of warpgroup 0 starts the copies
(``attention_gradients_producer``); each of the others has 64 rows and walks over the blocks of columns (``attention_gradients_consumer``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from inferno.codegen.attention import REGISTERS
from inferno.codegen.attention_gradients_consumer import Consumer, result_of, stored
from inferno.codegen.attention_gradients_frame import Frame
from inferno.codegen.attention_gradients_producer import Producer
from inferno.codegen.attention_gradients_queries import Queries
from inferno.codegen.expand_math import expand_math
from inferno.codegen.global_memory import Elements
from inferno.codegen.gpu_function import element_bytes
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import launch, launcher, pointer, scalar, size, temporary, tensor_map
from inferno.codegen.minmax import recognise_maximum
from inferno.codegen.nvvm_builder import TENSOR_MAP, Device, Words, device_kernel, device_module, elect, only_if, special_register, uniform
from inferno.codegen.tile_numbers import emit_counter, launch_counter
from inferno.schedule.result_parts import StoreMap, columns_together, store_maps
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.schedule.accesses import Access
from inferno.schedule.attention import LINE, Copied
from inferno.schedule.attention_gradient_kernel import AttentionGradient
from inferno.schedule.attention_gradients import AttentionGradients, GradientTiling, fits, read
from inferno.schedule.kept_scores import QuerySums, heads_together, kept_line, lies_in_blocks, query_sums
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
    for map_ in (g.score, g.gradient, *(r.epilogue for r in g.results)):
        if map_ is not None:
            recognise_maximum(map_.generic)
            expand_math(map_.generic)
    emitter = Emitter(kernel.name.value, g, tiling, schedule, target)
    with device_module(kernel) as module:
        emitter.emit(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments)


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
        # Positions of the grid that a launch computes, and for each those of the grid of queries.
        self.heads, self.group = t.heads if g.queries is None else heads_together(g), 1
        self.blocks = min(self.target.multiprocessors, self.heads * ceil(t.rows.size / s.rows))
        self.counts, self.counts_queries = s.order == "dynamic", False
        self.stores, self.plain = _tensors(g, t, s, g.extras)
        self.layout = s.shared(g)
        if g.queries is not None:
            self.sums, self.group = query_sums(g.queries, self.target), t.queries.heads // t.heads
            tiles = self.heads * self.group * ceil(t.queries.rows.size / self.sums.rows)
            self.query_blocks = min(self.target.multiprocessors, tiles)
            self.counts_queries = g.band is not None and tiles > self.query_blocks
            self.query_stores, self.query_plain = _tensors(g.queries, t.queries, self.sums, stored(g.queries, 0).extras)

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        g, t, s = self.kernel, self.tiling, self.schedule
        maps = [
            self.operand_map(arguments[o.access.argument], copied, rows)
            for pair, axes, rows in ((g.stationary, t.stationary, 64), (g.streamed, t.streamed, s.columns)) for o, copied in zip(pair, axes)
        ]
        maps += self.store_maps(self.stores, g, t, s, arguments)
        own = f"{self.name}_gpu"
        if g.queries is None:
            counter = [launch_counter(self.name, self.blocks)] if self.counts else []
            parameters = [*maps, *(pointer(arguments[x]) for x in self.plain), *counter]
            launch(own, self.name, parameters, (self.blocks, 1, 1), (s.threads, 1, 1), (1, 1, 1), self.layout.total)
            return
        q, of_q, sums = g.queries, t.queries, self.sums
        kept = temporary((self.heads * g.outer.size * g.columns.size * kept_line(g),), q.streamed[0].element)
        keys = self.operand_map(arguments[q.streamed[0].access.argument], of_q.streamed[0], sums.columns)
        of_queries = [self.kept_map(kept, sums.rows, of_q.rows.size, self.group), keys, *self.store_maps(self.query_stores, q, of_q, sums, arguments)]
        maps.append(self.kept_map(kept, s.columns, g.columns.size, g.outer.size))
        for begin in range(0, t.heads, self.heads):
            first = [scalar(size(begin))] if self.heads < t.heads else []
            counter = [launch_counter(self.name, self.blocks)] if self.counts else []
            parameters = [*maps, *(pointer(arguments[x]) for x in self.plain), *first, *counter]
            launch(own, self.name, parameters, (self.blocks, 1, 1), (s.threads, 1, 1), (1, 1, 1), self.layout.total)
            counter = [launch_counter(self.name, self.query_blocks)] if self.counts_queries else []
            parameters = [*of_queries, *(pointer(arguments[x]) for x in self.query_plain), *first, *counter]
            shared = sums.shared(q.depth.size).total
            launch(own, f"{self.name}_queries", parameters, (self.query_blocks, 1, 1), (sums.threads, 1, 1), (1, 1, 1), shared)

    def store_maps(
        self, stores: dict[int, StoreMap], g: AttentionGradient, t: GradientTiling, s: AttentionGradients | QuerySums, arguments: Sequence[ir.Value],
    ) -> list[ir.Value]:
        found = []
        for i, m in stores.items():
            access = g.results[i].destination.access
            together, width = columns_together(stored(g, i), *result_of(g, t, s, i, True)), element_bytes(access.element)
            found.append(tensor_map(
                arguments[access.argument], sizes=[x.size for x in m.axes], strides=[x * width for x in m.strides],
                box=[together, 64] + [1] * (len(m.axes) - 2), element=str(access.element), swizzle=together * width, l2=0,
            ))
        return found

    def kept_map(self, buffer: ir.Value, together: int, queries: int, heads: int) -> ir.Value:
        """Of the gradients of scores that are kept, of ``queries`` of each of ``heads`` that share keys; those of ``together`` are copied at a time."""
        keys, line, count = self.kernel.rows.size, 2 * kept_line(self.kernel), self.heads * heads
        sizes = [keys, queries, count]
        if lies_in_blocks(self.kernel, self.schedule.rows):
            sizes, line = [LINE, queries, keys // LINE * count], 2 * LINE
        return tensor_map(
            buffer, sizes=sizes, strides=[2, line, line * queries], box=[LINE, together, 1], element=str(self.kernel.streamed[0].element), l2=0,
        )

    def operand_map(self, buffer: ir.Value, copied: Copied, rows: int) -> ir.Value:
        return tensor_map(
            buffer, sizes=[x.size for x in copied.axes], strides=[2 * x for x in copied.strides], box=[LINE, rows] + [1] * (len(copied.axes) - 2),
            element=str(self.kernel.streamed[0].element),
        )

    # The kernels.

    def emit(self, module: ir.Block) -> None:
        g, t, s, words = self.kernel, self.tiling, self.schedule, self.words
        if self.counts or self.counts_queries:
            emit_counter(words, module, self.name)
        maps = 4 + len(self.stores) + (g.queries is not None)

        def of_keys(device: Device, tensors: dict[int, Elements], begin: Integer, counter: ir.Value | None) -> Roles:
            frame = Frame(
                words, g, t, s, self.layout, device.shared, device.parameters[:4], tensors, *_place(words), self.blocks, counter, self.heads, begin,
            )
            stores = dict(zip(self.stores, device.parameters[4:]))
            kept = device.parameters[maps - 1] if g.queries is not None else None
            return lambda: frame.initialize(device.parameters[:maps]), Producer(frame).emit, lambda: Consumer(frame, stores, kept).emit()

        def of_queries(device: Device, tensors: dict[int, Elements], begin: Integer, counter: ir.Value | None) -> Roles:
            stores = dict(zip(self.query_stores, device.parameters[2:]))
            queries = Queries(
                words, g.queries, g, s.rows, t.queries, self.sums, device.shared, device.parameters[:2], stores, tensors, *_place(words),
                self.query_blocks, counter, self.heads * self.group, words.mul(begin, self.group),
            )
            return queries.initialize, queries.produce, queries.consume

        self.emit_roles(module, self.name, maps, self.plain, self.counts, s.consumers, of_keys)
        if g.queries is not None:
            self.emit_roles(
                module, f"{self.name}_queries", 2 + len(self.query_stores), self.query_plain, self.counts_queries, self.sums.consumers, of_queries,
            )

    def emit_roles(
        self, module: ir.Block, name: str, maps: int, plain: Plain, counts: bool, consumers: int,
        make: Callable[[Device, dict[int, Elements], Integer, ir.Value | None], Roles],
    ) -> None:
        """A kernel of one warpgroup that copies and ``consumers`` that multiply, and what ``make`` says that these do."""
        words, several = self.words, self.heads < self.tiling.heads
        pointers = ["!llvm.ptr<1> {llvm.noalias, llvm.readonly}" if readonly else "!llvm.ptr<1> {llvm.noalias}" for _, readonly in plain.values()]
        types = [*[TENSOR_MAP] * maps, *pointers, *["i64"] * several, *["!llvm.ptr<1>"] * counts]
        with device_kernel(module, name, types, 128 * (consumers + 1), 1, True) as device:
            tensors = {x: Elements(words, p, element, readonly) for (x, (element, readonly)), p in zip(plain.items(), device.parameters[maps:])}
            begin = arith.trunci(words.type, device.parameters[maps + len(plain)]) if several else 0
            initialize, produce, consume = make(device, tensors, begin, device.parameters[-1] if counts else None)
            thread, warp, _ = _place(words)
            with only_if(words.equal(thread, 0)):
                initialize()
            nvvm.BarrierOp()
            # From here on global memory is read and written (see ``await-kernels``).
            for action in ("wait", "launch_dependents"):
                nvvm.GriddepcontrolOp(nvvm.GridDepActionKind[action])
            role = scf.IfOp(words.equal(words.shr(warp, 2), 0), has_else=True)
            few, many = REGISTERS[consumers]
            with ir.InsertionPoint(role.then_block):
                nvvm.SetMaxRegisterOp(few, ir.Attribute.parse("#nvvm<action decrease>"))
                with only_if(arith.andi(words.equal(warp, 0), elect())):
                    produce()
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(many, ir.Attribute.parse("#nvvm<action increase>"))
                consume()
                scf.yield_([])


def _place(words: Words) -> tuple[ir.Value, ir.Value, ir.Value]:
    """This thread, its warp, which is uniform, and the block."""
    thread = special_register("tid.x")
    return thread, uniform(words, words.shr(thread, 5)), special_register("ctaid.x")


def _tensors(g: AttentionGradient, t: GradientTiling, s: AttentionGradients | QuerySums, extras: Sequence[Access]) -> tuple[dict[int, StoreMap], Plain]:
    """Tensor maps of the results that the copy engine writes, by number, and what is read and written without it."""
    stores = {i: m for i in range(len(g.results)) for m in store_maps(stored(g, i), *result_of(g, t, s, i, True)).values()}
    written = {r.destination.access.argument: r.destination.access for r in g.results}
    plain = {x.argument: x.element for x in extras}
    plain.update({r.destination.access.argument: r.destination.access.element for i, r in enumerate(g.results) if i not in stores})
    return stores, {x: (plain[x], x not in written) for x in sorted(plain)}

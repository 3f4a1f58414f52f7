"""Attention's gradients on Hopper's tensor cores: warp-specialised, with neither weights nor their gradients in memory.

After the backward of FlashAttention (Dao, "FlashAttention-2", 2023), as two kernels, each of which computes the weights for itself: so no result
is added up in memory, and every launch gives the same bits.  One thread of warpgroup 0 starts the copies
(``attention_gradients_producer``); each of the others has 64 rows and walks over the blocks of columns (``attention_gradients_consumer``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.attention import REGISTERS
from inferno.codegen.attention_gradients_consumer import Consumer, result_of, stored
from inferno.codegen.attention_gradients_frame import Frame
from inferno.codegen.attention_gradients_producer import Producer
from inferno.codegen.expand_math import expand_math
from inferno.codegen.global_memory import Elements
from inferno.codegen.gpu_function import element_bytes
from inferno.codegen.launcher import launch, launcher, pointer, tensor_map
from inferno.codegen.minmax import recognise_maximum
from inferno.codegen.nvvm_builder import TENSOR_MAP, Device, Words, device_kernel, device_module, elect, only_if, special_register, uniform
from inferno.codegen.tile_numbers import emit_counter, launch_counter
from inferno.schedule.result_parts import StoreMap, columns_together, store_maps
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.schedule.attention import LINE, Copied
from inferno.schedule.attention_gradient_kernel import AttentionGradient
from inferno.schedule.attention_gradients import AttentionGradients, GradientTiling, fits, read
from inferno.target import Target



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
        self.blocks = min(self.target.multiprocessors, t.tiles(s))
        self.counts = s.order == "dynamic"
        # Tensor maps of the results that the copy engine writes, by number.
        self.stores: dict[int, StoreMap] = {}
        for i in range(len(g.results)):
            for m in store_maps(stored(g, i), *result_of(g, t, s, i, True)).values():
                self.stores[i] = m
        written = {r.destination.access.argument: r.destination.access for r in g.results}
        plain = {x.argument: x.element for x in g.extras}
        plain.update({r.destination.access.argument: r.destination.access.element for i, r in enumerate(g.results) if i not in self.stores})
        # Tensors that are read or written without the copy engine: argument -> (element, only read).
        self.plain = {x: (plain[x], x not in written) for x in sorted(plain)}
        self.layout = s.shared(g)

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        g, t, s = self.kernel, self.tiling, self.schedule
        maps = [
            self.operand_map(arguments[o.access.argument], copied, rows)
            for pair, axes, rows in ((g.stationary, t.stationary, 64), (g.streamed, t.streamed, s.columns)) for o, copied in zip(pair, axes)
        ]
        for i, m in self.stores.items():
            access = g.results[i].destination.access
            together, size = columns_together(stored(g, i), *result_of(g, t, s, i, True)), element_bytes(access.element)
            maps.append(tensor_map(
                arguments[access.argument], sizes=[x.size for x in m.axes], strides=[x * size for x in m.strides],
                box=[together, 64] + [1] * (len(m.axes) - 2), element=str(access.element), swizzle=together * size, l2=0,
            ))
        if t.kept is not None:
            maps.append(self.operand_map(arguments[g.kept.argument], t.kept, s.columns))
        counter = [launch_counter(self.name, self.blocks)] if self.counts else []
        parameters = [*maps, *(pointer(arguments[x]) for x in self.plain), *counter]
        launch(f"{self.name}_gpu", self.name, parameters, (self.blocks, 1, 1), (s.threads, 1, 1), (1, 1, 1), self.layout.total)

    def operand_map(self, buffer: ir.Value, copied: Copied, rows: int) -> ir.Value:
        return tensor_map(
            buffer, sizes=[x.size for x in copied.axes], strides=[2 * x for x in copied.strides], box=[LINE, rows] + [1] * (len(copied.axes) - 2),
            element=str(self.kernel.streamed[0].element),
        )

    # The kernel.

    def emit(self, module: ir.Block) -> None:
        s, words = self.schedule, self.words
        pointers = [
            "!llvm.ptr<1> {llvm.noalias, llvm.readonly}" if readonly else "!llvm.ptr<1> {llvm.noalias}" for _, readonly in self.plain.values()
        ]
        stores = 4 + len(self.stores)
        count, counter = stores + (self.tiling.kept is not None), []
        if self.counts:
            counter = ["!llvm.ptr<1>"]
            emit_counter(words, module, self.name)
        with device_kernel(module, self.name, [*[TENSOR_MAP] * count, *pointers, *counter], s.threads, 1, True) as device:
            frame = self.frame(device, count)
            with only_if(words.equal(frame.thread, 0)):
                frame.initialize(device.parameters[:count])
            nvvm.BarrierOp()
            # From here on global memory is read and written (see ``await-kernels``).
            for action in ("wait", "launch_dependents"):
                nvvm.GriddepcontrolOp(nvvm.GridDepActionKind[action])
            role = scf.IfOp(words.equal(frame.warpgroup, 0), has_else=True)
            few, many = REGISTERS[s.consumers]
            with ir.InsertionPoint(role.then_block):
                nvvm.SetMaxRegisterOp(few, ir.Attribute.parse("#nvvm<action decrease>"))
                with only_if(arith.andi(words.equal(frame.warp, 0), elect())):
                    Producer(frame).emit()
                scf.yield_([])
            with ir.InsertionPoint(role.else_block):
                nvvm.SetMaxRegisterOp(many, ir.Attribute.parse("#nvvm<action increase>"))
                Consumer(frame, dict(zip(self.stores, device.parameters[4:stores])), device.parameters[stores:count]).emit()
                scf.yield_([])

    def frame(self, device: Device, count: int) -> Frame:
        words, thread = self.words, special_register("tid.x")
        tensors = {
            x: Elements(words, p, element, readonly)
            for (x, (element, readonly)), p in zip(self.plain.items(), device.parameters[count:])
        }
        return Frame(
            words, self.kernel, self.tiling, self.schedule, self.layout, device.shared, device.parameters[:4], tensors, thread,
            uniform(words, words.shr(thread, 5)), special_register("ctaid.x"), self.blocks,
            device.parameters[-1] if self.counts else None,
        )

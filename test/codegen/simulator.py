"""Run the ``gpu`` stage without a GPU: every thread of a launch at once, an operation at a time, on numpy arrays.

A value is an array with one entry a thread.  Checked on the way: accesses in bounds, no writes to read-only parameters, no
two threads that store to one place in one step.  Memory starts as NaN.  Barriers need no code, since threads run in step.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from simulated_arithmetic import from_bf16, prepare, stored_dtype, to_bf16

from inferno.mlir import ir, walk
from inferno.runtime.plan.plan import Buffer, Launch, Plan, Scalar, TensorMap, at_sizes
from inferno.runtime.call.sizes import size_reader

_DYNAMIC = ir.ShapedType.get_dynamic_size()

# By MLIR's number: what is done, and to which kind of integers.
_ATOMICS = {
    0: (np.add, "i"), 1: (np.add, "i"), 3: (lambda old, new: new, "i"),
    6: (np.maximum, "i"), 7: (np.maximum, "u"), 10: (np.minimum, "i"), 11: (np.minimum, "u"),
}


@dataclass
class Memory:
    """One buffer: ``data`` is flat, or [block, element] for shared memory."""

    data: np.ndarray
    bf16: bool
    writable: bool = True
    shared: bool = False


@dataclass(frozen=True)
class Mapped:
    """A tensor map of a buffer."""

    map: TensorMap
    memory: Memory


@dataclass(frozen=True)
class View:
    memory: Memory
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Chosen:
    """One of two buffers, by a condition of each thread's."""

    condition: np.ndarray
    views: tuple["View | Chosen", "View | Chosen"]


@dataclass
class Step:
    """An operation as it is run, read once: its operands and results, the simulation's method for it, and otherwise what it ``computes``;
    ``plain``: it can do nothing but that."""

    op: ir.Operation
    operands: list[ir.Value]
    results: list[ir.Value]
    handler: Callable | None
    computes: Callable | None
    ends: bool
    chooses: bool
    contracts: bool
    plain: bool


class Executable:
    """Runs a plan; ``kernels`` maps their names (``module::function``) to their functions, and ``simulate(function, launch, parameters)``
    runs one."""

    def __init__(self, plan: Plan, kernels: dict[str, ir.Operation], simulate: Callable | None = None) -> None:
        self.plan, self.kernels, self.simulate = plan, kernels, simulate or functools.partial(simulate_launch, steps={})

    def run(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.plan.symbols:
            read = size_reader([a.shape for a in self.plan.arguments], self.plan.symbols)
            values = dict(zip((s.name for s in self.plan.symbols), read(arguments)))
            return Executable(replace(at_sizes(self.plan, values), symbols=()), self.kernels, self.simulate).run(arguments)
        inputs = [_numpy(a.contiguous()) for a in arguments]
        owners = {o.result: o for i, o in enumerate(self.plan.outputs) if o.result == i}
        results = {i: np.full(int(np.prod(o.shape)) * np.dtype(stored_dtype(o.element)).itemsize, 0xFF, np.uint8) for i, o in owners.items()}
        workspace = np.full(self.plan.workspace_bytes, 0xFF, np.uint8)

        def memory(buffer: Buffer) -> Memory:
            dtype = np.dtype(stored_dtype(buffer.element))
            start = buffer.index if buffer.place == "workspace" else 0
            place = workspace if buffer.place == "workspace" else {"argument": inputs, "result": results}[buffer.place][buffer.index]
            count = int(np.prod(buffer.shape)) * dtype.itemsize
            return Memory(place.view(np.uint8)[start:start + count].view(dtype), buffer.element == "bf16")

        for step in self.plan.steps:
            assert isinstance(step, Launch), step
            parameters = [
                p.value if isinstance(p, Scalar) else Mapped(p, memory(p.buffer)) if isinstance(p, TensorMap) else memory(p) for p in step.parameters
            ]
            if step.grid[0]:
                self.simulate(self.kernels[step.kernel], step, parameters)
        for argument, array in zip(arguments, inputs):
            if argument.is_contiguous():
                argument.copy_(_torch(array, argument.dtype).view(argument.shape))
        return [
            _torch(inputs[o.argument], arguments[o.argument].dtype).view(o.shape) if o.argument >= 0
            else _torch(results[o.result].view(stored_dtype(o.element)), _torch_dtype(o.element)).view(o.shape)
            for o in self.plan.outputs
        ]


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.detach().reshape(-1)
    return (flat.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else flat.numpy()).copy()


def _torch(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy()).view(dtype)


def _torch_dtype(element: str) -> torch.dtype:
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i1": torch.bool, "i64": torch.int64,
            "i32": torch.int32, "i16": torch.int16, "i8": torch.int8}[element]


def simulate_launch(function: ir.Operation, launch: Launch, parameters: list, steps: dict) -> None:
    """Run one launch of a ``gpu.func``; ``steps`` is empty at its first."""
    one_by_one = any("atom." in str(o.attributes["asm_string"]) for o in walk(function, "llvm.inline_asm"))
    for _ in range(launch.grid[0] if one_by_one else 1):  # blocks that take numbers of a counter wait for those before them
        Simulation(function, 1 if one_by_one else launch.grid[0], launch.block[0], parameters, launch.shared, steps=steps).run()


@dataclass
class Simulation:
    """One launch, or a part of it; those of one function share ``steps``."""

    function: ir.Operation
    blocks: int
    threads: int
    parameters: list[Memory | int]
    shared_bytes: int = 0
    values: dict[ir.Value, object] = field(default_factory=dict)
    products: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    steps: dict[ir.Block, list[Step]] = field(default_factory=dict)

    def run(self) -> None:
        self.count = self.blocks * self.threads
        self.block_of = np.arange(self.count) // self.threads
        self.lane_of = np.arange(self.count) % self.threads
        body = self.function.regions[0].blocks[0]
        attributes = list(self.function.attributes["arg_attrs"]) if "arg_attrs" in self.function.attributes else []
        for i, argument in enumerate(body.arguments):
            if isinstance(argument.type, ir.IndexType):
                self.values[argument] = np.int64(self.parameters[i])
                continue
            type_ = ir.MemRefType(argument.type)
            if i < len(self.parameters):
                memory = self.parameters[i]
                memory.writable = "llvm.readonly" not in ir.DictAttr(attributes[i])
            else:
                data = np.zeros((self.blocks, int(np.prod(type_.shape))), stored_dtype(str(type_.element_type)))
                data.view(np.uint8)[:] = 0xFF
                memory = Memory(data, isinstance(type_.element_type, ir.BF16Type), True, True)
            self.values[argument] = View(memory, tuple(type_.get_strides_and_offset()[0]))
        with np.errstate(all="ignore"):
            self.block(body, np.ones(self.count, bool))

    def block(self, block: ir.Block, mask: np.ndarray) -> list:
        """Run the operations; the values of the terminator's operands."""
        steps = self.steps.get(block)
        if steps is None:
            steps = self.steps[block] = [self.step(o.operation) for o in block.operations]
        values = self.values
        for step in steps:
            if step.plain:
                values[step.results[0]] = step.computes([values.get(v) for v in step.operands])
                continue
            if step.ends:
                return [values[v] for v in step.operands]
            for result, value in zip(step.results, self.results(step, [values.get(v) for v in step.operands], mask) or ()):
                values[result] = value
        return []

    def step(self, op: ir.Operation) -> Step:
        name, results = op.name, list(op.results)
        of_memory = bool(results) and isinstance(results[0].type, ir.MemRefType)
        contracts = name in ("arith.mulf", "arith.addf") and "contract" in str(op.attributes["fastmath"]) and isinstance(results[0].type, ir.F32Type)
        ends = name in ("scf.yield", "gpu.return", "scf.condition", "llvm.return")
        handler = getattr(type(self), name.replace(".", "_"), None)
        computes = prepare(op) if results and not of_memory and (handler is None or name.startswith("arith.")) else None
        operands, chooses = list(op.operands), name == "arith.select"
        scalars = all(isinstance(v.type, (ir.FloatType, ir.IntegerType, ir.IndexType, ir.VectorType)) for v in (*operands, *results))
        plain = computes is not None and handler is None and not contracts and scalars
        return Step(op, operands, results, handler, computes, ends, chooses, contracts, plain)

    def results(self, step: Step, operands: list, mask: np.ndarray) -> list:
        if not step.chooses and Chosen in map(type, operands):
            place = next(i for i, v in enumerate(operands) if isinstance(v, Chosen))
            condition = np.broadcast_to(operands[place].condition, mask.shape)
            both = [
                self.results(step, [*operands[:place], view, *operands[place + 1:]], mask & wanted)
                for view, wanted in zip(operands[place].views, (condition, ~condition))
            ]
            return [_where(condition, a, b) for a, b in zip(*both)]
        if step.chooses and step.computes is None:
            return [Chosen(operands[0], tuple(operands[1:]))]
        if step.handler is not None and (step.computes is None or isinstance(operands[0], View)):
            return step.handler(self, step.op, operands, mask)
        return [self.contracted(step.op, operands) if step.contracts else step.computes(operands)]

    def contracted(self, op, operands) -> np.ndarray:
        """A product, or a sum that takes up the exact product of one of its operands: a fused multiply-add."""
        if op.name == "arith.mulf":
            self.products[op.results[0]] = np.asarray(operands[0], np.float64) * np.asarray(operands[1], np.float64)
            return np.multiply(*operands)
        for number in (0, 1):
            product = self.products.get(op.operands[number])
            if product is not None:
                return (product + np.asarray(operands[1 - number], np.float64)).astype(np.float32)
        return np.add(*operands)

    # Control flow.

    def scf_if(self, op, operands, mask):
        condition = np.broadcast_to(operands[0], mask.shape)
        taken = [
            self.block(region.blocks[0], wanted) if len(region.blocks) else []
            for region, wanted in zip(op.regions, (mask & condition, mask & ~condition)) if wanted.any()
        ]
        if not len(op.results):
            return []
        if not taken:  # anything of the right form
            return self.block(op.regions[1].blocks[0], mask)
        return taken[0] if len(taken) == 1 else [_where(condition, a, b) for a, b in zip(*taken)]

    def scf_for(self, op, operands, mask):
        body = op.regions[0].blocks[0]
        at, end, step = (np.broadcast_to(v, mask.shape) for v in operands[:3])
        carried = [
            np.broadcast_to(v if np.ndim(v) == 2 else np.asarray(v)[..., None], (self.count, t.shape[0])) if isinstance(t, ir.VectorType)
            else np.broadcast_to(v, mask.shape) for v, t in zip(operands[3:], [o.type for o in op.operands][3:])
        ]
        while (active := mask & (at < end)).any():
            self.values[body.arguments[0]] = at
            for argument, value in zip(list(body.arguments)[1:], carried):
                self.values[argument] = value
            new = self.block(body, active)
            whole = active.all()
            carried = [n if whole and np.shape(n) == np.shape(c) else _where(active, n, c) for n, c in zip(new, carried)]
            at = np.where(active, at + step, at)
        return carried

    def scf_while(self, op, operands, mask):
        before, after = (r.blocks[0] for r in op.regions)
        carried, active, results = [np.broadcast_to(v, mask.shape) for v in operands], mask, None
        while True:
            for argument, value in zip(before.arguments, carried):
                self.values[argument] = value
            condition, *passed = self.block(before, active)
            results = passed if results is None else [np.where(active, p, r) for p, r in zip(passed, results)]
            active = active & condition
            if not active.any():
                return results
            for argument, value in zip(after.arguments, results):
                self.values[argument] = value
            new = self.block(after, active)
            carried = [np.where(active, n, c) for n, c in zip(new, carried)]

    # Threads.

    def gpu_block_id(self, op, operands, mask):
        return [self.block_of]

    def gpu_thread_id(self, op, operands, mask):
        return [self.lane_of]

    def gpu_barrier(self, op, operands, mask):
        assert self.is_whole(mask, self.threads), "a barrier that not all threads of a block reach"
        return []

    # Clusters: a pointer to shared memory is the array that it points to, of the own block or, with a number of blocks, of each thread's.

    def memref_extract_aligned_pointer_as_index(self, op, operands, mask):
        return [operands[0]]

    llvm_inttoptr = memref_extract_aligned_pointer_as_index

    arith_index_cast = memref_extract_aligned_pointer_as_index

    def arith_cmpi(self, op, operands, mask):
        """Whether two buffers are not one."""
        assert ir.IntegerAttr(op.attributes["predicate"]).value == 1
        return [np.broadcast_to(operands[0].memory is not operands[1].memory, mask.shape)]

    def arith_addi(self, op, operands, mask):
        """Bytes added to where something lies in shared memory."""
        view, more = operands
        return [View(view.memory, view.strides, view.offset + np.asarray(more) // view.memory.data.dtype.itemsize)]

    def nvvm_mapa(self, op, operands, mask):
        (cluster,) = list(ir.DenseI32ArrayAttr(self.function.attributes["known_cluster_size"]))[:1]
        rank = np.broadcast_to(operands[1], mask.shape)
        assert ((rank >= 0) & (rank < cluster))[mask].all(), "a block that the cluster does not have"
        return [(operands[0], self.block_of // cluster * cluster + np.where(mask, rank, 0))]

    # Dynamic shared memory: addresses are numbers of bytes behind where it begins.

    def llvm_mlir_addressof(self, op, operands, mask):
        if not hasattr(self, "dynamic"):
            self.dynamic = np.full((self.blocks, 232448), 0xFF, np.uint8)
        return [np.zeros(self.count, np.int32)]

    def llvm_ptrtoint(self, op, operands, mask):
        return [operands[0]]

    def dynamic_bytes(self, address, type_: ir.Type, mask) -> tuple:
        """Where each thread's bytes are: blocks, places, the element's type, lanes."""
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        lanes = type_.shape[0] if isinstance(type_, ir.VectorType) else 1
        size = np.dtype(stored_dtype(str(element))).itemsize * lanes
        address = np.where(mask, np.broadcast_to(address, mask.shape), 0)
        assert (address % size == 0).all() and (address >= 0).all() and (address + size <= self.shared_bytes).all(), "dynamic shared memory"
        return self.block_of[:, None], address[:, None] + np.arange(size), element, lanes

    def llvm_store(self, op, operands, mask):
        value, address = operands
        blocks, places, element, lanes = self.dynamic_bytes(address, op.operands[0].type, mask)
        value = np.broadcast_to(np.asarray(value) if lanes > 1 else np.asarray(value)[..., None], (self.count, lanes))
        data = to_bf16(value) if isinstance(element, ir.BF16Type) else value.astype(stored_dtype(str(element)))
        self.dynamic[np.broadcast_to(blocks, places.shape)[mask], places[mask]] = np.ascontiguousarray(data).view(np.uint8)[mask]
        return []

    def llvm_load(self, op, operands, mask):
        if not isinstance(operands[0], tuple):
            blocks, places, element, lanes = self.dynamic_bytes(operands[0], op.results[0].type, mask)
            found = np.ascontiguousarray(self.dynamic[blocks, places]).view(stored_dtype(str(element)))
            found = from_bf16(found) if isinstance(element, ir.BF16Type) else found
            return [found if lanes > 1 else found[:, 0]]
        view, blocks = operands[0]
        offset = np.where(mask, view.offset, 0)
        assert view.memory.shared and ((offset >= 0) & (offset < view.memory.data.shape[-1])).all()
        return [view.memory.data[blocks, offset]]

    def nvvm_cluster_arrive(self, op, operands, mask):
        assert mask.all(), "a barrier that not all threads of a cluster reach"
        return []

    nvvm_cluster_wait = nvvm_cluster_arrive

    # Mbarriers need no code, either: what is sent is there.

    def nvvm_mbarrier_init(self, op, operands, mask):
        return [None] * len(op.results)

    nvvm_mbarrier_arrive_expect_tx = nvvm_mbarrier_try_wait_parity = nvvm_fence_mbarrier_init = nvvm_mbarrier_init

    def is_whole(self, mask, threads: int) -> bool:
        """Whether of each so many threads all are there, or none."""
        if self.threads % threads:
            return False
        each = mask.reshape(-1, threads)
        return bool((each.all(1) | ~each.any(1)).all())

    def gpu_shuffle(self, op, operands, mask):
        assert self.is_whole(mask, 32) and int(operands[2]) == 32
        mode, me, place = str(op.attributes["mode"]), np.arange(self.count), np.broadcast_to(operands[1], mask.shape).astype(np.int64)
        warp, lane = me // 32 * 32, me % 32
        partner = me ^ place if "xor" in mode else np.where(lane >= place, me - place, me) if "up" in mode else warp + place % 32
        return [np.broadcast_to(operands[0], mask.shape)[partner], np.ones(self.count, bool)]

    def nvvm_redux_sync(self, op, operands, mask):
        assert self.is_whole(mask, 32)
        combine = {"add": np.add, "umin": np.minimum, "umax": np.maximum}[str(op.attributes["kind"]).rstrip(">").rpartition(" ")[2]]
        warps = np.ascontiguousarray(np.broadcast_to(operands[0], mask.shape)).reshape(-1, 32).view(np.uint32)
        return [np.repeat(combine.reduce(warps, 1, dtype=np.uint32), 32).view(np.int32)]

    def nvvm_barrier_reduction(self, op, operands, mask):
        assert self.is_whole(mask, self.threads)
        return [np.repeat(np.count_nonzero(np.broadcast_to(operands[0], mask.shape).reshape(self.blocks, -1), 1), self.threads).astype(np.int32)]

    def memref_atomic_rmw(self, op, operands, mask):
        """Updates of one place, each of which finds those of the threads before it."""
        value, view = np.broadcast_to(operands[0], mask.shape), operands[1]
        combine, type_ = _ATOMICS[ir.IntegerAttr(op.attributes["kind"]).value]
        data = view.memory.data.view(view.memory.data.dtype.str.replace("i", type_))
        assert view.memory.writable and not view.memory.bf16
        places, old = self.places(view, operands[2:], mask), np.zeros(self.count, data.dtype)
        for thread in np.flatnonzero(mask):
            at = (self.block_of[thread], places[thread]) if view.memory.shared else places[thread]
            old[thread] = data[at]
            data[at] = combine(old[thread], value[thread].astype(data.dtype))
        return [old.view(value.dtype)]

    # Memory.

    def memref_reinterpret_cast(self, op, operands, mask):
        offset = ir.MemRefType(op.results[0].type).get_strides_and_offset()[1]
        strides = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        varying = iter(operands[len(operands) - strides.count(_DYNAMIC):])
        return [View(operands[0].memory, tuple(next(varying) if s == _DYNAMIC else s for s in strides), offset)]

    def memref_subview(self, op, operands, mask):
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])), list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        dynamic = iter(operands[1:])
        offsets = [next(dynamic) if o == ir.ShapedType.get_dynamic_size() else o for o in sizes[0]]
        source = operands[0]
        offset = source.offset + sum(o * s for o, s in zip(offsets, source.strides))
        kept = ir.MemRefType(op.results[0].type).get_strides_and_offset()[0]
        if _DYNAMIC in kept:
            assert len(kept) == len(source.strides)
            kept = [a * b for a, b in zip(source.strides, sizes[1])]
        return [View(source.memory, tuple(kept), offset)]

    def memref_expand_shape(self, op, operands, mask):
        return [View(operands[0].memory, tuple(ir.MemRefType(op.results[0].type).get_strides_and_offset()[0]), operands[0].offset)]

    memref_collapse_shape = memref_cast = memref_expand_shape

    def memref_get_global(self, op, operands, mask):
        name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
        found = next(
            o.operation for o in self.function.parent.regions[0].blocks[0].operations
            if o.operation.name == "memref.global" and ir.StringAttr(o.operation.attributes["sym_name"]).value == name
        )
        value = np.array(ir.DenseElementsAttr(found.attributes["initial_value"]))
        strides = ir.MemRefType(op.results[0].type).get_strides_and_offset()[0]
        return [View(Memory(value.reshape(-1), False, False), tuple(strides))]

    def memref_load(self, op, operands, mask):
        view, places = operands[0], self.places(operands[0], operands[1:], mask)
        found = view.memory.data[(self.block_of, places)] if view.memory.shared else view.memory.data[places]
        return [from_bf16(found) if view.memory.bf16 else found]

    def memref_store(self, op, operands, mask):
        value, view = operands[0], operands[1]
        places = self.places(view, operands[2:], mask)[mask]
        value = np.broadcast_to(to_bf16(value) if view.memory.bf16 else value, mask.shape)[mask]
        assert view.memory.writable, "a store to a read-only parameter"
        where = (self.block_of[mask], places) if view.memory.shared else (places,)
        flat = where[0] * view.memory.data.shape[-1] + where[1] if view.memory.shared else places
        numbers, last = np.arange(len(flat)), np.empty(view.memory.data.size, np.int64)
        last[flat] = numbers
        assert (last[flat] == numbers).all(), "two threads store to one place"
        view.memory.data[where] = value
        return []

    # Vectors: one row of lanes a thread.

    def vector_load(self, op, operands, mask):
        lanes = ir.VectorType(op.results[0].type).shape[0]
        view, item, aligned = operands[0], operands[0].memory.data.dtype.itemsize, ir.IntegerAttr(op.attributes["alignment"]).value
        first = self.places(view, operands[1:], mask)
        assert (first * item % aligned == 0).all(), "a vector that is not aligned"
        if view.memory.shared:
            found = [self.memref_load(op, [view, *operands[1:-1], np.asarray(operands[-1]) + i], mask)[0] for i in range(lanes)]
            return [np.stack(found, -1)]
        # Of aligned bytes of which the first are the buffer's all can be read.
        size, each = view.memory.data.shape[-1], first[:, None] + np.arange(lanes)
        assert (each < (-(-size * item // aligned) * aligned) // item).all(), f"an access out of bounds: {each.max()} of {size}"
        found = view.memory.data[np.minimum(each, size - 1)]
        return [from_bf16(found) if view.memory.bf16 else found]

    def vector_store(self, op, operands, mask):
        value, view, *where = operands
        value = np.broadcast_to(value, (self.count, np.asarray(value).shape[-1]))
        for i in range(value.shape[-1]):
            self.memref_store(op, [value[:, i], view, *where[:-1], np.asarray(where[-1]) + i], mask)
        return []

    def vector_extract(self, op, operands, mask):
        (place,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
        return [np.asarray(operands[0])[..., place]]

    def vector_shuffle(self, op, operands, mask):
        a, b = (np.broadcast_to(v, (self.count, np.asarray(v).shape[-1])) for v in operands)
        return [np.concatenate([a, b], -1)[:, list(ir.DenseI64ArrayAttr(op.attributes["mask"]))]]

    def vector_insert(self, op, operands, mask):
        value, target = operands
        made = np.array(np.broadcast_to(target, (self.count, np.asarray(target).shape[-1])))
        made[:, next(iter(ir.DenseI64ArrayAttr(op.attributes["static_position"])))] = value
        return [made]

    def vector_from_elements(self, op, operands, mask):
        return [np.stack([np.broadcast_to(v, mask.shape) for v in operands], -1)]

    def vector_bitcast(self, op, operands, mask):
        source, result = (v.type.element_type for v in (op.operands[0], op.results[0]))
        value = np.asarray(operands[0])
        value = value if value.ndim else np.full(op.operands[0].type.shape, value)  # a constant of equal elements
        value = np.ascontiguousarray(to_bf16(value) if isinstance(source, ir.BF16Type) else value).view(stored_dtype(str(result)))
        return [from_bf16(value) if isinstance(result, ir.BF16Type) else value]

    def vector_fma(self, op, operands, mask):
        a, b, c = (np.asarray(v) for v in operands)
        return [(a.astype(np.float64) * b + c).astype(c.dtype)]

    def llvm_inline_asm(self, op, operands, mask):
        """A reciprocal, a permutation: each byte of the result is one of the eight of two words, or what a look back does."""
        text = ir.StringAttr(op.attributes["asm_string"]).value
        if not text:
            return operands[:1]
        if "cp.async" in text:
            return self.copies(text, operands, mask)
        if "gpu.global" in text:
            return self.look_back(text, operands, mask)
        if text.startswith("mul.sat.f32"):
            return [np.clip(np.nan_to_num(np.asarray(operands[0]) * operands[1]), 0, 1).astype(np.float32)]
        if text.startswith("mul.wide.u32"):
            a, b = (np.asarray(v).astype(np.int64) & 0xFFFFFFFF for v in operands)
            return [(a.astype(np.uint64) * b.astype(np.uint64)).view(np.int64)]
        if "rcp.approx.f32" in str(op.attributes["asm_string"]):
            return [(1 / np.asarray(operands[0], np.float64)).astype(np.float32)]
        if "st.async" in str(op.attributes["asm_string"]):
            (view, blocks), value = operands[0], np.broadcast_to(operands[1], mask.shape)
            view.memory.data[blocks[mask], np.broadcast_to(view.offset, mask.shape)[mask]] = value[mask]
            return []
        chosen = re.fullmatch(r"prmt\.b32 \$0, \$1, \$2, (\d+);", ir.StringAttr(op.attributes["asm_string"]).value)
        assert chosen, op
        both = [(np.asarray(v).astype(np.uint32) >> np.uint32(8 * i)) & np.uint32(255) for v in operands for i in range(4)]
        found = sum(both[int(chosen[1]) >> 4 * i & 15].astype(np.int64) << 8 * i for i in range(4))
        return [found.astype(np.uint32).view(np.int32)]

    def copies(self, text: str, operands, mask):
        """Copies from global to shared memory, in bytes from the beginnings of both, which come when a thread waits for their group."""
        if not hasattr(self, "groups"):
            self.groups, self.started = np.zeros(self.count, np.int64), []
        if "commit_group" in text:
            self.groups = self.groups + mask
        elif "wait_group" in text:
            for copy in self.started:
                come = copy[0] & mask & (copy[1] < self.groups - int(re.search(r"(\d+);", text)[1]))
                copy[0] &= ~come
                self.copy_now(*copy[2:], come)
            self.started = [c for c in self.started if c[0].any()]
        else:
            width, given = int(re.search(r"\], (\d+)[,;]", text)[1]), operands[4] if len(operands) > 4 else None
            self.started.append([mask.copy(), self.groups.copy(), width, given, *operands[:4]])
        return []

    def copy_now(self, width: int, given, target, place, source, offset, mask):
        base = np.broadcast_to(0 if isinstance(target, View) else target, mask.shape).astype(np.int64)
        place, offset = base[mask] + np.broadcast_to(place, mask.shape)[mask], np.broadcast_to(offset, mask.shape)[mask].astype(np.int64)
        assert (place % width == 0).all() and (offset % width == 0).all(), "a copy that is not aligned"
        read, taken = source.memory.data.view(np.uint8), target.memory.data.view(np.uint8) if isinstance(target, View) else self.dynamic
        given = np.broadcast_to(width if given is None else given, mask.shape)[mask]
        assert ((given > 0) & (given <= width) & (offset + given <= len(read))).all() and (place >= 0).all(), "a copy out of bounds"
        assert isinstance(target, View) or (place + width <= self.shared_bytes).all()
        for i in range(width):
            taken[self.block_of[mask], place + i] = np.where(i < given, read[np.minimum(offset + i, len(read) - 1)], 0)

    def look_back(self, text: str, operands, mask):
        """A counter, a word of a value and that it is there, or several that are waited for: blocks run one after the other."""
        if text.startswith("atom"):
            words = operands[0].memory.data
            assert mask.sum() == 1
            words[0] += 1
            return [np.full(self.count, words[0] - 1, np.int32)]
        if "st.relaxed" in text:
            words, (at, bits) = operands[0].memory.data, (np.broadcast_to(v, mask.shape)[mask] for v in operands[1:])
            assert len(np.unique(at)) == len(at) and (at >= 0).all() and (words[at] == 0).all(), "a word is written twice"
            words[at] = (np.int64(1) << 32) | bits.astype(np.int32).view(np.uint32).astype(np.int64)
            return []
        words, (place, wanted) = operands[0].memory.data, (np.broadcast_to(v, mask.shape) for v in operands[1:])
        steps, behind = re.findall(r"\[a\+(\d+)\]", text), re.findall(r"setp.gt.u32 p, \$\d+, (\d+)", text)
        found = []
        for step, number in zip(steps, behind, strict=True):
            got = words[np.where(mask, place + int(step) // 8, 0)]
            assert (got >> 32 == 1)[mask & (wanted > int(number))].all(), "a word that nobody has written is waited for"
            found.append((got & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
        return found if len(found) == 1 else [tuple(found)]

    def llvm_extractvalue(self, op, operands, mask):
        (place,) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return [operands[0][place]]

    def llvm_call_intrinsic(self, op, operands, mask):
        name = ir.StringAttr(op.attributes["intrin"]).value
        if name == "llvm.fshr.i32":
            high, low, bits = (np.asarray(v).astype(np.uint32).astype(np.uint64) for v in operands)
            return [(((high << np.uint64(32)) | low) >> (bits % np.uint64(32))).astype(np.uint32).view(np.int32)]
        x = [np.asarray(v, np.float64) for v in operands]
        found = {
            "llvm.fabs.f32": lambda a: np.abs(a), "llvm.nvvm.rcp.approx.ftz.f": lambda a: 1 / a, "llvm.nvvm.ex2.approx.ftz.f": np.exp2,
            "llvm.copysign.f32": np.copysign,
        }[name](*x)
        return [found.astype(np.float32)]

    def vector_broadcast(self, op, operands, mask):
        lanes = ir.VectorType(op.results[0].type).shape[0]
        return [np.repeat(np.broadcast_to(operands[0], mask.shape)[:, None], lanes, 1)]

    def places(self, view: View, indices, mask: np.ndarray) -> np.ndarray:
        flat = view.offset
        for i, s in zip(indices, view.strides):
            flat = flat + np.asarray(i, np.int64) * s
        flat, size = np.where(mask, flat, 0), view.memory.data.shape[-1]
        assert ((flat >= 0) & (flat < size)).all() or not mask.any(), f"an access out of bounds: {flat[mask].min()}..{flat[mask].max()} of {size}"
        return flat


def _where(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One or the other for each thread, all lanes of it."""
    if 2 not in (np.ndim(a), np.ndim(b)):
        return np.where(mask, a, b)
    a, b = (v if np.ndim(v) == 2 else np.broadcast_to(v, mask.shape)[:, None] for v in (a, b))
    return np.where(mask[:, None], a, b)

"""Run the ``gpu`` stage without a GPU: every thread of a launch at once, an operation at a time, on numpy arrays.

A value is an array with one entry a thread.  Checked on the way: accesses in bounds, no writes to read-only parameters, no
two threads that store to one place in one step.  Memory starts as NaN.  What an operation does is the method of its name, by kinds in classes of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from simulated_accesses import Accesses
from simulated_arithmetic import prepare, stored_dtype
from simulated_assembly import Assembly
from simulated_memory import Chosen, Memory, View
from simulated_tensor_core import TensorCore
from simulated_threads import Threads
from simulated_vectors import Vectors

from inferno.mlir import ir, walk
from inferno.runtime.plan.plan import Launch


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


def simulate_launch(function: ir.Operation, launch: Launch, parameters: list, steps: dict) -> None:
    """Run one launch of a ``gpu.func``; ``steps`` is empty at its first."""
    one_by_one = any("atom." in str(o.attributes["asm_string"]) for o in walk(function, "llvm.inline_asm"))
    for _ in range(launch.grid[0] if one_by_one else 1):  # blocks that take numbers of a counter wait for those before them
        Simulation(function, 1 if one_by_one else launch.grid[0], launch.block[0], parameters, launch.shared, steps=steps).run()


@dataclass
class Simulation(Threads, Accesses, Vectors, TensorCore, Assembly):
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


def _where(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One or the other for each thread, all lanes of it."""
    if 2 not in (np.ndim(a), np.ndim(b)):
        return np.where(mask, a, b)
    a, b = (v if np.ndim(v) == 2 else np.broadcast_to(v, mask.shape)[:, None] for v in (a, b))
    return np.where(mask[:, None], a, b)

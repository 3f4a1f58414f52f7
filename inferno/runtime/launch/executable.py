"""Run a plan on a GPU: one native call launches all of its kernels on the caller's stream."""

import ctypes
import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inferno.errors import LaunchError
from inferno.runtime.launch import driver
from inferno.runtime.launch.chunks import cut, run_chunks
from inferno.runtime.launch.cuda_graphs import graphs
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, host_program
from inferno.runtime.launch.interpreter import interpreter
from inferno.runtime.launch.shared_memory import as_laid
from inferno.runtime.launch.spread_blocks import spread_blocks
from inferno.runtime.launch.steps import failure, functions_of
from inferno.runtime.launch.threads import Threads
from inferno.runtime.plan.plan import Plan


def template(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """What ``empty_like`` makes a contiguous result of: half the time of a call that names shape, type and device.

    One element, expanded, so that it takes no memory; of at most one element torch would keep the strides of 0."""
    if math.prod(shape) <= 1:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.empty((), dtype=dtype, device=device).expand(shape)


def templates(workspace_bytes: int, shapes: Sequence[Sequence[int]], dtypes: Sequence[torch.dtype], device: torch.device) -> tuple[Tensor, ...]:
    """What the workspace and results of these shapes are made like."""
    return (template((workspace_bytes,), torch.uint8, device), *(template(s, d, device) for s, d in zip(shapes, dtypes)))


class GpuExecutable:
    """A plan with its kernels loaded on one device.  Never synchronises; safe from several threads; can be captured in a
    CUDA graph.  Results and workspace come from torch's caching allocator."""

    def __init__(
        self, plan: Plan, binaries: dict[str, bytes], device: torch.device, dtypes: Sequence[torch.dtype], early: bool, interpret: bool = False,
        cuda_graphs: bool = False, given: Collection[int] = (),
    ) -> None:
        """``binaries``: cubin or PTX by kernel (gpu.module) name; ``dtypes``: of the outputs; ``early``: as ``host_program`` has it;
        ``interpret``: the plan is walked in Python, which needs no compiler and takes 0.7 us a launch longer; ``cuda_graphs``: see
        ``cuda_graphs.py``; ``given``: the numbers of the arguments that the caller
        gives away, for which a plan of many bytes is for ``run_taking``."""
        self._dtypes = tuple(dtypes)
        self.index = torch.cuda.current_device() if device.index is None else device.index
        self.device = torch.device("cuda", self.index)
        count = len(plan.arguments)
        self.fresh = [i for i, o in enumerate(plan.outputs) if o.result == i]
        self.templates = templates(plan.workspace_bytes, [plan.outputs[i].shape for i in self.fresh], [dtypes[i] for i in self.fresh], self.device)
        self._result_words = words = {i: ARGUMENTS + count + n for n, i in enumerate(self.fresh)}
        self._words = ctypes.c_int64 * (ARGUMENTS + count + len(self.fresh))
        self.all_results_are_new = [o.result for o in plan.outputs] == self.fresh
        with torch.cuda.device(self.device):
            torch.cuda.current_stream().synchronize()  # makes torch's context current
            self.context = driver.current_context()
            self._modules = {name: driver.load(binary, name) for name, binary in binaries.items()}
            self.plan = plan = spread_blocks(plan, self._modules, self.index) if early else plan
            self._functions = functions = functions_of(plan, self._modules, self.index)
        self._threads = Threads(self.context)
        entry, pixels = (driver.address("cuLaunchKernelEx"), driver.address("cuTensorMapEncodeTiled")), driver.address("cuTensorMapEncodeIm2col")
        self._engines: list = []

        def make(begin: int, end: int) -> Callable[[int], None]:
            part = replace(plan, steps=plan.steps[begin:end])
            if interpret:
                return interpreter(part, functions[begin:end], *entry, words, early, pixels)
            return self._compile(host_program(part, functions[begin:end], *entry, words, early, pixels))

        self._chunks = cut(plan, given) if given and not cuda_graphs else []
        self._natives = [make(c.begin, c.end) for c in self._chunks] if len(self._chunks) > 1 else []
        self.native = self._run_natives if self._natives else make(0, len(functions))
        if cuda_graphs:
            self.native = graphs(plan, functions, words, early, self.native)

    @property
    def takes(self) -> bool:
        """Whether the plan is one of many bytes, which ``run_taking`` runs with less memory."""
        return bool(self._natives)

    def _run_natives(self, base: int) -> None:
        """All chunks, on a state that has all results."""
        state = self._words.from_address(base)
        for chunk, native in zip(self._chunks, self._natives):
            native(base)
            if self._failed(state, chunk.begin):
                return

    @staticmethod
    def _failed(state: ctypes.Array, begin: int) -> bool:
        if state[ERROR]:
            state[STEP] += begin  # a chunk counts from its own first step
        return state[ERROR] != 0

    def _compile(self, text: str) -> Callable[[int], None]:
        from inferno.mlir import ExecutionEngine, idle_context, ir  # which a package does without

        with idle_context(), ir.Location.unknown():
            engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
            engine.initialize()
        self._engines.append(engine)
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these arguments, which must be on the device, contiguous and 16-byte aligned."""
        if torch._C._cuda_getDevice() != self.index:
            with torch.cuda.device(self.device):
                return self._run(arguments)
        return self._run(arguments)

    def _run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        fresh = [torch.empty_like(template) for template in self.templates[1:]]
        state, base, _workspace = self._state([*arguments, *fresh])
        self.native(base)
        if state[ERROR]:
            self.fail(state)
        return fresh if self.all_results_are_new else self._outputs(arguments, dict(zip(self.fresh, fresh)))

    def run_taking(self, arguments: list[Tensor]) -> list[Tensor]:
        """As ``run``; takes the arguments out of the list as soon as no kernel needs them, and makes results when the first does."""
        if torch._C._cuda_getDevice() != self.index:
            with torch.cuda.device(self.device):
                return self._run_taking(arguments)
        return self._run_taking(arguments)

    def _run_taking(self, arguments: list[Tensor]) -> list[Tensor]:
        state, base, _workspace = self._state(arguments)
        owned: dict[int, Tensor] = {}

        def make(index: int) -> None:
            owned[index] = torch.empty_like(self.templates[1 + self.fresh.index(index)])
            state[self._result_words[index]] = owned[index].data_ptr()

        run_chunks(self._chunks, self._natives, base, make, functools.partial(self._failed, state), arguments)
        if state[ERROR]:
            self.fail(state)
        return [owned[i] for i in self.fresh] if self.all_results_are_new else self._outputs(arguments, owned)

    def _state(self, tensors: Sequence[Tensor]) -> tuple[ctypes.Array, int, Tensor | None]:
        """The words that the native code reads, their address, and the workspace that one of them names, to be held until the launches
        are made.  ``tensors``: the arguments, and the results that are there already."""
        self._threads.enter()
        workspace = torch.empty_like(self.templates[0]) if self.plan.workspace_bytes else None
        state = self._words(
            0, 0, 0, 0, torch._C._cuda_getCurrentRawStream(self.index), 0 if workspace is None else workspace.data_ptr(), *[t.data_ptr() for t in tensors],
        )
        # The engine's entry wants a pointer to a pointer to the argument: the first two words are those.
        base = ctypes.addressof(state)
        state[0], state[1] = base + 8, base
        return state, base, workspace

    def _outputs(self, arguments: Sequence[Tensor], owned: dict[int, Tensor]) -> list[Tensor]:
        # The plan knows bits, not types: what is int8 for one output may be uint8 for another, or for the argument.
        given = [arguments[o.argument] if o.argument >= 0 else owned[o.result] for o in self.plan.outputs]
        return [as_laid(t, o.shape, dtype) for t, o, dtype in zip(given, self.plan.outputs, self._dtypes)]

    def fail(self, state: ctypes.Array) -> None:
        """Raise the LaunchError that the native code left in ``state``."""
        raise LaunchError(failure(self.plan.steps[state[STEP]], state[ERROR]))

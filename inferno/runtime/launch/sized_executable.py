"""Run a plan whose sizes vary on a GPU: the native code computes grids, offsets and sizes itself, from the call's symbols."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.errors import InputError, LaunchError
from inferno.runtime.launch import driver
from inferno.runtime.launch.executable import templates
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, host_program
from inferno.runtime.launch.interpreter import sized_interpreter
from inferno.runtime.launch.shared_memory import as_laid
from inferno.runtime.launch.spread_blocks import spread_blocks
from inferno.runtime.launch.steps import failure, functions_of
from inferno.runtime.launch.threads import Threads
from inferno.runtime.plan.plan import Buffer, Plan, TensorMap, at_sizes
from inferno.runtime.call.sizes import size_reader
from inferno.size_forms import as_python
from inferno.symbolic import LARGEST, bounds, is_unbounded, product

_KEPT = 256  # sizes whose results' templates are kept


class SizedGpuExecutable:
    """A plan with its kernels loaded on one device; ``run`` reads the sizes off the arguments.  Otherwise as ``GpuExecutable``."""

    def __init__(
        self, plan: Plan, binaries: dict[str, bytes], device: torch.device, dtypes: Sequence[torch.dtype], early: bool, interpret: bool = False,
        cuda_graphs: bool = False,
    ) -> None:
        """As ``GpuExecutable``'s.  With ``cuda_graphs`` too the launches are made at every call: they depend on its sizes."""
        self.plan = plan
        self.index = torch.cuda.current_device() if device.index is None else device.index
        self.device = torch.device("cuda", self.index)
        count = len(plan.arguments)
        self.fresh = [i for i, o in enumerate(plan.outputs) if o.result == i]
        self._dtypes = [dtypes[i] for i in self.fresh]
        self._types = tuple(dtypes)
        self._read = size_reader([a.shape for a in plan.arguments], plan.symbols)
        self._names = [s.name for s in plan.symbols]
        self._sizes = sizes_function(plan, self.fresh)
        self.kept: dict[tuple[int, ...], tuple[Tensor, ...]] = {}  # what ``templates_at`` has given
        result_words = {i: ARGUMENTS + count + n for n, i in enumerate(self.fresh)}
        self._words = ctypes.c_int64 * (ARGUMENTS + count + len(self.fresh) + len(plan.symbols))
        self._new = [o.result for o in plan.outputs] == self.fresh
        with torch.cuda.device(self.device):
            torch.cuda.current_stream().synchronize()  # makes torch's context current
            self.context = driver.current_context()
            modules = {name: driver.load(binary, name) for name, binary in binaries.items()}
            plan = spread_blocks(plan, modules, self.index) if early else plan
            functions = functions_of(plan, modules, self.index)
        self._modules, self._functions, self._threads = modules, functions, Threads(self.context)
        entry, pixels = (driver.address("cuLaunchKernelEx"), driver.address("cuTensorMapEncodeTiled")), driver.address("cuTensorMapEncodeIm2col")
        if interpret:
            at = sized_interpreter(plan, functions, *entry, result_words, early, pixels)
            self.native = lambda base: at(self._values(self._words.from_address(base)))(base)
        else:
            self.native = self._compile(host_program(plan, functions, *entry, result_words, early, pixels))

    def _compile(self, text: str) -> Callable[[int], None]:
        from inferno.mlir import ExecutionEngine, idle_context, ir  # which a package does without

        with idle_context(), ir.Location.unknown():
            self._engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
            self._engine.initialize()
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._engine.raw_lookup("run"))

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these arguments, which must be on the device, contiguous, 16-byte aligned, of sizes that the program takes."""
        return self.run_at(self._read(arguments), arguments)

    def run_at(self, values: tuple[int, ...], arguments: Sequence[Tensor]) -> list[Tensor]:
        """The same where the symbols' values are known."""
        if torch._C._cuda_getDevice() != self.index:
            with torch.cuda.device(self.device):
                return self._run(values, arguments)
        return self._run(values, arguments)

    @property
    def names(self) -> list[str]:
        """The symbols' names, in the order in which ``run_at`` takes their values."""
        return self._names

    @property
    def all_results_are_new(self) -> bool:
        """Whether no result is an argument, or another result in another shape."""
        return self._new

    def templates_at(self, values: tuple[int, ...]) -> tuple[Tensor, ...]:
        """What the workspace and the fresh results are made like where the symbols have these values; InputError for too many elements."""
        found = self.kept.get(values)
        if found is None:
            size, shapes, largest = self._sizes(*values)
            if largest > LARGEST:
                raise InputError(
                    f"sizes {dict(zip(self._names, values))}: a tensor of the program would have {largest} elements; without upper bounds of the "
                    f"sizes it is compiled for at most {LARGEST}: give them in dynamic_shapes"
                )
            found = templates(size, shapes, self._dtypes, self.device)
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            self.kept[values] = found
        return found

    def _run(self, values: tuple[int, ...], arguments: Sequence[Tensor]) -> list[Tensor]:
        self._threads.enter()
        workspace, *fresh = [torch.empty_like(t) for t in self.templates_at(values)]
        state = self._words(
            0, 0, 0, 0, torch._C._cuda_getCurrentRawStream(self.index), workspace.data_ptr(),
            *[t.data_ptr() for t in arguments], *[t.data_ptr() for t in fresh], *values,
        )
        base = ctypes.addressof(state)
        state[0], state[1] = base + 8, base  # the engine's entry wants a pointer to a pointer to the argument
        self.native(base)
        if state[ERROR]:
            self.fail(state)
        if self._new:
            return fresh
        owned, at = dict(zip(self.fresh, fresh)), dict(zip(self._names, values))
        given = [arguments[o.argument] if o.argument >= 0 else owned[o.result] for o in self.plan.outputs]
        # The plan knows bits, not types.
        return [as_laid(t, at_sizes(o.shape, at), dtype) for t, o, dtype in zip(given, self.plan.outputs, self._types)]

    def _values(self, state: ctypes.Array) -> tuple[int, ...]:
        """The symbols' values in a state."""
        return tuple(state[len(state) - len(self._names):])

    def fail(self, state: ctypes.Array) -> None:
        """Raise the LaunchError that the native code left in ``state``."""
        sizes = dict(zip(self._names, self._values(state)))
        raise LaunchError(failure(self.plan.steps[state[STEP]], state[ERROR], f" for sizes {sizes}"))


def sizes_function(plan: Plan, fresh: Sequence[int]) -> Callable[..., tuple[int, tuple, int]]:
    """The function of the symbols' values that gives the workspace's bytes, the shapes of the fresh results, and the most elements that a tensor
    without upper bound has."""
    names = ", ".join(s.name for s in plan.symbols)
    shapes = "".join(f"({''.join(as_python(s) + ', ' for s in plan.outputs[i].shape)}), " for i in fresh)
    scope: dict[str, Any] = {}
    exec(f"def sizes({names}):\n    return {as_python(plan.workspace_bytes)}, ({shapes}), {_largest(plan)}", scope)
    return scope["sizes"]


def _largest(plan: Plan) -> str:
    """The elements of the largest buffer whose size has no upper bound, as Python."""
    parameters = [p.buffer if isinstance(p, TensorMap) else p for step in plan.steps for p in step.parameters]
    counts = {product(p.shape) for p in parameters if isinstance(p, Buffer)}
    open_ = [c for c in counts if is_unbounded(c)]
    kept = [c for c in open_ if not any(c != d and bounds(d - c)[0] >= 0 for d in open_)]
    return f"max({', '.join(map(as_python, kept))}, 0)" if kept else "0"

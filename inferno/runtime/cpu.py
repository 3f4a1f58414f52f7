"""Run a plan on the CPU: native kernels, their work spread over threads, and torch's own matmul."""

import ctypes
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from inferno.errors import CompileError
from inferno.runtime.library import FUNCTIONS
from inferno.runtime.plan import Buffer, Launch, LibraryCall, Plan
from inferno.targets.cpu import NativeCode

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
    "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "si8": torch.int8, "i1": torch.bool, "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
}
# A thread's turn costs about 20 us here, in which one core streams about 200 KB.
BYTES_PER_THREAD = 1 << 18


class CpuExecutable:
    """A plan with its native code.  Safe to run from several threads."""

    def __init__(self, plan: Plan, code: dict[str, str], dtypes: Sequence[torch.dtype]) -> None:
        """``code``: LLVM dialect text by kernel name; ``dtypes``: of the outputs, which tell signed from unsigned."""
        self._plan = plan
        self._native = NativeCode({f"{n}__loops": t for n, t in code.items() if t})
        self._owners = {o.result: (o.shape, dtypes[i]) for i, o in enumerate(plan.outputs) if o.result == i}
        for step in plan.steps:
            if isinstance(step, LibraryCall) and step.function not in FUNCTIONS:
                raise CompileError(f"the plan calls {step.function}, which is not among {', '.join(FUNCTIONS)}")

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these arguments, which must be contiguous."""
        fresh = {i: torch.empty(shape, dtype=dtype) for i, (shape, dtype) in self._owners.items()}
        workspace = torch.empty(self._plan.workspace_bytes + 256, dtype=torch.uint8)
        start = -workspace.data_ptr() % 256  # torch aligns to 64
        memory = {"argument": arguments, "result": fresh}

        def address(buffer: Buffer) -> int:
            if buffer.place == "workspace":
                return workspace.data_ptr() + start + buffer.index
            return memory[buffer.place][buffer.index].data_ptr()

        def view(buffer: Buffer) -> Tensor:
            dtype = DTYPES[buffer.element]
            if buffer.place == "workspace":
                count = dtype.itemsize * _count(buffer.shape)
                return workspace[start + buffer.index : start + buffer.index + count].view(dtype).view(buffer.shape)
            return memory[buffer.place][buffer.index].view(buffer.shape)

        for step in self._plan.steps:
            if isinstance(step, Launch):
                self._launch(step, [address(p) for p in step.parameters])
            else:
                FUNCTIONS[step.function](step.options, *(view(p) for p in step.parameters))
        return [(arguments[o.argument] if o.argument >= 0 else fresh[o.result]).view(o.shape) for o in self._plan.outputs]

    def _launch(self, step: Launch, addresses: list[int]) -> None:
        function = self._native.functions[step.kernel.split("::")[1]]
        extent = step.grid[0]
        touched = sum(_count(p.shape) * DTYPES[p.element].itemsize for p in step.parameters)
        parts = min(extent, torch.get_num_threads(), max(1, touched // BYTES_PER_THREAD))
        if parts == 1:
            _call(function, 0, extent, addresses)
            return
        bounds = [extent * i // parts for i in range(parts + 1)]
        futures = [_threads().submit(_call, function, a, b, addresses) for a, b in zip(bounds[1:], bounds[2:])]
        _call(function, bounds[0], bounds[1], addresses)
        for future in futures:
            future.result()


def _call(function, begin: int, end: int, addresses: list[int]) -> None:
    """Call a native function: each slot of its one argument points at a value."""
    count = len(addresses) + 2
    values = (ctypes.c_int64 * count)(*addresses, begin, end)
    base = ctypes.addressof(values)
    slots = (ctypes.c_int64 * count)(*range(base, base + 8 * count, 8))
    function(ctypes.addressof(slots))


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    """Threads that share kernels' work; they hold no lock while native code runs."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, torch.get_num_threads()), thread_name_prefix="inferno-cpu")
        return _pool

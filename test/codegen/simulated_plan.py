"""Plans run without a GPU: buffers are numpy arrays, whose bytes are all 0xFF (NaN, of floats) until something is written."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from simulated_arithmetic import stored_dtype
from simulated_memory import Mapped, Memory

from inferno.mlir import ir
from inferno.runtime.call.sizes import size_reader
from inferno.runtime.plan.plan import Buffer, Launch, Plan, Scalar, TensorMap, at_sizes


class Executable:
    """Runs a plan; ``kernels`` maps their names (``module::function``) to their functions, and ``simulate(function, launch, parameters)``
    runs one."""

    def __init__(self, plan: Plan, kernels: dict[str, ir.Operation], simulate: Callable) -> None:
        self.plan, self.kernels, self.simulate = plan, kernels, simulate

    def run(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.plan.symbols:
            read = size_reader([a.shape for a in self.plan.arguments], self.plan.symbols)
            values = dict(zip((s.name for s in self.plan.symbols), read(arguments)))
            return Executable(replace(at_sizes(self.plan, values), symbols=()), self.kernels, self.simulate).run(arguments)
        inputs = [to_numpy(a.contiguous()) for a in arguments]
        owners = {o.result: o for i, o in enumerate(self.plan.outputs) if o.result == i}
        results = {i: np.full(int(np.prod(o.shape)) * np.dtype(stored_dtype(o.element)).itemsize, 0xFF, np.uint8) for i, o in owners.items()}
        workspace = np.full(self.plan.workspace_bytes, 0xFF, np.uint8)

        def memory(buffer: Buffer) -> Memory:
            dtype = np.dtype(stored_dtype(buffer.element))
            start = buffer.index if buffer.place == "workspace" else buffer.offset
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
                argument.copy_(to_torch(array, argument.dtype).view(argument.shape))
        return [
            to_torch(inputs[o.argument], arguments[o.argument].dtype).view(o.shape) if o.argument >= 0
            else to_torch(results[o.result].view(stored_dtype(o.element)), torch_dtype(o.element)).view(o.shape)
            for o in self.plan.outputs
        ]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Its elements as the simulator stores them, flat; of bfloat16 the bits."""
    flat = tensor.detach().reshape(-1)
    return (flat.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else flat.numpy()).copy()


def to_torch(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """The inverse."""
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy()).view(dtype)


def torch_dtype(element: str) -> torch.dtype:
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i1": torch.bool, "i64": torch.int64,
            "i32": torch.int32, "i16": torch.int16, "i8": torch.int8}[element]

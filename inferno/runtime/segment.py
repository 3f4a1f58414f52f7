"""A compiled piece of a graph as a Python function: tensors in, a list of tensors out, one native call between.

Whoever calls it has checked shapes, types and devices: the segment itself only sees to it that addresses are aligned.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from inferno.runtime.module import constants_of, make_executable
from inferno.runtime.plan import Plan
from inferno.runtime.program import Program

_ALIGNMENT = 15  # kernels read 16 bytes at once


class Segment:
    """One program on one device.  Call it with its tensors: dense, in the orders of dimensions that it was compiled for."""

    def __init__(self, program: Program, device: torch.device, examples: Sequence[Tensor]) -> None:
        """``examples`` are the outputs' fake tensors: their shapes, types, and the orders of dimensions that they come in."""
        self.program = program
        self.device = device
        self._executable = make_executable(program, device, [t.dtype for t in examples])
        self._constants = constants_of(program, device)
        self._finish = _finisher(program.launch_plan(), examples)

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        ready = tensors
        for i, tensor in enumerate(tensors):
            if tensor.data_ptr() & _ALIGNMENT:
                ready = list(ready)
                ready[i] = tensor.clone()
        results = self._executable.run([*ready, *self._constants])
        return results if self._finish is None else self._finish(results)


def _finisher(plan: Plan, examples: Sequence[Tensor]) -> Callable[[list[Tensor]], list[Tensor]] | None:
    """What makes the outputs from the plan's results: memory of their own, and the strides that eager has.  None: nothing."""
    steps: list[Callable[[Tensor], Tensor] | None] = []
    for i, (output, example) in enumerate(zip(plan.outputs, examples)):
        shared = output.argument >= 0 or output.result != i
        steps.append(_step(example, shared))
    if not any(steps):
        return None
    return lambda results: [r if step is None else step(r) for step, r in zip(steps, results)]


def _step(example: Tensor, shared: bool) -> Callable[[Tensor], Tensor] | None:
    from inferno.capture.partition import dense_order

    size, stride, order = tuple(example.shape), tuple(example.stride()), dense_order(example)
    if order is None:
        return lambda r: torch.empty_strided(size, stride, dtype=r.dtype, device=r.device).copy_(r)
    if example.is_contiguous():
        return torch.clone if shared else None
    return (lambda r: r.clone().as_strided(size, stride)) if shared else (lambda r: r.as_strided(size, stride))

"""A compiled piece of a graph as a Python function: tensors in, its results out, one native call between.

Whoever calls it has checked shapes, types and devices.  A segment sees to it that addresses are aligned, and that what an eager
operation made lies in memory as that operation's fake tensor said.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from inferno.capture.orders import dense_order
from inferno.errors import LaunchError
from inferno.runtime.call.finish import write_values
from inferno.runtime.call.text import begin_segment
from inferno.runtime.call.transforms import in_memory
from inferno.runtime.launch.cpu import CpuExecutable
from inferno.runtime.launch.executable import GpuExecutable
from inferno.runtime.executables import constants_of, make_executable, make_prepared, plan_in_place
from inferno.runtime.plan.plan import Output
from inferno.runtime.program import Program

_ALIGNMENT = 15  # kernels read 16 bytes at once


class Segment:
    """One program on one device.  ``call`` takes its tensors, dense in the orders of dimensions that it was compiled for, and
    returns its results, but for those ``written`` to tensors that it took.  Where ``takes``, it takes them as one list, out of which it lets go what is no
    longer needed."""

    def __init__(
        self, program: Program, device: torch.device, inputs: Sequence[Tensor], outputs: Sequence[Tensor], made: set[int],
        given: set[int], cuda_graphs: bool = False, writes: Mapping[int, int] | None = None,
    ) -> None:
        """``inputs`` and ``outputs`` are fake tensors with the strides that there are in eager; ``made`` are the numbers of the
        inputs that an eager operation made, ``given`` of those that nobody outside of the region holds; ``writes`` says of outputs which inputs they
        belong in, that lie as they do and that nobody reads later."""
        self.program = program
        self.device = device
        pairs = tuple((writes or {}).items())
        self._executable = make_executable(program, device, [t.dtype for t in outputs], cuda_graphs=cuda_graphs, given=given, writes=pairs)
        placed = plan_in_place(program, pairs).outputs if pairs else ()
        self.written = {i: to for i, to in pairs if placed[i].argument == to}
        self._constants = constants_of(program, device)
        self._prepared = make_prepared(program, device, self._constants)
        self._strides = {i: tuple(inputs[i].stride()) for i in sorted(made) if dense_order(inputs[i]) is not None}
        self._filled = {i for i, t in enumerate(inputs) if t.numel()}
        steps = [_step(o, e, i) for i, (o, e) in enumerate(zip(program.launch_plan().outputs, outputs))]
        self._steps = {i: step for i, step in enumerate(steps) if i not in self.written}
        self.takes = getattr(self._executable, "takes", False)
        self.call = self._run_taking if self.takes else self._unrolled() or self._run

    def _run_taking(self, tensors: list[Tensor]) -> list[Tensor]:
        given = list(tensors) if self._prepared is not None else []
        targets = {i: tensors[i] for i in self.written.values()}
        for i in range(len(tensors)):
            tensors[i] = self._ready(i, tensors[i])
        tensors += self._constants
        if self._prepared is not None:
            tensors += self._prepared.get(given, tensors)
        del given
        return self._finish(self._executable.run_taking(tensors), targets)

    def _run(self, *tensors: Tensor) -> list[Tensor]:
        """The general way of a call."""
        if self._executable is None:
            raise LaunchError(f"compiled for {self.program.target.name}, which is not what {self.device} is")
        ready = [self._ready(i, t) for i, t in enumerate(tensors)]
        prepared = self._prepared.get(tensors, ready) if self._prepared is not None else ()
        return self._finish(self._executable.run([*ready, *self._constants, *prepared]), {i: tensors[i] for i in self.written.values()})

    def _finish(self, results: Sequence[Tensor], targets: Mapping[int, Tensor]) -> list[Tensor]:
        """The results as eager has them; what was written in place of a copy, of a tensor that was not aligned, is copied back."""
        if self.written:
            write_values([targets[to] for to in self.written.values()], [results[i] for i in self.written])
        return [results[i] if step is None else step(results[i]) for i, step in self._steps.items()]

    def refresh(self) -> None:
        """Prepare frozen weights again at the next call."""
        if self._prepared is not None:
            self._prepared.forget()

    def _ready(self, number: int, tensor: Tensor) -> Tensor:
        expected = self._strides.get(number)
        if expected is not None and tensor.stride() != expected:
            tensor = torch.empty_strided(tensor.shape, expected, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
        address = tensor.data_ptr()
        return in_memory(tensor) if address & _ALIGNMENT or (not address and tensor.numel()) else tensor

    def _unrolled(self) -> Callable | None:
        """A function without loops for the usual call; None for a program that is called in another way."""
        executable = self._executable
        count = len(self.program.launch_plan().arguments) - len(self._constants) - (self._prepared.count if self._prepared else 0)
        if isinstance(executable, CpuExecutable):
            from inferno.runtime.call.cpu import add_native_call

            text = begin_segment(count, self._strides, self._run, self._filled, prepared=self._prepared)
        elif isinstance(executable, GpuExecutable):
            from inferno.runtime.call.gpu import add_native_call, gpu_conditions

            text = begin_segment(count, self._strides, self._run, self._filled, gpu_conditions(self._prepared), self._prepared)
        else:
            return None
        if any(executable.plan.outputs[i].result != i for i in self._steps):
            return None
        results = add_native_call(text, executable, self._constants)
        if results is None:
            return None
        if self.written:
            text.scope["count_writes"] = torch.autograd.graph.increment_version
            changed = ", ".join(text.values[i] for i in self.written.values())
            text.lines.append(f"    count_writes([x for x in ({changed},) if not x.is_inference()])")  # of those there is no count
        text.scope.update({f"step{i}": step for i, step in self._steps.items() if step is not None})
        values = [y if step is None else f"step{i}({y})" for (i, step), y in zip(self._steps.items(), results)]
        text.lines.append(f"    return [{', '.join(values)}]")
        return text.compile()


def _step(output: Output, example: Tensor, number: int) -> Callable[[Tensor], Tensor] | None:
    """What makes an output from the plan's result: memory of its own, and the strides that eager has.  None: nothing."""
    shared = output.argument >= 0 or output.result != number
    size, stride, order = tuple(example.shape), tuple(example.stride()), dense_order(example)
    if order is None and all(type(s) is int for s in stride):
        return lambda r: torch.empty_strided(size, stride, dtype=r.dtype, device=r.device).copy_(r)
    if order is None or example.is_contiguous():  # (steps that vary between calls, as of what is copied to a slice of anything, have to be none in particular)
        return torch.clone if shared else None
    return (lambda r: r.clone().as_strided(size, stride)) if shared else (lambda r: r.as_strided(size, stride))

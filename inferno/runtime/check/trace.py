"""Run a compiled program kernel by kernel, and hold each kernel against the PyTorch program that it implements.

A kernel gets what the kernels before it made, so its error is its own.  The reference is the kernel's PyTorch program (see
``inferno.targets.torch_source``) in float64, and eager's result is the same program as it stands.  The kernels' machine code is
what the whole program runs; only the launch plan around it is another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inferno.errors import CheckError
from inferno.runtime.check.calls import Calls, Step
from inferno.runtime.check.comparison import Comparison
from inferno.runtime.check.expected import Expected, scope, widen
from inferno.runtime.elements import DTYPES
from inferno.runtime.executables import further_arguments, make_executable
from inferno.runtime.program import Program
from inferno.runtime.workers.pool import pool
from inferno.targets.torch_source import Source, python_name


@dataclass(frozen=True)
class KernelCheck:
    """One call of a kernel: ``comparison`` of its worst result, None where it could not be made, and why (``note``)."""

    kernel: str
    source: tuple[str, ...]
    comparison: Comparison | None
    note: str = ""

    @property
    def right(self) -> bool:
        return self.comparison is None or self.comparison.right


class Tracer:
    """Runs one program kernel by kernel.  Raises CheckError where its text does not tell the calls."""

    def __init__(self, program: Program, device: torch.device) -> None:
        if "scheduled" not in program.stages:
            raise CheckError("the program's IR was not kept, so its kernels cannot be told apart")
        self._program, self._device = program, device
        text = program.stages["scheduled"]
        self.calls: Calls = pool().run("reading the calls", "calls_of", text=text)
        self.source: Source = pool().run("writing the kernels in PyTorch", "to_pytorch", text=text)
        self._runners: dict[str, Any] = {}

    def run(self, arguments: Sequence[Tensor]) -> Iterator[KernelCheck]:
        """Each kernel call in order, for the arguments of ``@main``, which are not written to."""
        values: dict[int, Tensor] = dict(enumerate([*arguments, *further_arguments(self._program, self._device, arguments)]))
        last = {n: i for i, step in enumerate(self.calls.steps) for n in step.operands}
        for i, step in enumerate(self.calls.steps):
            given = [values[n] for n in step.operands]
            if step.kernel:
                results = self.run_kernel(step.kernel, given)
                yield self._check(step, given, results)
            elif given:
                results = [given[0].view(step.shapes[0])]
            else:
                results = [torch.empty(step.shapes[0], dtype=DTYPES[step.element], device=self._device)]
            values.update(zip(step.results, results))
            for n in step.operands:
                if last[n] == i:
                    values.pop(n, None)

    def run_kernel(self, kernel: str, given: Sequence[Tensor]) -> list[Tensor]:
        """The results of one kernel, by its compiled code."""
        if kernel not in self._runners:
            made = self._program.kernels[kernel]
            text, plan, _ = pool().run(f"planning @{kernel}", "plan", scheduled=self.calls.alone[kernel], modules={kernel: made.module})
            part = Program(None, self._program.target, {"gpu": text}, {kernel: made}, [], [], plan)
            dtypes = [DTYPES[o.element] for o in part.launch_plan().outputs]
            self._runners[kernel] = make_executable(part, self._device, dtypes)
        aligned = [t.contiguous() if t.data_ptr() % 16 == 0 and t.is_contiguous() else t.contiguous().clone() for t in given]
        return self._runners[kernel].run(aligned)

    def _check(self, step: Step, given: Sequence[Tensor], results: list[Tensor]) -> KernelCheck:
        name, source = step.kernel, self.source
        if name in source.missing:
            return KernelCheck(name, step.source, None, f"no PyTorch form: {source.missing[name]}")
        try:
            expected = Expected(source.text, python_name(name), source.roundings[name], name in source.tf32, given, results, self._device)
        except (RuntimeError, IndexError, ZeroDivisionError, TypeError) as error:
            return KernelCheck(name, step.source, None, f"its PyTorch form fails: {type(error).__name__}: {str(error).splitlines()[0]}")
        return KernelCheck(name, step.source, expected.compare(results))


def evaluate(source: Source, arguments: Sequence[Tensor], device: torch.device, wide: bool = True) -> list[Tensor]:
    """The results of ``@main`` of a program in PyTorch, in float64 or as it stands.  NotImplementedError where it has no PyTorch form."""
    given = [t.view(torch.int8) if t.dtype is torch.uint8 else t for t in arguments]
    with torch.no_grad(), torch.device(device):
        made = scope(source.text, wide)["main"](*[widen(t) if wide else t for t in given])
    return [made] if isinstance(made, Tensor) else list(made)

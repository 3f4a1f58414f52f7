"""Run a compiled program kernel by kernel, and hold each kernel against the PyTorch program that it implements.

A kernel gets what the kernels before it made, so its error is its own.  The reference is the kernel's PyTorch program (see
``inferno.targets.torch_source``) in float64, and eager's result is the same program as it stands.  The kernels' machine code is
what the whole program runs; only the launch plan around it is another.
"""

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inferno.errors import CheckError
from inferno.runtime.check.calls import Calls, Step
from inferno.runtime.check.comparison import Comparison, compare_leaf, relative_error
from inferno.runtime.elements import DTYPES
from inferno.runtime.module import further_arguments, make_executable
from inferno.runtime.check.perturbation import FLOAT64_TO_FLOAT32, run_perturbed
from inferno.runtime.program import Program
from inferno.runtime.workers.pool import pool
from inferno.targets.torch_source import Source, python_name

_NARROW = ("f32", "f16", "bf16")
_TF32 = 2.0**-10


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
        self._own = _scope(self.source.text, wide=False)
        self._exact = _scope(self.source.text, wide=True)
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
            text, plan = pool().run(f"planning @{kernel}", "plan", scheduled=self.calls.alone[kernel], modules={kernel: made.module})
            part = Program(None, self._program.target, {"gpu": text}, {kernel: made}, [], [], plan)
            dtypes = [DTYPES[o.element] for o in part.launch_plan().outputs]
            self._runners[kernel] = make_executable(part, self._device, dtypes)
        aligned = [t.contiguous() if t.data_ptr() % 16 == 0 and t.is_contiguous() else t.contiguous().clone() for t in given]
        return self._runners[kernel].run(aligned)

    def _check(self, step: Step, given: Sequence[Tensor], results: list[Tensor]) -> KernelCheck:
        name = step.kernel
        if name in self.source.missing:
            return KernelCheck(name, step.source, None, f"no PyTorch form: {self.source.missing[name]}")
        signed = [t.view(torch.int8) if t.dtype is torch.uint8 else t for t in given]
        try:
            eager = self._call(self._own[python_name(name)], signed, results)
            exact = self._call(self._exact[python_name(name)], [_widen(t) for t in signed], results)
        except (RuntimeError, IndexError, ZeroDivisionError, TypeError) as error:
            return KernelCheck(name, step.source, None, f"its PyTorch form fails: {type(error).__name__}: {str(error).splitlines()[0]}")
        unit = self._unit(name)
        worst = Comparison(0.0, 0.0, 0.0)
        for i, (a, b, c) in enumerate(zip(results, eager, exact, strict=True)):
            label = f"result {i}" if len(results) > 1 else "its result"
            found = compare_leaf(label, a, b, c, unit(b.dtype))
            if not found.right and b.is_floating_point() and found.error < float("inf"):
                found = compare_leaf(label, a, b, c, unit(b.dtype), self._own_error(name, signed, results, i, b, c))
            elif not found.right and not b.is_floating_point() and torch.equal(a, c):
                found = Comparison(0.0, 0.0, 0.0)  # a rounding decided, and eager's decided otherwise than float64's
            if not found.right:
                return KernelCheck(name, step.source, found)
            worst = found if found.error >= worst.error else worst
        return KernelCheck(name, step.source, worst)

    def _own_error(self, name: str, given: Sequence[Tensor], results: list[Tensor], i: int, eager: Tensor, exact: Tensor) -> float:
        """Eager's error beyond luck (see ``perturbation``)."""
        runs = run_perturbed(lambda: self._call(self._own[python_name(name)], given, results))
        found = max(relative_error(run[i], eager, exact) for run in runs)
        if eager.dtype is torch.float64:
            half = [t.float() if t.dtype is torch.float64 else t for t in given]
            scope = {**self._own, "f64": torch.float32}
            function = types.FunctionType(self._own[python_name(name)].__code__, scope)
            found = max(found, relative_error(self._call(function, half, results)[i], eager, exact) * FLOAT64_TO_FLOAT32)
        return found

    def _call(self, function: Callable, given: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad(), torch.device(self._device):
            made = function(*given, *(torch.empty_like(r) for r in results))
        return [made] if isinstance(made, Tensor) else list(made)

    def _unit(self, kernel: str) -> Callable[[torch.dtype], float | None]:
        """The rounding unit of a kernel's results: of the coarsest type that it rounds to on its way."""
        rounded = [torch.finfo(DTYPES[n]).eps for n in self.source.roundings[kernel]]
        tf32 = [_TF32] if kernel in self.source.tf32 else []
        return lambda dtype: max([torch.finfo(dtype).eps, *rounded, *tf32]) if dtype.is_floating_point else None


def evaluate(source: Source, arguments: Sequence[Tensor], device: torch.device, wide: bool = True) -> list[Tensor]:
    """The results of ``@main`` of a program in PyTorch, in float64 or as it stands.  NotImplementedError where it has no PyTorch form."""
    given = [t.view(torch.int8) if t.dtype is torch.uint8 else t for t in arguments]
    with torch.no_grad(), torch.device(device):
        made = _scope(source.text, wide)["main"](*[_widen(t) if wide else t for t in given])
    return [made] if isinstance(made, Tensor) else list(made)


def _scope(text: str, wide: bool) -> dict[str, Any]:
    """The functions of a program in PyTorch; ``wide``: with float64 in the place of every floating-point type."""
    scope: dict[str, Any] = {}
    exec(compile(text, "<kernels in PyTorch>", "exec"), scope)
    if wide:
        scope.update(dict.fromkeys(_NARROW, torch.float64))
    return scope


def _widen(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


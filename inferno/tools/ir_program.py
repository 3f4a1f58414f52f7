"""IR in a file as something to call: ``IrProgram.read("kernel.mlir")(x, y)``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inferno.runtime.report import counted
from inferno.errors import InputError, LaunchError
from inferno.runtime.build import build_from
from inferno.runtime.check.comparison import Comparison, compare
from inferno.runtime.device import choose_target
from inferno.runtime.elements import DTYPES
from inferno.runtime.executables import further_arguments, make_executable
from inferno.runtime.plan.plan import Buffer
from inferno.runtime.program import Program
from inferno.runtime.check.trace import evaluate
from inferno.runtime.workers.pool import pool
from inferno.target import Target

# Integers may be indices: they stay below the smallest size that there is, and this.
_MOST = 8


@dataclass(frozen=True)
class IrProgram:
    """A compiled program without a signature: it takes ``@main``'s arguments, contiguous, and returns the list of its results."""

    program: Program
    device: torch.device
    stage: str
    arguments: tuple[Buffer, ...]
    executable: Any

    @staticmethod
    def read(path: str | Path, target: str | None = None, device: str | torch.device | None = None, matmul: str = "auto") -> "IrProgram":
        """Compile the file for ``target``; by default the GPU if there is one, else the CPU.  ``matmul`` is the option.

        InputError where the file cannot be read, is no program, or has sizes that vary.
        """
        where = torch.device(device or ("cuda" if torch.cuda.is_available() and target != "cpu" else "cpu"))
        machine = choose_target(target, where)
        text, stage = read_stage(path, machine)
        program = build_from(stage, text, machine, matmul=matmul)
        program = replace(program, stages={**program.stages, stage: text})
        plan = program.launch_plan()
        kept = len(program.preparation.plan.outputs) if program.preparation is not None else 0
        given = plan.arguments[: len(plan.arguments) - len(program.constants) - kept]
        if any(not isinstance(n, int) for b in (*given, *plan.outputs) for n in b.shape):
            raise InputError(f"{path}: its sizes vary; give them numbers in the file")
        executable = make_executable(program, where, [DTYPES[o.element] for o in plan.outputs])
        return IrProgram(program, where, stage, tuple(given), executable)

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        if self.executable is None:
            raise LaunchError(f"compiled for {self.program.target.name}, which is not what {self.device} is")
        if len(tensors) != len(self.arguments):
            raise InputError(f"expected {len(self.arguments)} tensors, got {len(tensors)}")
        ready = []
        for i, (tensor, expected) in enumerate(zip(tensors, self.arguments)):
            if tuple(tensor.shape) != tuple(expected.shape) or tensor.dtype.itemsize != DTYPES[expected.element].itemsize:
                shape, dtype = tuple(expected.shape), DTYPES[expected.element]
                raise InputError(f"argument {i}: expected {shape} {dtype}, got {tuple(tensor.shape)} {tensor.dtype}")
            dense = tensor.to(self.device).contiguous()
            ready.append(dense.clone() if dense.data_ptr() % 16 or dense.data_ptr() == tensor.data_ptr() else dense)
        with torch.no_grad():
            return list(self.executable.run([*ready, *further_arguments(self.program, self.device, ready)]))

    def random_inputs(self, seed: int = 0) -> list[Tensor]:
        """Normal numbers; integers that are indices into every tensor among the arguments; coins."""
        return random_inputs([(tuple(b.shape), b.element) for b in self.arguments], seed, self.device)

    def check(self, tensors: Sequence[Tensor]) -> Comparison | str:
        """Its results against those of the PyTorch program that its text stands for; why there is none, if there is none."""
        if self.stage not in ("linalg", "fused", "scheduled"):
            return f"stage {self.stage} has no PyTorch form"
        source = pool().run("writing the program in PyTorch", "to_pytorch", text=self.program.stages[self.stage])
        if source.missing:
            name, reason = next(iter(source.missing.items()))
            return f"@{name} has no PyTorch form: {reason}"
        return compare(self(*tensors), evaluate(source, tensors, self.device, wide=False), evaluate(source, tensors, self.device))


def read_stage(path: str | Path, target: Target) -> tuple[str, str]:
    """The text of a file of IR, and the stage that it is at; InputError names the file where it cannot be read, or is no program."""
    try:
        text = Path(path).read_text()
        return text, pool().run(f"reading {path}", "stage_of", text=text, target=target.name)
    except (OSError, UnicodeDecodeError, InputError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def random_inputs(types: Sequence[tuple[tuple[int, ...], str]], seed: int, device: torch.device | str) -> list[Tensor]:
    """Tensors of shapes and element types, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    below = max(1, min([_MOST, *(n for shape, _ in types for n in shape if n)]))
    made = []
    for shape, element in types:
        dtype = DTYPES[element]
        if dtype.is_floating_point:
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
        elif dtype is torch.bool:
            values = torch.rand(shape, generator=generator) > 0.5
        else:
            values = torch.randint(0, below, shape, generator=generator)
        made.append(values.to(dtype).to(device))
    return made


def run_file(path: str, target: str | None, matmul: str = "auto") -> int:
    """What ``inferno run FILE.mlir`` does: the exit status."""
    program = IrProgram.read(path, target, matmul=matmul)
    inputs = program.random_inputs()
    results = program(*inputs)
    found = program.check(inputs)
    made = ", ".join(f"{tuple(r.shape)} {str(r.dtype).removeprefix('torch.')}" for r in results)
    verdict = f"not checked: {found}" if isinstance(found, str) else str(found)
    print(f"{path}: {counted(len(program.program.kernels), 'kernel')} on {program.program.target.name}, gives {made or 'nothing'}; {verdict}")
    return 0 if isinstance(found, str) or found.right else 1

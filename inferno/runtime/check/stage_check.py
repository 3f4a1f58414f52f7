"""Where a program goes wrong when each of its kernels computes what its IR says: the stage, and the pass.

Each stage's text is evaluated as a PyTorch program in float64; the first that differs from the stage before it is wrong.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.runtime.executables import further_arguments
from inferno.runtime.program import Program
from inferno.runtime.check.trace import evaluate
from inferno.runtime.workers.pool import pool

# float64 sums of different orders differ by far less, float32 constants folded in another way by about this.
_SAME = 1e-5


def find_stage(program: Program, arguments: Sequence[Tensor], device: torch.device) -> str:
    """A clause that says which stage, or which pass, changes what the program computes."""
    held = [s for s in ("linalg", "fused", "scheduled") if s in program.stages]
    if len(held) < 2:
        return "the IR of the stages was not kept, so where it goes wrong cannot be told"
    constants = further_arguments(program, device, arguments)
    before = None
    for stage in held:
        count = _arguments_of(program.stages[stage])
        try:
            values = _evaluate(program.stages[stage], [*arguments, *constants][:count], device)
        except (NotImplementedError, RuntimeError, IndexError, TypeError) as error:
            return f"stage {stage} has no PyTorch form, so where it goes wrong cannot be told: {error}"
        if before is not None and not _same(before, values):
            name = _find_pass(program, arguments, constants, before, device) if stage == "fused" else ""
            return f"what it computes changes on the way to stage {stage}" + (f", in pass {name}" if name else "")
        before = values
    launched = "the launch plan (memory or order of the kernels), or the capture and import before stage linalg"
    return f"the stages linalg to scheduled agree: it is {launched}"


def _find_pass(program: Program, arguments: Sequence[Tensor], constants: list[Tensor], expected: list[Tensor], device: torch.device) -> str:
    """The first pass after which the program computes something else; "" if that cannot be told."""
    fused = pool().run("fusing the program again", "fuse", text=program.stages["linalg"], target=program.target.name, record=True)
    for record in fused.passes:
        count = _arguments_of(record.after)
        try:
            values = _evaluate(record.after, [*arguments, *constants][:count], device)
        except (NotImplementedError, RuntimeError, IndexError, TypeError):
            continue
        if not _same(expected, values):
            return record.name
    return ""


def _evaluate(text: str, arguments: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    return evaluate(pool().run("writing a stage in PyTorch", "to_pytorch", text=text), arguments, device)


def _arguments_of(text: str) -> int:
    return pool().run("counting arguments", "argument_count", text=text)


def _same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b))


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or not torch.equal(a.isfinite(), b.isfinite()):
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    finite = a.isfinite()
    norm = a[finite].double().norm().item()
    return (a[finite].double() - b[finite].double()).norm().item() <= _SAME * (norm or 1.0)

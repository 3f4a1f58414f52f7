"""A compiled program as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferno.capture.signature import Signature
from inferno.errors import OptionError
from inferno.options import STAGES
from inferno.runtime.plan.kernel import Kernel, PassRecord
from inferno.runtime.plan.plan import Plan, Preparation, read_plan
from inferno.target import Target


@dataclass(frozen=True)
class Program:
    """All that compiling made, as data: text by stage, compiled kernels by name, the passes as they ran.

    ``preparation`` makes the last of the plan's arguments of frozen ones.

    A program that was read as IR has no signature, and no stages before the one that it was read at.  One that comes from a
    package has its ``plan`` as data, and of the stages those that were saved.  ``known``: what was known of its kernels' best schedules when it was
    compiled, as ``database.answers`` has it.
    """

    signature: Signature | None
    target: Target
    stages: dict[str, str]
    kernels: dict[str, Kernel]
    constants: list[tuple[str, tuple[int, ...], bytes]]
    passes: list[PassRecord]
    plan: Plan | None = None
    preparation: Preparation | None = None
    known: Mapping[str, str] = field(default_factory=dict)

    def launch_plan(self) -> Plan:
        """What the ``gpu`` stage's ``@main`` launches, as data."""
        return self.plan or read_plan(self.stages["gpu"])

    def ir(self, stage: str) -> str:
        """The program's text at ``stage``, one of torch, linalg, fused, scheduled, gpu, llvm, ptx, sass."""
        if stage not in STAGES:
            raise OptionError(f"unknown stage {stage!r}; the stages are {', '.join(STAGES)}")
        if stage in self.stages:
            return strip_locations(self.stages[stage])
        if stage not in ("llvm", "ptx", "sass"):
            raise OptionError(f"the text of stage {stage!r} is not held; held are {', '.join(self.stages) or 'none'}")
        if self.target.kind == "cpu" and stage in ("ptx", "sass"):
            raise OptionError(f"stage {stage!r} is for GPUs; this program was compiled for the cpu target")
        parts = []
        for kernel in self.kernels.values():
            text = kernel.llvm if stage == "llvm" else kernel.ptx if stage == "ptx" else _sass(kernel)
            if text:
                parts.append(f"// ----- {kernel.name}\n{text.rstrip()}\n")
        return "\n".join(parts)


def _sass(kernel: Kernel) -> str:
    from inferno.targets.sass import disassemble

    return disassemble(kernel.cubin) if kernel.cubin else ""


def strip_locations(text: str) -> str:
    """MLIR text without ``loc(...)``: what a reader wants to see."""
    if " loc(" not in text:
        return text
    from inferno.mlir import parse

    return parse(text).operation.get_asm(enable_debug_info=False)

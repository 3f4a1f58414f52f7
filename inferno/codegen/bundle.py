"""Independent small kernels in one launch: each is made by its own generator from its part of the kernel function, and is an arm of one kernel
(see ``arms``)."""

from importlib import import_module

from inferno.codegen.arms import members_of, merge
from inferno.mlir import func
from inferno.schedule.bundle import Bundle
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Bundle, target: Target) -> None:
    """Add the ``gpu.module`` of the one kernel and make ``kernel`` its launcher."""

    def make(number: int, part: func.FuncOp) -> None:
        own = schedule.parts[number]
        import_module(f"inferno.codegen.{own.generator}").generate(part, own, target)

    merge(kernel, members_of(kernel, schedule.parts, make))

"""Independent small kernels in one launch: each is made by its own generator from its part of the kernel function, and is an arm of one kernel
(see ``arms``)."""

from importlib import import_module

from inferno.codegen.composite.arms import members_of, merge
from inferno.mlir import func
from inferno.schedule.attributes import module_of
from inferno.schedule.composite.bundle import Bundle
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Bundle, target: Target) -> None:
    """Add the ``gpu.module`` of the one kernel and make ``kernel`` its launcher."""

    def make(number: int, part: func.FuncOp) -> None:
        own = schedule.parts[number]
        import_module(module_of(own.generator, "codegen")).generate(part, own, target)

    merge(kernel, members_of(kernel, schedule.parts, make))

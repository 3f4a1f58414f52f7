"""Independent small kernels in one launch: each is made by its own generator from its part of the kernel function, and is an arm of one kernel
(see ``arms``)."""

from importlib import import_module
from typing import Any

from inferno.codegen.arms import Arm, Member, merge
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.bundle import Bundle
from inferno.schedule.kernel_parts import anonymous, extract, parts_of
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Bundle, target: Target) -> None:
    """Add the ``gpu.module`` of the one kernel and make ``kernel`` its launcher."""
    name, groups = kernel.name.value, parts_of(kernel)
    if len(groups) != len(schedule.parts):
        raise CompileError(f"@{name} has {len(groups)} independent parts, and {schedule} is for {len(schedule.parts)}")
    arms: dict[tuple[str, Any], Arm] = {}
    members = []
    for i, (group, own) in enumerate(zip(groups, schedule.parts)):
        with ir.InsertionPoint(kernel.operation), kernel.location:
            part, numbers = extract(kernel, group, f"{name}_{i}")
        key = anonymous(part), own
        if key in arms:
            part.operation.erase()
        else:
            import_module(f"inferno.codegen.{own.generator}").generate(part, own, target)
            arms[key] = Arm.find(kernel, f"{name}_{i}")
        members.append(Member(arms[key], numbers))
    merge(kernel, members)

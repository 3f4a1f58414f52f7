"""Several independent contractions in one launch: each is made by its own generator from its part of the kernel function, and is an arm of one
kernel (see ``arms``)."""

from dataclasses import replace
from importlib import import_module

from inferno.codegen.arms import Arm, Member, merge
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.kernel_parts import anonymous, extract, parts_of
from inferno.schedule.siblings import Siblings
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Siblings, target: Target) -> None:
    """Add the ``gpu.module`` of the one kernel and make ``kernel`` its launcher."""
    name = kernel.name.value
    blocks = [int(b) for b in schedule.blocks.split()]
    groups = parts_of(kernel)
    if len(groups) != len(blocks):
        raise CompileError(f"@{name} has {len(groups)} independent parts, and {schedule} is for {len(blocks)}")
    arms: dict[tuple[str, int], Arm] = {}
    members = []
    for i, (group, count) in enumerate(zip(groups, blocks)):
        with ir.InsertionPoint(kernel.operation), kernel.location:
            part, numbers = extract(kernel, group, f"{name}_{i}")
        key = anonymous(part), count
        if key in arms:
            part.operation.erase()
        else:
            own = count if getattr(schedule.each, "persistent", False) else max(1, target.multiprocessors * count // sum(blocks))
            import_module(f"inferno.codegen.{schedule.each.generator}").generate(part, schedule.each, replace(target, multiprocessors=own))
            arms[key] = Arm.find(kernel, f"{name}_{i}", count if getattr(schedule.each, "persistent", False) else None)
        members.append(Member(arms[key], numbers))
    merge(kernel, members)

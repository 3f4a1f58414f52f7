"""Several independent contractions in one launch: each is made by its own generator from its part of the kernel function, and is an arm of one
kernel (see ``arms``)."""

from dataclasses import replace
from importlib import import_module

from inferno.codegen.composite.arms import members_of, merge
from inferno.mlir import func
from inferno.schedule.attributes import module_of
from inferno.schedule.composite.siblings import Siblings
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Siblings, target: Target) -> None:
    """Add the ``gpu.module`` of the one kernel and make ``kernel`` its launcher."""
    each, blocks = schedule.each, [int(b) for b in schedule.blocks.split()]
    walks = getattr(each, "persistent", False)  # over tiles, of which there may be fewer than blocks

    def make(number: int, part: func.FuncOp) -> int | None:
        count = blocks[number]
        own = count if walks else max(1, target.multiprocessors * count // sum(blocks))
        import_module(module_of(each.generator, "codegen")).generate(part, each, replace(target, multiprocessors=own))
        return count if walks else None

    merge(kernel, members_of(kernel, blocks, make))

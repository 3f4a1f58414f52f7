"""Copies of the old tensors that results with a changed slice begin as, in front of the kernel; each is left out where both are one buffer."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.gpu_function import gpu_function, integers_for, parameters_of
from inferno.codegen.builders.launcher import launch, pointer
from inferno.codegen.maps.flat_copy import THREADS, copy_blocks, copy_lanes, emit_copy
from inferno.mlir import func, ir
from inferno.passes.shapes import shape
from inferno.schedule.analysis.written_parts import Begin
from inferno.symbolic import Int, product, reach


@dataclass(frozen=True)
class BeginCopy:
    """A kernel of ``module``, and between which of the launcher's arguments it copies."""

    module: str
    kernel: str
    begin: Begin
    blocks: Int

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        """In a launcher."""
        buffers = [pointer(arguments[n]) for n in (self.begin.source, self.begin.target)]
        launch(self.module, self.kernel, buffers, (self.blocks, 1, 1), (THREADS, 1, 1), copies=True)


def copy_begins(kernel: func.FuncOp, begins: Sequence[Begin]) -> list[BeginCopy]:
    """Add a copy of each to the ``gpu.module`` of a kernel function."""
    name, made = kernel.name.value, []
    for number, begin in enumerate(begins):
        source, target = (kernel.entry_block.arguments[n] for n in (begin.source, begin.target))
        buffers = parameters_of(kernel, {begin.target})
        blocks, lanes, count, suffix = copy_blocks(source, target), copy_lanes(source, target), product(shape(target)), f"_begin{number or ''}"
        width = 32 if reach(blocks * THREADS * lanes) < 2**31 else 64
        with gpu_function(kernel, [buffers[begin.source], buffers[begin.target]], THREADS, suffix=suffix) as function:
            emit_copy(integers_for(kernel, width, {}), *function.buffers, lanes, count)
        made.append(BeginCopy(f"{name}_gpu", f"{name}{suffix}", begin, blocks))
    return made

"""On a GPU, fuse the maps before and after a scan into its kernel, so that its input and output need not go through memory.

``fuse-reductions`` has made scans beside reductions of the same rows part of their kernels before.  A map in front joins if nothing else reads its
results, one behind if it needs nothing that waits for the group.  That always pays: each saves a pass over memory, and a scan has arithmetic to spare.
Flips in front and behind join, too: what they flip is read or written from the end, whole vectors at once.
"""

from inferno.mlir import func, ir, walk
from inferno.passes.programs import callee
from inferno.schedule.passes.adjacent_maps import join_maps
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.scans import scans
from inferno.target import Target, find_target

def fuse_scans(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def is_scan(kernel: func.FuncOp | None) -> bool:
        return kernel is not None and len(walk(kernel, "tm_tensor.scan")) == 1 and _is_taken(kernel, machine)

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed = False
        for call in [c for c in walk(main, "func.call") if is_scan(kernels.get(callee(c)))]:  # what joins one is erased, and is none
            changed |= join_maps(module, main, kernels, call, lambda kernel: _is_taken(kernel, machine))
        return changed

    merge_in(module, merge)


def _is_taken(kernel: func.FuncOp, target: Target) -> bool:
    return scans.read(kernel, target) is not None or scans.read_sized(kernel, target) is not None

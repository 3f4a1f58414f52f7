"""Let a kernel begin before the one in front of it in the stream has ended (programmatic dependent launch, sm_90 and up).

A kernel launched that way comes to the multiprocessors early, and waits there: what it costs to launch it lies under the other's
end.  Nothing of global memory may be read or written before the wait, so it is the first thing that a kernel does, unless its
generator found a better place for it.
"""

from inferno.mlir import ir, nvvm, walk


def await_kernels(module: ir.Module) -> None:
    """Let the next kernel come at the beginning of every kernel of the LLVM dialect, and then wait for those before it."""
    with module.context, ir.Location.unknown():
        for kernel in walk(module.operation, "llvm.func"):
            if "nvvm.kernel" not in kernel.attributes or not len(kernel.regions[0].blocks) or walk(kernel, "nvvm.griddepcontrol"):
                continue
            with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]):
                await_predecessors()


def await_predecessors() -> None:
    """Let the next kernel be launched, and wait until the kernels in front have ended and their results are in memory.

    The next one waits for this one, which ends behind those that it waits for itself.  It comes when all of this one's blocks have begun, so it takes no room
    that these need.
    """
    for action in ("launch_dependents", "wait"):
        nvvm.GriddepcontrolOp(nvvm.GridDepActionKind[action])

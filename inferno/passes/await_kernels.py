"""Let a kernel begin before the one in front of it in the stream has ended (programmatic dependent launch, sm_90 and up).

A kernel launched that way comes to the multiprocessors early, and waits there: what it costs to launch it lies under the other's
end.  Nothing of global memory may be read or written before the wait, so it is the first thing that a kernel does, unless its
generator found a better place for it.
"""

from inferno.mlir import ir, nvvm, walk


def await_kernels(module: ir.Module) -> None:
    """Begin every kernel of the LLVM dialect with a wait for the kernels before it, and then let the next one come."""
    with module.context, ir.Location.unknown():
        for kernel in walk(module.operation, "llvm.func"):
            if "nvvm.kernel" not in kernel.attributes or not len(kernel.regions[0].blocks) or walk(kernel, "nvvm.griddepcontrol"):
                continue
            with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]):
                await_predecessors()


def await_predecessors() -> None:
    """Wait until the kernels in front have ended and their results are in memory, and then let the next one be launched."""
    for action in ("wait", "launch_dependents"):
        nvvm.GriddepcontrolOp(nvvm.GridDepActionKind[action])

"""Let a kernel begin before the one in front of it in the stream has ended (programmatic dependent launch, sm_90 and up).

A kernel launched that way comes to the multiprocessors early, and waits there: what it costs to launch it lies under the other's
end.  Nothing of global memory may be read or written before the wait, so it is the first thing that a kernel does, unless its
generator found a better place for it.

When the next one may come depends on what that is (``mark-successors``).  A kernel of ours waits itself, for this one, which ends behind those that it waits
for: it may come when all of this one's blocks have begun, whether these wait or not.  A library's is never asked to come early.  Of what is not known,
which is behind a program's last kernel, only that is asked: to come when this one no longer waits.
"""

from inferno.mlir import ir, nvvm, walk
from inferno.passes.programs import SUCCESSOR


def await_kernels(module: ir.Module) -> None:
    """Begin every kernel of the LLVM dialect with a wait for the kernels before it, and let the next one come in front of it, behind it, or not at all."""
    with module.context, ir.Location.unknown():
        for kernel in walk(module.operation, "llvm.func"):
            if "nvvm.kernel" not in kernel.attributes or not len(kernel.regions[0].blocks):
                continue
            if not walk(kernel, "nvvm.griddepcontrol"):
                with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]):
                    await_predecessors()
            controls = walk(kernel, "nvvm.griddepcontrol")
            if all("wait" in str(c.attributes["kind"]) for c in controls):
                for wait in controls:
                    _let_come(wait, _successor(kernel))


def await_predecessors() -> None:
    """Wait until the kernels in front have ended and their results are in memory."""
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.wait)


def _successor(kernel: ir.Operation) -> str:
    """What a kernel's module says of what comes behind it."""
    module = kernel.parent.operation
    return ir.StringAttr(module.attributes[SUCCESSOR]).value if SUCCESSOR in module.attributes else ""


def _let_come(wait: ir.Operation, successor: str) -> None:
    if successor != "library":
        made = nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents, ip=ir.InsertionPoint(wait))
        if successor != "kernel":
            wait.move_before(made.operation)

"""Mark kernels by what is launched behind them (``inferno.successor``): another kernel of the program, wherever they are called, or a library's.

A kernel can have the next one come before it waits itself where that one waits, too, as all of ours do (see ``await-kernels``).  A library's need not.
"""

from inferno.mlir import func, ir
from inferno.passes.programs import SUCCESSOR, callee, main_and_kernels, operations_in, programs
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.attributes import ATTRIBUTE

_LIBRARY = "cublaslt"


def mark_successors(module: ir.Module) -> None:
    """Say it of the kernels of a module at the ``scheduled`` stage: "kernel", or "library" where that is called behind any of the calls.  Of the last ones of
    a program nothing is said."""
    _, kernels = main_and_kernels(module)
    found: dict[str, set[str]] = {}
    for program in programs(module):
        called = [callee(o) for o in operations_in(program) if o.name == "func.call"]
        for place, name in enumerate(called):
            found.setdefault(name, set()).update(_behind([kernels[n] for n in called[place + 1:]]))
    with module.context:
        for name, behind in found.items():
            if "library" in behind or behind == {"kernel"}:
                kernels[name].attributes[SUCCESSOR] = ir.StringAttr.get("library" if "library" in behind else "kernel")


def _behind(kernels: list[func.FuncOp]) -> set[str]:
    """What may come first of these: one whose sizes vary has no blocks, and is not launched, where its results are empty."""
    found = set()
    for kernel in kernels:
        found.add("library" if _is_library(kernel) else "kernel")
        if not symbol_arguments(kernel.operation):
            return found
    return {*found, "end"}


def _is_library(kernel: func.FuncOp) -> bool:
    """Whether a library computes a kernel, or may for some sizes."""
    return ATTRIBUTE in kernel.attributes and _LIBRARY in str(kernel.attributes[ATTRIBUTE])

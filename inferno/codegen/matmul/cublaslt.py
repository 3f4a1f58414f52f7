"""The generator of contractions that cuBLASLt computes: the launcher is an ``inferno.library``, with a workspace for it, and where the library has
no such epilogue, an elementwise kernel behind it."""

from dataclasses import replace

from inferno.codegen.builders import launcher as host
from inferno.codegen.maps import elementwise
from inferno.errors import CompileError
from inferno.library_matmul import FUNCTION
from inferno.mlir import clone_onto, func, ir, walk
from inferno.schedule.maps.elementwise import choose
from inferno.schedule.matmul.contraction_parts import Part, Temporary
from inferno.schedule.matmul.cublaslt import CublasLt, Refused, recognise
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: CublasLt, target: Target) -> None:
    """Make ``kernel`` the launcher of a call; CompileError says why cuBLASLt does not compute it."""
    try:
        found = recognise(kernel)
    except Refused as error:
        raise CompileError(f"cuBLASLt does not compute @{kernel.name.value}: {error}") from error
    if found is None:
        raise CompileError(f"cuBLASLt does not compute @{kernel.name.value}: it multiplies no matrices")
    call, operands = replace(found.call, algorithm=schedule.algorithm), list(found.arguments)
    with kernel.context, ir.Location.unknown():
        after = None if found.after is None else _generate_after(kernel, found.after, target)
        with host.launcher(kernel) as arguments:
            workspace = host.temporary((schedule.workspace,), ir.IntegerType.get_signless(8))
            temporaries = {b: host.temporary(b.shape, b.element) for b in (found.after.buffers if after else ()) if isinstance(b, Temporary)}
            place = {**dict(enumerate(arguments)), **temporaries, -1: temporaries.get(found.sums)}
            buffers = [workspace if role == "workspace" else place[operands.pop(0)] for role in call.roles]
            host.library([host.pointer(b) for b in buffers], FUNCTION, call.options())
            if after is not None:
                known = dict(zip(after.entry_block.arguments, (place[b] for b in found.after.buffers)))
                for op in list(after.entry_block.operations)[:-1]:
                    clone_onto(op.operation, known)
                after.operation.erase()


def _generate_after(kernel: func.FuncOp, part: Part, target: Target) -> func.FuncOp:
    """The launcher of what comes of the sums, with its code in ``@<kernel>_gpu``, in front of ``kernel``."""
    name = kernel.name.value
    function = part.kernel.operation.clone(ip=ir.InsertionPoint(kernel.operation))
    function.attributes["sym_name"] = ir.StringAttr.get(f"{name}_after")
    elementwise.generate(function, choose(function, target), target)
    made = {ir.StringAttr(o.attributes["sym_name"]).value: o for o in kernel.operation.block.operations if "sym_name" in o.attributes}
    made[f"{name}_after_gpu"].attributes["sym_name"] = ir.StringAttr.get(f"{name}_gpu")
    for launch in walk(made[f"{name}_after"], "inferno.launch"):
        launch.attributes["kernel"] = ir.SymbolRefAttr.get([f"{name}_gpu", f"{name}_after"])
    return made[f"{name}_after"]

"""The generator of contractions that cuBLASLt computes: the launcher is an ``inferno.library``, with a workspace for it, and no code."""

from dataclasses import replace

from inferno.codegen import launcher as host
from inferno.errors import CompileError
from inferno.library_matmul import FUNCTION
from inferno.mlir import func, ir
from inferno.schedule.cublaslt import CublasLt, Refused, recognise
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
    with kernel.context, ir.Location.unknown(), host.launcher(kernel) as arguments:
        workspace = host.temporary((schedule.workspace,), ir.IntegerType.get_signless(8))
        buffers = [workspace if role == "workspace" else arguments[operands.pop(0)] for role in call.roles]
        host.library([host.pointer(b) for b in buffers], FUNCTION, call.options())

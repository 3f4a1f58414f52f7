"""Turn every scheduled kernel into GPU code: a ``gpu.module``, and a launcher in place of the kernel function."""

from importlib import import_module

from inferno.codegen.builders.float8 import round_by_instruction
from inferno.errors import PassError
from inferno.mlir import func, ir, walk
from inferno.passes.programs import MAIN, PREPARE, SUCCESSOR
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, module_of
from inferno.target import find_target


def generate_kernels(module: ir.Module, target: str) -> None:
    """Call ``inferno.codegen.<kind>.<generator>.generate(kernel, schedule, target)`` for each kernel function.

    ``@main`` calls launchers as if they were kernels still, which is not valid; plan-launches is to follow.
    """
    machine = find_target(target)
    for kernel in kernels(module):
        if ATTRIBUTE not in kernel.attributes:
            raise PassError(f"kernel @{kernel.name.value} has no {ATTRIBUTE}; run assign-schedules first")
        schedule, name = from_attribute(kernel.attributes[ATTRIBUTE]), kernel.name.value
        successor = kernel.attributes[SUCCESSOR] if SUCCESSOR in kernel.attributes else None
        import_module(module_of(schedule.generator, "codegen")).generate(kernel, schedule, machine)
        if successor is not None:
            _say(module, f"{name}_gpu", successor)
    if machine.kind == "nvptx":
        for op in walk(module.operation, "gpu.module"):
            round_by_instruction(op, machine)
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(module.context)
    for op in module.body.operations:
        if not isinstance(op, func.FuncOp) or op.name.value not in (MAIN, PREPARE):
            op.operation.verify()


def _say(module: ir.Module, code: str, successor: ir.Attribute) -> None:
    """Have a kernel's code say what its function said of what comes behind it; a library's kernels have none."""
    for op in module.body.operations:
        if op.operation.name == "gpu.module" and op.sym_name.value == code:
            op.operation.attributes[SUCCESSOR] = successor


generate_kernels.leaves_invalid = True

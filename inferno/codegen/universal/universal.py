"""The generator that takes every kernel: upstream's bufferization, then a plain kernel for each operation on buffers.

Nothing here is tuned for one kind of operation; what every kind shares is done well: temporaries only where a value needs one,
neighbouring threads on neighbouring elements, 32-bit offsets, running values in registers, long sums by many threads.
"""

from typing import Any

from inferno.codegen.builders import launcher as host
from inferno.codegen.universal.serial import serialise
from inferno.codegen.universal.to_buffers import to_buffers
from inferno.codegen.universal.to_launches import Launch, Launches
from inferno.mlir import func, ir, owner, run_upstream, walk
from inferno.passes.shapes import shape
from inferno.schedule.universal.universal import Universal
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Universal, target: Target) -> None:
    """Add ``gpu.module @<name>_gpu`` with one kernel or more, and make ``kernel`` their launcher."""
    generate_launches(kernel, schedule, target, Launches)


def generate_launches(kernel: func.FuncOp, schedule: Any, target: Target, form: type[Launches]) -> None:
    """The same with the kernels that ``form`` makes."""
    name = kernel.name.value
    with kernel.context, ir.Location.unknown():
        buffers = to_buffers(kernel)
        function = next(o for o in buffers.body.operations if isinstance(o, func.FuncOp))
        shell = ir.Module.parse(f'gpu.module @"{name}_gpu" {{ }}')
        module = shell.body.operations[0].operation
        if not len(module.regions[0].blocks):
            module.regions[0].blocks.append()
        _copy_constants(buffers, module)
        launches = form(function.operation, module, name, schedule, target).build()
        if walk(module, "linalg.generic", "scf.parallel"):
            run_upstream(shell, "gpu.module(convert-linalg-to-loops)")
            for loop in walk(module, "scf.parallel"):
                serialise(loop)
        if launches:
            ir.InsertionPoint(kernel.operation).insert(module.detach_from_parent())
        _launch(kernel, launches)


def _copy_constants(buffers: ir.Module, module: ir.Operation) -> None:
    """Tensors of constants are globals of the module on the device."""
    for op in buffers.body.operations:
        if op.operation.name == "memref.global":
            module.regions[0].blocks[0].append(op.operation.clone(ip=False))


def _launch(kernel: func.FuncOp, launches: list[Launch]) -> None:
    name = kernel.name.value
    with host.launcher(kernel) as arguments:
        temporaries: dict[ir.Value, ir.Value] = {}
        for launch in launches:
            parameters = []
            for buffer in launch.buffers:
                if owner(buffer) is None:
                    parameters.append(host.parameter(arguments[ir.BlockArgument(buffer).arg_number]))
                    continue
                if buffer not in temporaries:
                    temporaries[buffer] = host.temporary(shape(buffer), ir.MemRefType(buffer.type).element_type)
                parameters.append(host.pointer(temporaries[buffer]))
            host.launch(f"{name}_gpu", launch.kernel, parameters, (launch.blocks, 1, 1), (launch.threads, 1, 1), copies=launch.copies)

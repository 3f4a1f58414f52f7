"""The functions of a module that are programs: ``@main``, and ``@prepare``, which runs when weights have changed (see ``hoist-frozen``); they consist of
calls of kernels and of views between these."""

from collections.abc import Iterator

from inferno.mlir import func, ir, owner, terminator, users
from inferno.options import MATMUL
from inferno.passes.shapes import argument_attributes

MAIN, PREPARE = "main", "prepare"
FROZEN, FREEZE = "inferno.frozen", "inferno.freeze"
"""On an argument: it rarely changes; on ``@main``: so many bytes may be kept of what is prepared."""
WRITTEN = "inferno.written"
"""On an argument of ``@main``: a call writes to it what the program returns for it."""
PREPARED, ARGUMENT = "inferno.prepared", "inferno.argument"
"""On an argument of ``@main``: it is this result of ``@prepare``; on one of ``@prepare``: it is this argument of ``@main``."""

PRECISION = "inferno.precision"
"""On a kernel: "tf32" where its products of float32 numbers may be computed in TF32."""

SUCCESSOR = "inferno.successor"
"""On a kernel: what is launched behind it, "kernel" or "library"."""

UNMEASURED = "inferno.unmeasured"
"""On a module: generators may be chosen that no GPU has run yet."""

FEW = "inferno.few_multiprocessors"
"""On a module: a GPU here has fewer multiprocessors than the target, so blocks may not wait for as many others."""

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
VIEWS = frozenset({*RESHAPES, "tensor.cast"})
"""Operations that give a tensor another type and leave its memory."""


def find_main(module: ir.Module) -> func.FuncOp | None:
    """``@main``, if there is one."""
    return next((op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value == MAIN), None)


def anonymous(function: func.FuncOp) -> str:
    """The text of a function without its name: equal for those that compute the same.  It does not look at the rest of the module (0.03 s instead of 2.6 s for
    438 kernels)."""
    return function.operation.get_asm(enable_debug_info=False, use_local_scope=True, assume_verified=True).replace(f"@{function.name.value}(", "@(", 1)


def operations_in(function: func.FuncOp) -> list[ir.Operation]:
    """Those of its block; a copy, so that they may change meanwhile."""
    return [o.operation for o in function.entry_block.operations]


def returned(function: func.FuncOp) -> list[ir.Value]:
    """What a function of one block gives back."""
    return list(terminator(function.entry_block).operands)


def programs(module: ir.Module) -> list[func.FuncOp]:
    """``@main``, if there is one, and then ``@prepare``, if there is one."""
    found = {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value in (MAIN, PREPARE)}
    return [found[name] for name in (MAIN, PREPARE) if name in found]


def main_and_kernels(module: ir.Module) -> tuple[func.FuncOp | None, dict[str, func.FuncOp]]:
    """``@main``, if there is one, and the kernels by their names."""
    found = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external}
    return found.get(MAIN), {name: o for name, o in found.items() if name not in (MAIN, PREPARE)}


def frozen_weights(program: func.FuncOp) -> list[ir.Value]:
    """The arguments of ``@main`` of which ``prepare-operands`` may make copies."""
    if FREEZE not in program.attributes:
        return []
    entries = argument_attributes(program.operation)
    return [a for a, e in zip(program.regions[0].blocks[0].arguments, entries) if FROZEN in e or PREPARED in e]


def wants_library(module: ir.Module) -> bool:
    """Whether a library was asked for to compute the contractions (``matmul="library"``)."""
    return MATMUL in module.operation.attributes and ir.StringAttr(module.operation.attributes[MATMUL]).value == "library"


def takes_tf32(kernel: ir.OpView) -> bool:
    """Whether a kernel's products of float32 numbers may be computed in TF32."""
    return PRECISION in kernel.attributes and ir.StringAttr(kernel.attributes[PRECISION]).value == "tf32"


def keep_precision(kernel: ir.OpView, of: ir.OpView) -> None:
    """Let a kernel's products of float32 numbers be computed as those ``of`` another one, which it has taken."""
    if PRECISION in of.attributes:
        kernel.attributes[PRECISION] = of.attributes[PRECISION]


def takes_unmeasured(op: ir.Operation) -> bool:
    """Whether the module around ``op`` asks for generators that no GPU has run yet."""
    return _says(op, UNMEASURED)


def _says(op: ir.Operation, name: str) -> bool:
    """Whether the module around ``op`` has an attribute."""
    while op.name != "builtin.module":
        if op.parent is None:
            return False
        op = op.parent.operation
    return name in op.attributes


def has_few_multiprocessors(op: ir.Operation) -> bool:
    """Whether a GPU here has fewer than the target, as the module around ``op`` says."""
    return _says(op, FEW)


def callee(call: ir.Operation) -> str:
    """The name of what is called."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def is_written(value: ir.Value) -> bool:
    """Whether a value is an argument of the program, in whatever shape, that a call writes to."""
    root = root_of(value)
    if not isinstance(root, ir.BlockArgument) or not isinstance(root.owner.owner, func.FuncOp):
        return False
    return WRITTEN in argument_attributes(root.owner.owner.operation)[root.arg_number]


def root_of(value: ir.Value) -> ir.Value:
    """What a value is, maybe in another shape."""
    while (op := owner(value)) is not None and op.name in VIEWS:
        value = op.operands[0]
    return value


def whole_of(value: ir.Value) -> ir.Value:
    """What a value is, or is a part of, maybe in another shape."""
    while (op := owner(value)) is not None and op.name in (*VIEWS, "tensor.extract_slice"):
        value = op.operands[0]
    return value


def readers(value: ir.Value) -> Iterator[ir.Operation]:
    """Who reads a value, as it is or reshaped."""
    for user in users(value):
        if user.name in VIEWS:
            yield from readers(user.results[0])
        else:
            yield user

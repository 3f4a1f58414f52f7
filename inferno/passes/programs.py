"""The functions of a module that are programs: ``@main``, and ``@prepare``, which runs when weights have changed (see ``hoist-frozen``)."""

from inferno.mlir import func, ir
from inferno.options import MATMUL

MAIN, PREPARE = "main", "prepare"
FROZEN, FREEZE = "inferno.frozen", "inferno.freeze"
"""On an argument: it rarely changes; on ``@main``: so many bytes may be kept of what is prepared."""
PREPARED, ARGUMENT = "inferno.prepared", "inferno.argument"
"""On an argument of ``@main``: it is this result of ``@prepare``; on one of ``@prepare``: it is this argument of ``@main``."""


def programs(module: ir.Module) -> list[func.FuncOp]:
    """``@main``, if there is one, and then ``@prepare``, if there is one."""
    found = {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value in (MAIN, PREPARE)}
    return [found[name] for name in (MAIN, PREPARE) if name in found]


def wants_library(module: ir.Module) -> bool:
    """Whether a library was asked for to compute the contractions (``matmul="library"``)."""
    return MATMUL in module.operation.attributes and ir.StringAttr(module.operation.attributes[MATMUL]).value == "library"

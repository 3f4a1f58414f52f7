"""Make equal kernel functions one: twelve equal layers compile once."""

import re
from collections import Counter
from collections.abc import Hashable

from inferno.mlir import func, ir, walk
from inferno.passes.programs import anonymous, callee


def deduplicate_kernels(module: ir.Module) -> None:
    """Keep the first of the private functions that are equal but for their name, and call it wherever the others were.

    The kept ones are numbered anew: ``matmul``, ``matmul_1``, ... without gaps.
    """
    kept: dict[tuple[Hashable, str], func.FuncOp] = {}
    instead: dict[str, str] = {}
    equal: list[ir.Operation] = []
    functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and "sym_visibility" in o.attributes and not o.is_external]
    outlines = list(map(_outline, functions))
    counts = Counter(outlines)
    for op, outline in zip(functions, outlines):
        first = kept.setdefault((outline, anonymous(op) if counts[outline] > 1 else ""), op)
        if first != op:
            instead[op.name.value] = first.name.value
            equal.append(op.operation)
    kernels = {op.name.value: op for op in kept.values()}
    symbols = {ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations if "sym_name" in op.attributes}
    renamed = _number(kernels, symbols - kernels.keys() - instead.keys())
    for call in walk(module.operation, "func.call"):
        name = callee(call)
        target = renamed.get(instead.get(name, name), instead.get(name, name))
        if target != name:
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(target, module.context)
    for op in equal:  # last: a module that calls what is not there prints in another form, in which nothing is equal
        op.erase()


def _outline(function: func.FuncOp) -> Hashable:
    """Equal for functions that are equal.  It is had in a twentieth of the time that printing takes, and most functions have one of their own: the passes
    that merge kernels, some forty, ask about all of them."""
    return function.attributes["function_type"], tuple(o.operation.name for o in function.entry_block.operations)


def _number(kernels: dict[str, func.FuncOp], others: set[str]) -> dict[str, str]:
    """Rename ``matmul_7`` to the first free ``matmul_<n>`` if there is a kernel ``matmul``; what became what."""
    counts: dict[str, int] = {}
    renamed: dict[str, str] = {}
    for name, op in kernels.items():
        base = re.sub(r"_\d+$", "", name)
        if base == name or base not in kernels:
            continue
        counts[base] = counts.get(base, 0) + 1
        while (new := f"{base}_{counts[base]}") in others:
            counts[base] += 1
        renamed[name] = new
        op.attributes["sym_name"] = ir.StringAttr.get(new, op.context)
    return renamed

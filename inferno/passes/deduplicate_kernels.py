"""Make equal kernel functions one: twelve equal layers compile once."""

import re

from inferno.mlir import func, ir, walk


def deduplicate_kernels(module: ir.Module) -> None:
    """Keep the first of the private functions that are equal but for their name, and call it wherever the others were."""
    kept: dict[str, str] = {}
    instead: dict[str, str] = {}
    equal: list[ir.Operation] = []
    for op in list(module.body.operations):
        if not isinstance(op, func.FuncOp) or "sym_visibility" not in op.attributes or op.is_external:
            continue
        name = op.name.value
        text = re.sub(rf"@{re.escape(name)}\b", "@", op.operation.get_asm(enable_debug_info=False, use_local_scope=True), count=1)
        first = kept.setdefault(text, name)
        if first != name:
            instead[name] = first
            equal.append(op.operation)
    for call in walk(module.operation, "func.call"):
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if callee in instead:
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(instead[callee], module.context)
    for op in equal:  # last: a module that calls what is not there prints in another form, in which nothing is equal
        op.erase()

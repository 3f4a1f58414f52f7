"""Why a program did not come from ``torch`` to ``linalg``: the operation, the user's line and the shapes."""

import re

from inferno.errors import UnsupportedOperation
from inferno.mlir import ir, new_context, walk


def explain_failure(text: str, diagnostics: str) -> UnsupportedOperation:
    """The error for a ``torch`` module that did not lower.

    MLIR's message is often about a constant next to the culprit, so operations that it names are looked up first by
    name, then the one operation that torch-mlir does not know at all (``torch.operator``) is taken.
    """
    module = ir.Module.parse(text, new_context())
    operations = [o for o in walk(module) if o.name.startswith("torch.") and not _is_helper(o)]
    unknown = [o for o in operations if o.name == "torch.operator"]
    named = set(re.findall(r"'(torch\.[\w.]+)'", diagnostics)) | set(re.findall(r'"(torch\.[\w.]+)"', diagnostics))
    culprits = unknown or [o for o in operations if o.name in named]
    reason = next((line.strip() for line in diagnostics.splitlines() if "error:" in line), diagnostics.strip().splitlines()[0] if diagnostics.strip() else "")
    if not culprits:
        return UnsupportedOperation(f"the model does not lower to linalg: {reason[:500]}")
    op = culprits[0]
    name = ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name
    shapes = ", ".join(_describe(v.type) for v in op.operands if "vtensor" in str(v.type))
    return UnsupportedOperation(f"{name.removeprefix('torch.')}{_place(op.location)} on ({shapes}) is not supported")


def _is_helper(op: ir.Operation) -> bool:
    return op.name.startswith(("torch.constant", "torch.prim.ListConstruct", "torch.vtensor.literal"))


def _place(location: ir.Location) -> str:
    match = re.search(r'"([^"]+)":(\d+):\d+', str(location))
    return f" at {match[1]}:{match[2]}" if match else ""


def _describe(type_: ir.Type) -> str:
    match = re.match(r"!torch\.vtensor<(\[[^\]]*\]),?(\w*)", str(type_))
    return f"{match[2]}{match[1]}" if match else str(type_)

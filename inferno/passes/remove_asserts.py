"""Remove ``cf.assert``.

torch-mlir asserts what PyTorch checks on the host: indices in bounds, sizes that are not negative.  A kernel has no one to
tell, and the operations would keep everything else from being a structured kernel.
"""

from inferno.mlir import ir, is_unread, owner, walk

# What computes a condition and has no effect but its results.
_PURE = ("arith.", "complex.", "index.", "linalg.index", "math.", "tensor.")


def remove_asserts(module: ir.Module) -> None:
    """Erase every ``cf.assert``, also inside the bodies of structured operations, and what only its condition needed."""
    candidates: list[ir.Operation] = []
    for op in walk(module.operation, "cf.assert"):
        _gather(op.operands[0], candidates)
        op.erase()
    while dead := [op for op in candidates if is_unread(op)]:
        candidates = [op for op in candidates if op not in dead]
        for op in dead:
            op.erase()


def _gather(value: ir.Value, found: list[ir.Operation]) -> None:
    """Add to ``found`` the operations that ``value`` is computed by, each once."""
    producer = owner(value)
    if producer is None or producer in found or len(producer.regions) or not producer.name.startswith(_PURE):
        return
    found.append(producer)
    for operand in producer.operands:
        _gather(operand, found)

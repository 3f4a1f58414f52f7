"""Remove ``cf.assert``.

torch-mlir asserts what PyTorch checks on the host: indices in bounds, sizes that are not negative.  A kernel has no one to
tell, and the operations would keep everything else from being a structured kernel.
"""

from inferno.mlir import ir, owner, walk


def remove_asserts(module: ir.Module) -> None:
    """Erase every ``cf.assert``, also inside the bodies of structured operations, and what only its condition needed."""
    for op in walk(module.operation, "cf.assert"):
        condition = op.operands[0]
        op.erase()
        _erase_if_dead(condition)


def _erase_if_dead(value: ir.Value) -> None:
    producer = owner(value)
    if producer is None or len(producer.regions) or any(True for r in producer.results for _ in r.uses):
        return
    if not producer.name.startswith(("arith.", "math.", "tensor.")):
        return
    operands = list(producer.operands)
    producer.erase()
    for operand in operands:
        _erase_if_dead(operand)

"""Replace a structured operation that has no points to visit by the values that it starts from."""

from inferno.mlir import ir, walk


def fold_empty(module: ir.Module) -> None:
    """Replace linalg operations on an operand without elements by their initial values: a sum of nothing is its start."""
    for op in walk(module.operation):
        if not op.name.startswith("linalg.") or not len(op.results) or op.name == "linalg.fill":
            continue
        if all(0 not in ir.ShapedType(v.type).shape for v in op.operands if isinstance(v.type, ir.RankedTensorType)):
            continue
        starts = list(op.operands)[len(op.operands) - len(op.results) :]
        for result, start in zip(op.results, starts):
            result.replace_all_uses_with(start)
        op.erase()

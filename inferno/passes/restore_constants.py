"""Make constants again of the fills that ``import-constants`` made: canonicalization computes with constants, of which kernels then have scalars."""

from inferno.mlir import arith, ir, is_read, owner, walk


def restore_constants(module: ir.Module) -> None:
    """Replace each fill of a number, of sizes that are known, where it is read; where an operation of linalg starts from it, it stays."""
    for op in walk(module.operation, "linalg.fill"):
        number, made, type_ = owner(op.operands[0]), owner(op.operands[1]), op.results[0].type if len(op.results) else None
        if number is None or number.name != "arith.constant" or made is None or made.name != "tensor.empty" or not type_.has_static_shape:
            continue
        reads = [u for u in op.results[0].uses if _is_read(u)]
        if reads:
            with ir.InsertionPoint(op), op.location:
                constant = arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, number.attributes["value"]))
            for use in reads:
                use.owner.operation.operands[use.operand_number] = constant
        if not is_read(op.results[0]):
            op.erase()


def _is_read(use: ir.OpOperand) -> bool:
    op = use.owner.operation
    if op.name.startswith("linalg."):
        return use.operand_number < len(op.operands) - len(op.results)
    return (op.name.startswith("tensor.") and op.name != "tensor.insert_slice") or op.name == "func.return"

"""Concatenate tensors as they are, not as casts that forget their sizes.

torch-mlir slices with bounds that it computes, so the slices have dynamic sizes until canonicalization finds them constant;
it then leaves a ``tensor.cast`` in front of each ``tensor.concat``, which it does not look through.
"""

from inferno.mlir import dim_of, ir, owner, tensor, walk


def fold_casts(module: ir.Module) -> None:
    """Give every ``tensor.concat`` the operands of the casts before it, where the types before them say more."""
    for op in walk(module.operation, "tensor.concat"):
        operands = [_more_static(v) for v in op.operands]
        if operands == list(op.operands):
            continue
        dim = dim_of(op)
        old = ir.RankedTensorType(op.results[0].type)
        with ir.InsertionPoint(op), op.location:
            new = tensor.ConcatOp(_joined(old, dim, operands), dim, operands).result
            value = new if new.type == old else tensor.CastOp(old, new).result
        op.results[0].replace_all_uses_with(value)
        op.erase()


def _more_static(value: ir.Value) -> ir.Value:
    """The first value of a chain of casts that says all that ``value``'s type says."""
    best, type_ = value, ir.RankedTensorType(value.type)
    while (producer := owner(value)) is not None and producer.name == "tensor.cast":
        value = producer.operands[0]
        if not isinstance(value.type, ir.RankedTensorType):
            break
        before = ir.RankedTensorType(value.type)
        if all(type_.is_dynamic_dim(i) or not before.is_dynamic_dim(i) for i in range(type_.rank)):
            best, type_ = value, before
    return best


def _joined(old: ir.RankedTensorType, dim: int, operands: list[ir.Value]) -> ir.RankedTensorType:
    """The result's type with every size that the operands tell."""
    types = [ir.RankedTensorType(v.type) for v in operands]
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = []
    for i in range(old.rank):
        known = [t.get_dim_size(i) for t in types if not t.is_dynamic_dim(i)]
        if not old.is_dynamic_dim(i):
            shape.append(old.get_dim_size(i))
        elif i == dim:
            shape.append(sum(known) if len(known) == len(types) else dynamic)
        else:
            shape.append(known[0] if known else dynamic)
    return ir.RankedTensorType.get(shape, old.element_type)

"""Give the padding and the epilogue of a grouped convolution the dimension of its groups, so that they fuse with it.

The channels of a grouped convolution are expanded to [groups, channels of a group] in front of it and flattened behind it.  Between these reshapes
nothing would fuse: the padding is of the flat image, bias and activation of the flat result.
"""

from inferno.mlir import arith, ir, owner, tensor, users, walk
from inferno.passes.contraction import has_windows, is_convolution
from inferno.passes.expand_loops import split_readers
from inferno.passes.generics import use_count
from inferno.passes.movements import pad
from inferno.passes.padding import padding
from inferno.passes.shapes import reassociation, reassociation_attribute, shape


def expand_groups(module: ir.Module) -> None:
    """Move the expansion of a marked convolution's image in front of its padding, and the flattening of its result behind the elementwise operations
    that read it."""
    for op in [op for op in walk(module.operation, "linalg.generic") if is_convolution(op) and has_windows(op)]:
        _expand_padding(op)
        for view in [u for u in users(op.results[0]) if u.name == "tensor.collapse_shape" and u.results[0].type.has_static_shape]:
            split_readers(view.results[0], op.results[0], reassociation(view))


def _expand_padding(op: ir.Operation) -> None:
    view = owner(op.operands[0])
    made = owner(view.operands[0]) if view is not None and view.name == "tensor.expand_shape" else None
    if made is None or made.name != "tensor.pad" or len(made.operands) != 1 or use_count(made.results[0]) != 1 or not made.results[0].type.has_static_shape:
        return
    zero = owner(list(made.regions[0].blocks[0].operations)[-1].operands[0])
    groups, before = reassociation(view), made.operands[0]
    ends = padding(made)
    split = [d for d, group in enumerate(groups) if len(group) > 1]
    if zero is None or zero.name != "arith.constant" or any(n[d] for n in ends for d in split) or not before.type.has_static_shape:
        return
    with ir.InsertionPoint(view), view.location:
        sizes, wanted = shape(before), shape(view.results[0])
        flat = [wanted[i] if len(group) > 1 else sizes[d] for d, group in enumerate(groups) for i in group]
        element = before.type.element_type
        expanded = tensor.ExpandShapeOp(ir.RankedTensorType.get(flat, element), before, reassociation_attribute(groups), [], flat).result
        low, high = ([n[d] if len(group) == 1 else 0 for d, group in enumerate(groups) for _ in group] for n in ends)
        padded = pad(expanded, view.results[0].type, low, high, arith.constant(element, zero.attributes["value"]))
    view.results[0].replace_all_uses_with(padded)
    view.erase()
    made.erase()

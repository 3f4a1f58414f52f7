"""Let an elementwise operation make its result in the order in which all of several readers go over it: a sum of two images whose channels are then shuffled,
of which a mean is taken, and what the mean scales.

A transposition of one reader is fused with what it reads.  Several read what is made as it lies, and no kernel over rows would have the rows of both.
"""

from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import ir, owner, tensor, users, walk
from inferno.passes.contraction import ended_contraction, is_sum_of_products
from inferno.passes.generics import (
    body, build, clone_body, dims, inputs, inverse, is_elementwise, is_reduction, keep_attributes, kinds, maps, outputs, permuted, substitute, use_count,
)
from inferno.passes.selected_products import product_of

_LINE = 64  # bytes of neighbours that stay together, from which on they are read as fast in any order


def turn_maps(module: ir.Module) -> None:
    """Rewrite elementwise operations of known sizes that maps and reductions read in one other order than they are made, each in whole lines."""
    for producer in reversed(walk(module.operation, "linalg.generic")):
        if is_elementwise(producer) and len(producer.results) == 1 and use_count(producer.results[0]) > 1:
            order = _order(producer)
            if order is not None and ended_contraction(producer, reshaped=True) is None and product_of(producer) is None:
                _turn(producer, order)


def _order(producer: ir.Operation) -> list[int] | None:
    """The dimensions of a result in the order in which all readers go over them, where that is another one and leaves lines together."""
    value, type_ = producer.results[0], producer.results[0].type
    if not type_.has_static_shape or owner(outputs(producer)[0]) is None or owner(outputs(producer)[0]).name != "tensor.empty":
        return None
    found = None
    for user in users(value):
        if not (is_elementwise(user) or (is_reduction(user) and not is_sum_of_products(user))):
            return None
        loops = dims(maps(user)[-1]) if is_elementwise(user) else list(range(len(kinds(user))))
        for v, m in zip(inputs(user), maps(user)):
            if v == value:
                read = dims(m)
                if read is None or loops is None or len(set(read)) < len(read) or (found := found or _sorted(read, loops)) != _sorted(read, loops):
                    return None
    same = list(range(type_.rank))
    if found is None or found == same:
        return None
    fixed = next((n for n, (a, b) in enumerate(zip(reversed(found), reversed(same))) if a != b))
    line = prod(type_.shape[type_.rank - fixed:]) * element_bytes(type_.element_type)
    return found if fixed and line >= _LINE else None


def _sorted(read: list[int], loops: list[int]) -> list[int]:
    """The dimensions that loops read, in the order of the loops."""
    return sorted(range(len(read)), key=lambda d: loops.index(read[d]))


def _turn(producer: ir.Operation, order: list[int]) -> None:
    value, type_ = producer.results[0], producer.results[0].type
    written = permuted(maps(producer)[-1], order)
    loops = [ir.AffineDimExpr.get(d) for d in inverse(dims(written))]  # in the order of the result, as all others have theirs
    with ir.InsertionPoint(producer), producer.location:
        out = tensor.EmptyOp([type_.shape[d] for d in order], type_.element_type).result
        new = build(
            inputs(producer), [out], [substitute(m, loops, len(loops)) for m in (*maps(producer)[:-1], written)], kinds(producer),
            lambda arguments: clone_body(body(producer), arguments, loops), producer.location,
        )
    keep_attributes(new, producer)
    for user in dict.fromkeys(users(value)):
        turned = [permuted(m, order) if v == value else m for v, m in zip(user.operands, maps(user))]
        user.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in turned])
        for number, v in enumerate(user.operands):
            if v == value:
                user.operands[number] = new.results[0]
    producer.erase()

"""Compute a result that the program returns transposed in the transposed layout, where only reductions read it besides.

``y = torch.where(...)`` of a transposed tensor lies as that does, so a program that gives ``y`` back, and its sums, writes ``y`` in the order in which it reads
it, reads it for the sums and once more to transpose it.  Sums may read any order: ``y`` is made transposed, and the transposition is none.
"""

from inferno.mlir import ir, owner, tensor, users, walk
from inferno.passes.contraction import ended_contraction, is_sum_of_products
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import (
    body, build, clone_body, dims, inputs, is_copy, is_elementwise, is_generic, is_reduction, kinds, maps, permuted,
)


def transpose_returned(module: ir.Module) -> None:
    """Rewrite such tensors of programs for a GPU (which ask for ``expand-pieces``)."""
    if EXPAND not in module.operation.attributes:
        return
    for copy in [op for op in walk(module.operation, "linalg.generic") if is_copy(op)]:
        made = owner(inputs(copy)[0])
        read, written = (dims(m) for m in maps(copy))
        if read is None or written is None or sorted(read) != sorted(written) or read == written or not _is_returned(copy.results[0]):
            continue
        if is_generic(made) and is_elementwise(made) and len(made.results) == 1 and _may_turn(made, copy):
            _turn(made, copy, [read.index(d) for d in written])


def _is_returned(value: ir.Value) -> bool:
    return all(user.name == "func.return" for user in users(value))


def _may_turn(made: ir.Operation, copy: ir.Operation) -> bool:
    """Whether all other readers of what an operation makes are reductions, and it is made of no totals, with which a kernel goes over rows."""
    others = [u for u in users(made.results[0]) if u != copy]
    known = all(v.type.has_static_shape for v in (*made.operands, *made.results) if isinstance(v.type, ir.RankedTensorType))
    if not others or not known or not maps(made)[-1].is_permutation or ended_contraction(made) is not None or not all(_reduces(u, made) for u in others):
        return False
    return not any(_is_total(v) for v in inputs(made))


def _reduces(user: ir.Operation, made: ir.Operation) -> bool:
    if not is_reduction(user) or is_sum_of_products(user) or made.results[0] in list(user.operands)[len(inputs(user)):]:
        return False
    return all(m.is_permutation for v, m in zip(inputs(user), maps(user)) if v == made.results[0])


def _is_total(value: ir.Value) -> bool:
    made = owner(value)
    return is_generic(made) and (is_reduction(made) or (is_elementwise(made) and any(map(_is_total, inputs(made)))))


def _turn(made: ir.Operation, copy: ir.Operation, order: list[int]) -> None:
    """Let dimensions lie in this order."""
    value = made.results[0]
    with ir.InsertionPoint(made), made.location:
        empty = tensor.EmptyOp([value.type.shape[d] for d in order], value.type.element_type).result
        new = build(
            inputs(made), [empty], [*maps(made)[:-1], permuted(maps(made)[-1], order)], kinds(made), lambda given: clone_body(body(made), given), made.location,
        ).results[0]
    copy.results[0].replace_all_uses_with(new)
    copy.erase()
    for user in set(users(value)):
        moved = [permuted(m, order) if v == value else m for v, m in zip(user.operands, maps(user))]
        user.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in moved])
        user.replace_uses_of_with(value, new)
    made.erase()

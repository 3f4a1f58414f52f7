"""Tensors whose layout is changed, and the operations that make and read them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.mlir import ir, owner, tensor
from inferno.passes.generics import body, build, clone_body, inputs, inverse, kinds, maps, outputs, permuted, substitute


@dataclass
class Reordering:
    """``loops``: of each operation that takes part its loops in their new order; ``order``: of each tensor that comes to lie otherwise its dimensions in
    theirs."""

    loops: dict[ir.Operation, list[int]] = field(default_factory=dict)
    order: dict[ir.Value, list[int]] = field(default_factory=dict)


def reorder(operations: Sequence[ir.Operation], plan: Reordering) -> None:
    """Rewrite those of some operations, in their order, that take part: all are generics."""
    new: dict[ir.Value, ir.Value] = {}
    taking = [op for op in operations if op in plan.loops]
    for op in taking:
        for old, value in zip(op.results, _in_order(op, plan, new).results):
            if old in plan.order:
                new[old] = value
            else:
                old.replace_all_uses_with(value)
    for op in reversed(taking):
        op.erase()


def _in_order(op: ir.Operation, plan: Reordering, new: dict[ir.Value, ir.Value]) -> ir.Operation:
    """The same operation with its loops in another order, on tensors as they lie now."""
    loops = plan.loops[op]
    names = [ir.AffineDimExpr.get(i, op.context) for i in inverse(loops)]
    with ir.InsertionPoint(op), op.location:
        outs = [_reordered(v, plan.order[r]) if r in plan.order else v for v, r in zip(outputs(op), op.results)]
        indexing = [substitute(_moved(m, plan.order.get(v)), names, len(loops)) for v, m in zip([*inputs(op), *op.results], maps(op))]
        return build(
            [new.get(v, v) for v in inputs(op)], outs, indexing, [kinds(op)[d] for d in loops], lambda given: clone_body(body(op), given, names), op.location,
        )


def _moved(map_: ir.AffineMap, order: Sequence[int] | None) -> ir.AffineMap:
    return map_ if order is None else permuted(map_, order)


def _reordered(empty: ir.Value, order: Sequence[int]) -> ir.Value:
    """An empty tensor with its dimensions in another order."""
    type_, given = empty.type, iter(owner(empty).operands)
    sizes = [next(given) if type_.is_dynamic_dim(d) else type_.shape[d] for d in range(type_.rank)]
    return tensor.EmptyOp([sizes[d] for d in order], type_.element_type).result

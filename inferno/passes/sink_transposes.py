"""Compute what is made of a transposed tensor in that tensor's own layout, where whoever reads it can follow.

``y = x.t() * c`` and then a softmax of ``y``'s columns, which a program gives back transposed: all of it lies along ``x``'s rows, and nothing moves when
``y`` is made as ``x`` lies.  From an operation on elements whose tensors are all read in one other order that goes on to its readers, and ends at
reductions, and where an operation writes in the order that it then reads in, or a product reads the terms of its sums side by side, and did not before.
Where it would end anywhere else, at a result of the program, another product, a tensor that lies otherwise, everything stays: the move would only come later.
"""

import heapq
from collections.abc import Sequence

from inferno.mlir import func, ir, owner, users
from inferno.passes.contraction import has_windows, is_sum_of_products
from inferno.passes.generics import PARALLEL, REDUCTION, dims, inputs, is_elementwise, is_generic, kinds, maps, outputs
from inferno.passes.programs import operations_in, programs
from inferno.passes.reorderings import Reordering, reorder


def sink_transposes(module: ir.Module) -> None:
    """Rewrite the programs."""
    for program in programs(module):
        start: int | None = 0
        while start is not None:
            start = _sink_next(program, start)


def _sink_next(program: func.FuncOp, start: int) -> int | None:
    """Rewrite what begins first from the operation with this number on, and give that one's; None where nothing does."""
    operations = operations_in(program)
    places = {op: i for i, op in enumerate(operations)}
    for i, op in enumerate(operations[start:], start):
        if _begins(op) and (plan := _plan(operations, places, i)) is not None:
            reorder(operations, plan)
            return i
    return None


def _begins(op: ir.Operation) -> bool:
    if not is_elementwise(op) or len(op.results) != 1 or has_windows(op):
        return False
    found = [dims(m) for v, m in zip(inputs(op), maps(op)) if m.is_permutation and isinstance(v.type, ir.RankedTensorType)]
    return bool(found) and all(f == found[0] for f in found) and found[0] != dims(maps(op)[-1])


def _plan(operations: Sequence[ir.Operation], places: dict[ir.Operation, int], first: int) -> Reordering | None:
    """What takes part if it begins with that operation; None where it ends at anything that cannot follow."""
    plan, pending, seen = Reordering(), [first], {first}
    while pending:
        op = operations[heapq.heappop(pending)]
        loops = _followed(op, plan)
        loops = _read_better(op, plan) if loops is None else loops
        if loops is None:
            return None
        plan.loops[op] = loops
        if not is_elementwise(op):
            continue
        own = dims(maps(op)[-1])
        if own == loops:
            continue
        made = owner(outputs(op)[0])
        if len(op.results) != 1 or made is None or made.name != "tensor.empty":
            return None
        plan.order[op.results[0]] = [own.index(d) for d in loops]
        for reader in users(op.results[0]):
            if (place := places.get(reader)) is None:
                return None
            if place not in seen:
                seen.add(place)
                heapq.heappush(pending, place)
    return plan


def _followed(op: ir.Operation, plan: Reordering) -> list[int] | None:
    """The loops of an operation in the order in which all that it reads of each point will lie; None where there is no such order."""
    if not is_generic(op) or has_windows(op) or any(v in plan.order for v in outputs(op)):
        return None
    found: list[list[int]] = []
    for value, map_ in zip(inputs(op), maps(op)):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        moved = plan.order.get(value)
        if not map_.is_permutation:
            if moved is not None:
                return None
            continue
        read = dims(map_)
        found.append(read if moved is None else [read[d] for d in moved])
    if not found or any(f != found[0] for f in found):
        return None
    loops = found[0]
    if is_elementwise(op):
        return loops
    if is_sum_of_products(op):
        return None
    left = [d for d in loops if kinds(op)[d] == PARALLEL]
    return loops if all(dims(m) == left for m in maps(op)[len(inputs(op)):]) else None


def _read_better(op: ir.Operation, plan: Reordering) -> list[int] | None:
    """The loops of an operation as they are, if it then reads in their order what it did not, or a product the terms of its sums side by side."""
    if not is_generic(op) or has_windows(op) or any(v in plan.order for v in outputs(op)):
        return None
    own = dims(maps(op)[-1]) if is_elementwise(op) else list(range(len(kinds(op)))) if is_sum_of_products(op) else None
    moved = [(m, plan.order[v]) for v, m in zip(inputs(op), maps(op)) if v in plan.order]
    if own is None or any(not m.is_projected_permutation for m, _ in moved):
        return None

    def good(read: list[int]) -> bool:
        return read == sorted(read, key=own.index) if is_elementwise(op) else kinds(op)[read[-1]] == REDUCTION

    reads = [(dims(m), [dims(m)[d] for d in order]) for m, order in moved]
    return own if reads and all(good(after) and not good(before) for before, after in reads) else None

"""Fuse all elementwise operations that read the sums of a kernel's one or two contractions into one operation.

What goes from one to another is not rounded to what the tensors between them had.
"""

from dataclasses import dataclass

from inferno.mlir import erase_dead, func, ir, isolated_copy, linalg, run_upstream, tensor
from inferno.passes.contraction import zero_start
from inferno.passes.generics import (
    Operands, PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, is_reduction, kinds, maps, substitute,
)
from inferno.passes.programs import operations_in
from inferno.passes.size_values import sizes
from inferno.passes.split_contractions import split_contractions
from inferno.passes.widen_arithmetic import drop_round_trips


@dataclass(frozen=True)
class _Step:
    """An elementwise operation whose loops are ``loops``, by those of the sums; ``read``: of each input the place among the operands, None
    for what a step before makes."""

    op: ir.Operation
    loops: list[ir.AffineExpr]
    read: list[int | None]


def join_epilogues(kernel: func.FuncOp) -> func.FuncOp | None:
    """The kernel in this form, in place of ``kernel``, which is gone; None, and nothing is changed, where there are not one or two sums of
    one shape, or what reads them is not elementwise along their dimensions."""
    holder = isolated_copy(kernel)
    split_contractions(holder)
    run_upstream(holder, "func.func(cse)")
    copy = holder.body.operations[0]
    if not _join(copy):
        return None
    run_upstream(holder, "func.func(cse)")  # what several readers computed of the sums
    with ir.InsertionPoint(kernel.operation):
        made = holder.body.operations[0].operation.clone()
    kernel.operation.erase()
    return made.opview


def _join(kernel: func.FuncOp) -> bool:
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    sums = [g for g in generics if is_reduction(g)]
    if len(sums) not in (1, 2) or sums[0].results[0].type != sums[-1].results[0].type or any(len(s.results) != 1 or zero_start(s) is None for s in sums):
        return False
    type_ = sums[0].results[0].type
    operands, places = Operands(), {s.results[0]: ir.AffineMap.get_identity(type_.rank) for s in sums}
    for value, place in places.items():
        operands.number(value, place)
    steps: list[_Step] = []
    for op in generics:
        if op not in sums and any(v in places for v in inputs(op)):
            step = _step(op, places, operands, type_.rank)
            if step is None:
                return False
            steps.append(step)
    last = list(kernel.entry_block.operations)[-1].operation
    returned = list(last.operands)
    if not steps or any(v not in places for v in returned):
        return False
    destinations = list(kernel.entry_block.arguments)[-len(returned):]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        known = dict(zip((s.results[0] for s in sums), arguments))
        for step in steps:
            read = [known[v] if n is None else arguments[n] for v, n in zip(inputs(step.op), step.read)]
            known.update(zip(step.op.results, clone_body(body(step.op), [*read, *[None] * len(step.op.results)], step.loops)))
        return [known[v] for v in returned]

    with ir.InsertionPoint(last):
        made = build(
            operands.values, destinations, [*operands.maps, *(places[v] for v in returned)], [PARALLEL] * type_.rank, fill, last.location)
    drop_round_trips(made)
    for i, result in enumerate(made.results):
        last.operands[i] = result
    for op in sums:  # not into a destination
        with ir.InsertionPoint(op):
            empty = tensor.EmptyOp(sizes(op.results[0], kernel.operation), type_.element_type).result
            op.operands[len(op.operands) - 1] = linalg.fill(zero_start(op), outs=[empty])
    erase_dead(o.operation for o in kernel.entry_block.operations)
    return True


def _step(op: ir.Operation, places: dict[ir.Value, ir.AffineMap], operands: Operands, rank: int) -> _Step | None:
    """What ``op`` is by the loops of the sums; its results get their ``places``, and what else it reads is among the ``operands``."""
    known = [(v, m) for v, m in zip(inputs(op), maps(op)) if v in places]
    order = dims(known[0][1])
    if not is_elementwise(op) or len(kinds(op)) != rank or order is None or len(order) != rank:
        return None
    at = dict(zip(order, places[known[0][0]].results))
    loops = [at[d] for d in range(rank)]
    if any(substitute(m, loops, rank) != places[v] for v, m in known):
        return None
    read = [None if v in places else operands.number(v, substitute(m, loops, rank)) for v, m in zip(inputs(op), maps(op))]
    for result, map_ in zip(op.results, maps(op)[len(inputs(op)):]):
        places[result] = substitute(map_, loops, rank)
    return _Step(op, loops, read)

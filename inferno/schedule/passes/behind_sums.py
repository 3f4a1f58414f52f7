"""Fuse what is computed of sums, element by element, into one operation behind them, which also returns those sums that are results themselves."""

from collections.abc import Sequence

from inferno.mlir import erase_dead, func, ir, owner, tensor
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, outputs
from inferno.passes.programs import operations_in
from inferno.passes.shapes import shape
from inferno.passes.size_values import mixed


def put_behind(kernel: func.FuncOp, sums: Sequence[ir.Operation], behind: Sequence[ir.Operation]) -> bool:
    """Let one operation at the end make all that is ``behind`` sums, each of which reads what comes in front of it; whether they are alike."""
    end, made = operations_in(kernel)[-1], [r for g in sums for r in g.results]
    if any(shape(r) != shape(made[0]) for g in (*sums, *behind) for r in g.results):
        return False
    known = [*made, *(r for g in behind for r in g.results)]
    returned = [i for i, v in enumerate(end.operands) if v in known]
    to, rank = list(kernel.entry_block.arguments)[-len(end.operands):], made[0].type.rank

    def finish(values: list[ir.Value]) -> list[ir.Value]:
        found = dict(zip(made, values))
        for g in behind:
            found.update(zip(g.results, clone_body(body(g), [*(found[v] for v in inputs(g)), *[None] * len(g.results)])))
        return [found[end.operands[i]] for i in returned]

    with ir.InsertionPoint(end), end.location:
        every = [ir.AffineMap.get_identity(rank)] * (len(made) + len(returned))
        new = build(made, [to[i] for i in returned], every, [PARALLEL] * rank, finish, behind[-1].location)
    for fill in (owner(v) for g in sums for v in outputs(g)):
        with ir.InsertionPoint(fill), fill.location:
            result = fill.results[0]
            fill.operands[len(fill.operands) - 1] = tensor.EmptyOp(mixed(shape(result), kernel.operation), result.type.element_type).result
    for i, result in zip(returned, new.results):
        end.operands[i] = result
    for g in reversed(behind):
        g.erase()
    erase_dead(operations_in(kernel))
    return True

"""Loops that do not wait for each other, as those of a layer's two directions, become one kernel: each has some of the blocks."""

from inferno.mlir import func, ir
from inferno.passes.programs import callee, root_of
from inferno.schedule import recurrence
from inferno.schedule.merge_calls import defer, edges_of, free_name, inputs_of, merged_kernel, operations_in, replace_calls, waits
from inferno.target import Target

_MOST = 4


def join_loops(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], rolled: set[str], target: Target, always: bool) -> None:
    """Join calls of the kernels ``rolled``, where the estimate of the new kernel is below the sum of theirs."""
    first = 0
    while True:
        operations = operations_in(main)
        calls = [o for o in operations if o.name == "func.call" and callee(o) in rolled]
        if first >= len(calls):
            return
        places, group = {o: i for i, o in enumerate(operations)}, [calls[first]]
        for call in calls[first + 1:]:
            direct = {r for c in group for r in c.results} & {root_of(v) for v in inputs_of(call)}
            if len(group) < _MOST and not direct and not waits(call, group, places):
                group.append(call)
        while len(group) > 1 and not _join(module, kernels, group, rolled, target, always):
            group.pop()
        first += 1


def _join(module: ir.Module, kernels: dict[str, func.FuncOp], group: list[ir.Operation], rolled: set[str], target: Target, always: bool) -> bool:
    edges = edges_of(group, views=False)
    merged = merged_kernel(kernels, edges, free_name(module, callee(group[0])))
    before = sum(_time(kernels[callee(c)], target) for c in group)
    found = recurrence.candidates(recurrence.read(merged, target), target)
    if not found or not (always or min(time for time, _ in found) < before):
        merged.operation.erase()
        return False
    defer(edges)
    replace_calls(edges, merged)
    kernels[merged.name.value] = merged
    rolled.add(merged.name.value)
    return True


def _time(kernel: func.FuncOp, target: Target) -> float:
    return min(time for time, _ in recurrence.candidates(recurrence.read(kernel, target), target))

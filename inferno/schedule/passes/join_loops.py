"""Loops that do not depend on each other, such as a layer's two directions, as one kernel: each gets some of the blocks."""

from collections.abc import Hashable

from inferno.mlir import func, ir
from inferno.passes.programs import callee, operations_in, root_of
from inferno.schedule.passes.calls import inputs_of
from inferno.schedule.passes.merge_calls import edges_of, merge_where, waits
from inferno.schedule.recurrence import recurrence
from inferno.target import Target

_MOST = 4  # loops of a kernel, which share its blocks


def join_loops(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], rolled: set[str], target: Target, always: bool) -> None:
    """Join calls of the kernels ``rolled``, where the estimate of the new kernel is below the sum of theirs."""
    first, times, made = 0, {}, {}
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
        while len(group) > 1 and not _join(module, kernels, group, rolled, target, always, times, made):
            group.pop()
        first += 1


def _join(
    module: ir.Module, kernels: dict[str, func.FuncOp], group: list[ir.Operation], rolled: set[str], target: Target, always: bool,
    times: dict[str, float], made: dict[Hashable, func.FuncOp | None],
) -> bool:
    """``times`` are of kernels by their names, ``made`` is as ``merge_where``'s: layers that are equal are asked about once."""
    times.update({name: _time(kernels[name], target) for name in map(callee, group) if name not in times})
    before = sum(times[callee(c)] for c in group)

    def takes(merged: func.FuncOp) -> bool:
        found = recurrence.candidates(recurrence.read(merged, target), target)
        return bool(found) and (always or min(time for time, _ in found) < before)

    new = merge_where(module, kernels, edges_of(group, views=False), takes, made)
    if new is not None:
        rolled.add(callee(new))
    return new is not None


def _time(kernel: func.FuncOp, target: Target) -> float:
    return min(time for time, _ in recurrence.candidates(recurrence.read(kernel, target), target))

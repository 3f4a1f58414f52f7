"""Loops that do not depend on each other, such as a layer's two directions, as one kernel: each gets some of the blocks."""

from math import inf

from inferno.mlir import func
from inferno.passes.programs import callee, root_of
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.passes.calls import calls_in, inputs_of
from inferno.schedule.passes.edges import edges_of, waits
from inferno.schedule.passes.merge_calls import names_of
from inferno.schedule.passes.rewrite import Rewrite
from inferno.schedule.recurrence import recurrence
from inferno.target import Target

_MOST = 4  # loops of a kernel, which share its blocks


def join_loops(program: Rewrite, rolled: set[str], always: bool) -> None:
    """Join calls of the kernels ``rolled``, which gets the new ones, where the estimate of the new kernel is below the sum of theirs, or ``always``."""
    first, times = 0, {}  # microseconds by kernels' names
    target = program.target
    while True:
        calls = [c for c in calls_in(program.main) if callee(c) in rolled]
        if first >= len(calls):
            return
        group = [calls[first]]
        for call in calls[first + 1:]:
            direct = {r for c in group for r in c.results} & {root_of(v) for v in inputs_of(call)}
            if len(group) < _MOST and not direct and not waits(call, group):
                group.append(call)
        times.update({name: _time(program.kernels[name], target) for name in map(callee, group) if name not in times})
        while len(group) > 1:
            before = inf if always else sum(times[callee(c)] for c in group)
            takes = lambda merged, before=before: _time(merged, target) < before  # noqa: E731
            if (new := program.merges.merge(edges_of(group, views=False), takes, names_of(group[-1]))) is not None:
                rolled.add(callee(new))
                break
            group.pop()
        first += 1


def _time(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds; infinity where no generator takes it."""
    return fastest(recurrence.candidates(recurrence.read(kernel, target), target))[0]

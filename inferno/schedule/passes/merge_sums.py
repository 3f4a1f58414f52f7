"""On a GPU, merge kernels that reduce one tensor over the same loops: a mean and a deviation beside extrema.

``fuse-reductions`` has done so for all that it meets.  What ``merge-variances`` makes of a mean and a deviation is a reduction only since then, in which the
second does not wait for the first one's result any more.
"""

from inferno.mlir import func, ir
from inferno.passes.generics import PARALLEL, kinds
from inferno.passes.programs import callee, readers, returned, root_of
from inferno.schedule.passes.calls import calls_in, generics_of, is_open, tensors_of
from inferno.schedule.passes.edges import Edges, edges_by_symbols, waits
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.merge_calls import defer, joint_kernel, replace_calls
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.merge_generics import merge_generics
from inferno.target import Target, find_target

_MOST = 6  # results, of which a thread has running values of each of the terms that it reads at once


def merge_sums(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed = False
        while (found := _pair(module, main, kernels, machine)) is not None:
            edges, merged = found
            defer(edges)
            replace_calls(edges, merged)
            kernels[merged.name.value] = merged
            changed = True
        return changed

    merge_in(module, merge)


def _pair(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], target: Target) -> tuple[Edges, func.FuncOp] | None:
    """The first two calls that are worth one kernel, and that."""
    calls = [c for c in calls_in(main) if _reduces_one(c, kernels)]
    for at, first in enumerate(calls):
        tensor = root_of(tensors_of(first)[0])
        beside = set(readers(tensor))
        for second in calls[at + 1:]:
            if second not in beside or waits(second, {first}):
                continue
            edges = edges_by_symbols([first, second], views=True)
            if edges is not None and (merged := _merged(module, kernels, edges, target)) is not None:
                return edges, merged
    return None


def _reduces_one(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether a call makes reductions of one tensor, and nothing else."""
    kernel = kernels.get(callee(call))
    if not is_open(kernel) or len(tensors_of(call)) != 1 or len(call.results) > _MOST:
        return False
    generics = generics_of(kernel)
    return bool(generics) and all(set(kinds(g)) != {PARALLEL} for g in generics)


def _merged(module: ir.Module, kernels: dict[str, func.FuncOp], edges: Edges, target: Target) -> func.FuncOp | None:
    """A kernel of one operation that stands for calls, if it takes less time."""
    read = [v for v in edges.captured if isinstance(v.type, ir.RankedTensorType)]
    if len(read) != 1 or not len(edges.exported) == sum(len(c.results) for c in edges.calls) <= _MOST:
        return None
    merged = joint_kernel(module, kernels, edges)
    generic = merge_generics(generics_of(merged))
    found = reductions.planned(merged, target) if generic is not None and returned(merged) == list(generic.results) else None
    if found is not None and found[0].extremum is None:
        if reductions.estimate(found[1], found[0], target) < sum(alone(kernels[callee(call)], target) for call in edges.calls):
            return merged
    merged.operation.erase()
    return None

"""On a GPU, let a row-wise kernel sum each row of its result, where only a total of all of it is read.

The mean of squares of a norm's result reads what the norm has written, though each row's part of it could be added up where the row is in registers.  The
total becomes the rows' totals, which ``rows`` computes like any other reduction, and a small kernel that adds these up.  It is done where the estimates
say so: a total by itself is read by all multiprocessors at the rate of memory, and rows that are few leave most of them without work.
"""

from math import prod

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee, readers
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.passes.calls import inputs_of, may_change
from inferno.schedule.passes.edges import Edges, edges_of, waits
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.merge_calls import defer, joint_name, merged_kernel, replace_calls
from inferno.schedule.passes.totals import Total, named_kernel, rewrite_totals, split_total
from inferno.schedule.rows import rows
from inferno.target import Target


def fuse_totals(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  ``always``: "1" for fusing wherever that can be."""
    def rewrite(kernels: dict[str, func.FuncOp], found: Total, machine: Target) -> bool:
        return any(_fuse(module, kernels, found, made, machine, always == "1") for made in _makers(found, kernels))

    rewrite_totals(module, target, rewrite)


def _makers(found: Total, kernels: dict[str, func.FuncOp]) -> list[ir.Operation]:
    """The calls that make what a total is of, if they go over rows."""
    made = dict.fromkeys(owner(v) for v in inputs_of(found.call))
    return [m for m in made if m is not None and m.name == "func.call" and may_change(kernels.get(callee(m)))]


def _fuse(
    module: ir.Module, kernels: dict[str, func.FuncOp], found: Total, maker: ir.Operation, target: Target, always: bool,
) -> bool:
    """Let ``maker`` have the rows' totals, if that pays; whether it does."""
    before = rows.read(kernels[callee(maker)], target)
    if before is None or before.varies or waits(found.call, {maker}):
        return False
    sizes = loop_sizes(found.generic)
    leading = next((n for n in range(1, len(sizes)) if prod(sizes[:n]) == before.count), None)
    if leading is None or prod(sizes) != before.count * before.width:
        return False
    each, total = split_total(module, found, sizes, leading)
    edges = edges_of([maker, each], views=True)
    wanted = [r for r in maker.results if any(u not in (maker, each, found.call) for u in readers(r))]
    edges = Edges(edges.calls, edges.captured, (*wanted, *each.results))
    merged = merged_kernel(kernels | {callee(each): named_kernel(module, callee(each))}, edges, joint_name(module, edges.calls))
    after = rows.read(merged, target)
    if after is not None:
        time = rows.estimate(rows.pick(after, target), after, target)
        now = rows.estimate(rows.pick(before, target), before, target) + alone(found.kernel, target)
        if always or time + alone(named_kernel(module, callee(total)), target) < now:
            found.call.results[0].replace_all_uses_with(total.results[0])
            found.call.erase()
            kernels[callee(total)], kernels[merged.name.value] = named_kernel(module, callee(total)), merged
            defer(edges)
            replace_calls(edges, merged)
            return True
    merged.operation.erase()
    for call in (total, each):
        kernel = named_kernel(module, callee(call))
        call.erase()
        kernel.operation.erase()
    return False

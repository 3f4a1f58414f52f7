"""On Hopper, let a convolution's kernel compute the sums of its results over all pixels, and of their squares, instead of a kernel of its own.

Batch norm, while it is trained, wants the mean and the variance of each channel of a convolution's result.  ``merge-variances`` has made one kernel of both,
which reads the result once more; here the convolution's kernel adds up what it has in registers (``schedule/convolution/channel_sums.py``), if that takes less
time by the estimates.  The result is still written: what normalizes it reads it.
"""

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee, root_of
from inferno.schedule.convolution import channel_sums
from inferno.schedule.matmul.product_times import contraction_time
from inferno.schedule.passes.calls import calls_in, inputs_of, may_change
from inferno.schedule.passes.edges import Edges, edges_of, waits
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.merge_calls import Merges
from inferno.schedule.passes.rewrite import hopper_for_products, merge_in
from inferno.target import Target


def fuse_channel_sums(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever that can be."""
    machine = hopper_for_products(module, target)
    if machine is None:
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed, merges = False, Merges(module, kernels)
        for call in calls_in(main):
            edges = _with_sums(call, kernels)
            if edges is not None:
                before = [kernels[callee(c)] for c in edges.calls]
                changed |= merges.merge(edges, lambda merged, before=before: _pays(merged, *before, machine, always == "1")) is not None
        return changed

    merge_in(module, merge)


def _with_sums(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> Edges | None:
    """A call that may be of sums of columns, behind that of the kernel that makes what is summed; all of this one's results are written."""
    kernel, given = kernels.get(callee(call)), inputs_of(call)
    if not may_change(kernel) or len(given) != 1 or given[0].type.rank < 2 or any(ir.ShapedType(t).rank != 1 for t in kernel.type.results):
        return None
    made = owner(root_of(given[0]))
    if made is None or made.name != "func.call" or not may_change(kernels.get(callee(made))) or waits(call, {made}):
        return None
    found = edges_of([made, call], views=True)
    exported = [*made.results, *call.results]
    return Edges(found.calls, found.captured, tuple(exported))


def _pays(merged: func.FuncOp, maker: func.FuncOp, sums: func.FuncOp, target: Target, always: bool) -> bool:
    """Whether a generator takes the one kernel, which gets what the maker says, and it is estimated to be faster than both."""
    for name in maker.attributes:
        if name.startswith("inferno."):
            merged.attributes[name] = maker.attributes[name]
    found = [time for time, _ in channel_sums.candidates(merged, target)]
    before = contraction_time(maker, target) if found and not always else None
    return bool(found) and (always or (before is not None and min(found) < before + alone(sums, target)))

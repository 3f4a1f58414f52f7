"""On Hopper, fuse a product of every matrix with all rows and the selection of each row's result: a product of groups of rows.

What a mixture's experts compute is imported so (``torch._grouped_mm``), since the graph's shapes say nothing of how many rows each one has.  As one
kernel each matrix meets its own rows alone, and the product of all with all, eight times as much with eight experts, is never made.
"""

from inferno.mlir import func, ir
from inferno.passes.programs import callee, readers, takes_unmeasured
from inferno.schedule.analysis.cost import KERNEL_RATE, KERNEL_TIME, count_bytes
from inferno.schedule.matmul import grouped, wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.selected_products import parse_selected
from inferno.schedule.passes.calls import inputs_of, may_change
from inferno.schedule.passes.edges import Edges, edges_of
from inferno.schedule.passes.merge_calls import joint_kernel, replace_calls
from inferno.schedule.passes.rewrite import hopper_for_products, merge_in, rewrite_calls
from inferno.schedule.passes.row_values import look_up_before
from inferno.target import Target



def fuse_grouped(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever that can be."""
    machine = hopper_for_products(module, target)
    if machine is None:
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        def rewrite(call: ir.Operation) -> bool:
            edges = _edges(call, kernels)
            return edges is not None and _fuse(module, kernels, edges, machine, always == "1")

        return rewrite_calls(main, rewrite)

    merge_in(module, merge)


def _edges(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> Edges | None:
    """A call of one result with three dimensions, and the one that reads it."""
    if len(call.results) != 1 or call.results[0].type.rank != 3 or not may_change(kernels.get(callee(call))):
        return None
    others = set(readers(call.results[0]))
    last = others.pop() if len(others) == 1 else None
    if last is None or last.name != "func.call" or not call.is_before_in_block(last) or call.results[0] not in inputs_of(last):
        return None
    return edges_of([call, last], views=False) if may_change(kernels.get(callee(last))) else None


def _fuse(module: ir.Module, kernels: dict[str, func.FuncOp], edges: Edges, target: Target, always: bool) -> bool:
    """Whether they became one kernel, which takes less time."""
    merged = joint_kernel(module, kernels, edges)
    pays = _pays(kernels, edges, merged, target, always)
    if pays and grouped.read(merged, target) is None:
        merged.operation.erase()
        edges = edges_of([edges.calls[0], look_up_before(module, kernels, edges.calls[1])], views=False)
        merged = joint_kernel(module, kernels, edges)
    if not pays or grouped.read(merged, target) is None:
        merged.operation.erase()
        return False
    replace_calls(edges, merged)
    return True


def _pays(kernels: dict[str, func.FuncOp], edges: Edges, merged: func.FuncOp, target: Target, always: bool) -> bool:
    first, last = (kernels[callee(call)] for call in edges.calls)
    c, p = parse_contraction(first), parse_selected(merged, looked_up=True)
    together = [time for time, _ in grouped.candidates(p, target, takes_unmeasured(first.operation))] if c is not None and p is not None else []
    apart = [time for time, _ in wgmma.candidates(first, c, target)] if together else []
    return bool(apart) and (always or min(together) < min(apart) + KERNEL_TIME + count_bytes(last) / KERNEL_RATE)

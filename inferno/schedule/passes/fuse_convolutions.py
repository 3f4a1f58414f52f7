"""On the CPU, what torch's convolution does on its way is part of its kernel: the zeros around an image, a number added to each feature.

``outline-kernels`` makes a kernel of each, which writes a tensor of the image's or the result's size.
"""

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.cpu.library import choose
from inferno.schedule.passes.calls import calls_in, inputs_of, may_change
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.merge_calls import Merges, names_of
from inferno.schedule.passes.rewrite import merge_in
from inferno.target import Target, find_target


def fuse_convolutions(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for GPUs, whose generators have convolutions of their own."""
    machine = find_target(target)
    if machine.kind != "cpu":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = [o for o in calls_in(main) if _is_convolution(kernels.get(callee(o)), machine)]
        changed = False
        for call in calls:
            while (wider := _with_maker(module, kernels, call, machine)) is not None:
                call, changed = wider, True
        return changed

    merge_in(module, merge)


def _is_convolution(kernel: func.FuncOp | None, target: Target) -> bool:
    if not may_change(kernel):
        return False
    found = choose(kernel, target)
    return found is not None and not found.multiplies


def _with_maker(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, target: Target) -> ir.Operation | None:
    """A convolution's new call, whose kernel makes one more of its operands, which nobody else reads; None where there is none that it could make."""
    for value in inputs_of(call):
        made = owner(root_of(value))
        if made is None or made.name != "func.call" or not may_change(kernels.get(callee(made))) or len(list(readers(root_of(value)))) != 1:
            continue
        wider = Merges(module, kernels).merge(edges_of([made, call], views=True), lambda merged: _is_convolution(merged, target), names_of(call))
        if wider is not None:
            return wider
    return None

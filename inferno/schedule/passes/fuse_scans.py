"""On a GPU, fuse the maps before and after a scan into its kernel, so that its input and output need not go through memory.

``fuse-reductions`` has made scans beside reductions of the same rows part of their kernels before.  A map in front joins if nothing else reads its
results, one behind if it needs nothing that waits for the group.  That always pays: each saves a pass over memory, and a scan has arithmetic to spare.
Flips in front and behind join, too: what they flip is read or written from the end, whole vectors at once.
"""

from inferno.mlir import func, ir, owner, walk
from inferno.passes.generics import is_reduction
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.passes.calls import generics_of, inputs_of, is_open, places_in
from inferno.schedule.passes.edges import Edges, edges_by_symbols, waits
from inferno.schedule.passes.merge_calls import defer, joint_name, merged_kernel, replace_calls
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.scans import scans
from inferno.target import Target, find_target

_MOST = 8  # kernels that become one


def fuse_scans(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def is_scan(kernel: func.FuncOp | None) -> bool:
        return kernel is not None and len(walk(kernel, "tm_tensor.scan")) == 1 and _is_taken(kernel, machine)

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed = False
        for call in [c for c in walk(main, "func.call") if is_scan(kernels.get(callee(c)))]:  # what joins one is erased, and is none
            changed |= _fuse(module, main, kernels, call, machine)
        return changed

    merge_in(module, merge)


def _fuse(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], call: ir.Operation, target: Target) -> bool:
    """Make a scan and what joins it one kernel; whether anything did."""
    places = places_in(main)
    calls, refused, found = [call], set(), None
    while len(calls) < _MOST and (candidate := _next(kernels, calls, refused, places)) is not None:
        merged = _merged(module, kernels, [*calls, candidate], places, target)
        if merged is None:
            refused.add(candidate)
            continue
        if found is not None:
            found[1].operation.erase()
        calls, found = [*calls, candidate], merged
    if found is None:
        return False
    defer(found[0])
    replace_calls(*found)
    return True


def _merged(
    module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation], places: dict[ir.Operation, int], target: Target,
) -> tuple[Edges, func.FuncOp] | None:
    """Calls as one scan's kernel; None, and nothing new, where they are none."""
    calls = sorted(calls, key=places.__getitem__)
    edges = edges_by_symbols(calls, views=True)
    if edges is None:
        return None
    merged = merged_kernel(kernels, edges, joint_name(module, calls))
    if _is_taken(merged, target):
        return edges, merged
    merged.operation.erase()
    return None


def _is_taken(kernel: func.FuncOp, target: Target) -> bool:
    return scans.read(kernel, target) is not None or scans.read_sized(kernel, target) is not None


def _next(kernels: dict[str, func.FuncOp], calls: list[ir.Operation], refused: set[ir.Operation], places: dict[ir.Operation, int]) -> ir.Operation | None:
    """A map that may join the group."""
    makers = [owner(root_of(v)) for c in calls for v in inputs_of(c)]
    for maker in makers:
        if maker in places and maker not in calls and maker not in refused and _is_map(kernels, maker):
            if all(u in calls for r in maker.results for u in readers(r)):
                return maker
    for reader in sorted({u for c in calls for r in c.results for u in readers(r)} & set(places), key=places.__getitem__):
        if reader not in calls and reader not in refused and _is_map(kernels, reader) and not waits(reader, set(calls)):
            return reader
    return None


def _is_map(kernels: dict[str, func.FuncOp], call: ir.Operation) -> bool:
    kernel = kernels.get(callee(call)) if call.name == "func.call" else None
    generics = generics_of(kernel) if is_open(kernel) else []
    return len(generics) == 1 and not is_reduction(generics[0])

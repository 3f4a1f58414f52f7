"""Maps in front of a call and behind it that become one kernel with it, if a generator takes that."""

from collections.abc import Callable

from inferno.mlir import func, ir, owner
from inferno.passes.generics import is_reduction
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.passes.calls import generics_of, inputs_of, is_open, places_in
from inferno.schedule.passes.edges import Edges, edges_by_symbols, waits
from inferno.schedule.passes.merge_calls import defer, joint_name, merged_kernel, replace_calls

_MOST = 8  # kernels that become one


def join_maps(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], call: ir.Operation, takes: Callable[[func.FuncOp], bool]) -> bool:
    """Make a call, and the maps in front of it and behind it that ``takes`` says may be in its kernel, one call; whether there were any."""
    places = places_in(main)
    calls, refused, found = [call], set(), None
    while len(calls) < _MOST and (candidate := _next(kernels, calls, refused, places)) is not None:
        merged = _merged(module, kernels, [*calls, candidate], places, takes)
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
    module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation], places: dict[ir.Operation, int], takes: Callable[[func.FuncOp], bool],
) -> tuple[Edges, func.FuncOp] | None:
    """Calls as one kernel; None, and nothing new, where that is not taken."""
    calls = sorted(calls, key=places.__getitem__)
    edges = edges_by_symbols(calls, views=True)
    if edges is None:
        return None
    merged = merged_kernel(kernels, edges, joint_name(module, calls))
    if takes(merged):
        return edges, merged
    merged.operation.erase()
    return None


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

"""On Hopper, fuse the row-wise operations behind a contraction into its kernel, where a row of its result fits one tile.

A softmax, a norm or a sum along the rows of ``x @ w`` is then done in the registers that hold the products, and what the kernels exchange
never goes to memory (on an H200 softmax(x @ w.T) of 4096x1024x64 took 4.9 us instead of 8.9, of 16384x1024x256 20.8 instead of 39.8).
It costs blocks, of which there is one for 64 rows at least, or a cluster where they share the terms: both are estimated.
"""

from collections.abc import Hashable
from math import inf

from inferno.mlir import func, ir
from inferno.passes.programs import FREEZE, callee, readers, wants_library
from inferno.schedule.analysis.accesses import iterators
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.matmul import direct, wgmma_rows
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.product_times import product_time
from inferno.schedule.passes.calls import places_in
from inferno.schedule.passes.merge_calls import Edges, defer, edges_across, joint_kernel, merge_in, pattern, replace_calls, waits
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target, find_target

_MOST = 16  # kernels that become one
_SURE = 1.1  # times
# Microseconds of a small kernel behind others, and bytes that one moves in one: a softmax of 512x64 in four took 3.0 us, one of 4096x256 10.5.
_KERNEL, _RATE = 0.75, 3e6


def fuse_row_epilogues(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever that can be."""
    machine = find_target(target)
    if not machine.hopper or wants_library(module):
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed, place, places = False, 0, places_in(main)
        operations = list(places)
        pays, one = {}, {}  # what is known of groups by their patterns: equal layers are asked about once
        while place < len(operations):
            call = operations[place]
            begins = call.name == "func.call" and callee(call) in kernels and _begins(call, kernels[callee(call)])
            if begins and _fuse(module, kernels, call, machine, always == "1", FREEZE in main.attributes, pays, one, places):
                changed, places = True, places_in(main)
                operations = list(places)
            else:
                place += 1
        return changed

    merge_in(module, merge)


def _begins(call: ir.Operation, kernel: func.FuncOp) -> bool:
    """Whether a call may be of a contraction with few columns."""
    if len(call.results) != 1 or ATTRIBUTE in kernel.attributes:
        return False
    type_ = call.results[0].type
    if type_.rank < 2 or type_.is_dynamic_dim(type_.rank - 1) or type_.shape[-1] > wgmma_rows.WIDEST:
        return False
    return any(o.operation.name == "linalg.generic" and "reduction" in iterators(o.operation) for o in kernel.entry_block.operations)


def _fuse(
    module: ir.Module, kernels: dict[str, func.FuncOp], head: ir.Operation, target: Target, always: bool, frozen: bool,
    pays: dict[Hashable, bool], one: dict[Hashable, bool], places: dict[ir.Operation, int],
) -> bool:
    """Fuse what follows one contraction, if that pays; whether it was."""
    edges = _grow(module, kernels, head, target, one, places)
    if edges is None:
        return False
    key = pattern(edges)
    if pays.get(key, True):
        merged = joint_kernel(module, kernels, edges)
        if key not in pays:
            pays[key] = _pays(kernels, edges, merged, target, always, frozen)
        if pays[key]:
            defer(edges)
            replace_calls(edges, merged)
            return True
        merged.operation.erase()
    return False


def _pays(kernels: dict[str, func.FuncOp], edges: Edges, merged: func.FuncOp, target: Target, always: bool, frozen: bool) -> bool:
    """Whether the estimate of the one kernel is below those of all that it stands for."""
    own = kernels[callee(edges.calls[0])]
    c = parse_contraction(own)
    if c is None or not all(isinstance(size, int) for size in (c.B, c.N, c.K)) or (frozen and _is_copied(c)):
        return False  # what its kernel copies @prepare may do once
    alone = product_time(own, target)
    rows = wgmma_rows.read(merged, target)
    joined = [time for time, _ in wgmma_rows.candidates(rows, target)] if rows.reduces else []
    apart = inf if always else (alone or 0.0) + sum(_time(kernels[callee(o)]) for o in edges.calls[1:])
    sure = max(_SURE, direct.SMALL_TILES if not c.varies and direct.is_of_small(c) else 0)
    return alone is not None and bool(joined) and sure * min(joined) < apart


def _is_copied(c: Contraction) -> bool:
    tiling = tile_contraction(c, 2, only_along_k=False)
    return tiling is None or tiling.lhs.copied or tiling.rhs.copied


def _time(kernel: func.FuncOp) -> float:
    """Microseconds of a kernel that is nothing but memory traffic, at least."""
    return _KERNEL + count_bytes(kernel) / _RATE


def _grow(
    module: ir.Module, kernels: dict[str, func.FuncOp], head: ir.Operation, target: Target, one: dict[Hashable, bool],
    places: dict[ir.Operation, int],
) -> Edges | None:
    """The contraction and all that reads its rows and can be part of its kernel; None if nothing can.  ``one``: whether calls can be one."""
    edges, calls = None, [head]
    pending, seen = _calls_of_results(head, kernels), set()
    while pending and len(calls) < _MOST:
        op = min(pending, key=places.__getitem__)
        pending.remove(op)
        seen.add(op)
        if waits(op, calls, places):
            continue
        more = edges_across([*calls, op], views=False)
        if more is None:
            continue
        key = pattern(more)
        if key not in one:
            trial = joint_kernel(module, kernels, more)
            one[key] = wgmma_rows.read(trial, target) is not None
            trial.operation.erase()
        if one[key]:
            edges = more
            calls.append(op)
            pending |= _calls_of_results(op, kernels) - seen
    return edges


def _calls_of_results(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> set[ir.Operation]:
    """The calls that read the results of one."""
    return {u for r in call.results for u in readers(r) if u.name == "func.call" and callee(u) in kernels}

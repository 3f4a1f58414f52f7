"""On Hopper, fuse the row-wise operations behind a contraction into its kernel, where a row of its result fits one tile.

A softmax, a norm or a sum along the rows of ``x @ w`` is then done in the registers that hold the products, and what the kernels exchange
never goes to memory (on an H200 softmax(x @ w.T) of 4096x1024x64 took 4.9 us instead of 8.9, of 16384x1024x256 20.8 instead of 39.8).
It costs blocks, of which there is one for 64 rows at least, or a cluster where they share the terms: both are estimated.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

from inferno.mlir import func, ir
from inferno.passes.generics import is_reduction
from inferno.passes.programs import FREEZE, callee, readers
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.matmul import direct, wgmma_rows
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.product_times import product_time
from inferno.schedule.passes.calls import places_in
from inferno.schedule.passes.edges import Edges, edges_across, pattern, waits
from inferno.schedule.passes.merge_calls import defer, joint_kernel, replace_calls
from inferno.schedule.passes.rewrite import Rewrite
from inferno.schedule.tiles.tiling import tile_contraction

_MOST = 16  # kernels that become one
_SURE = 1.1  # times
# Microseconds of a small kernel behind others, and bytes that one moves in one: a softmax of 512x64 in four took 3.0 us, one of 4096x256 10.5.
_KERNEL, _RATE = 0.75, 3e6


def fuse_row_epilogues(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever that can be."""
    _Fuse.rewrite_products(module, target, always)


@dataclass
class _Fuse(Rewrite):
    """``always``: wherever that can be.  Of groups of calls by their patterns, since equal layers are asked about once, ``one``: whether they can be one
    kernel, and ``paying``: whether that takes less time."""

    always: bool
    one: dict[Hashable, bool] = field(default_factory=dict)
    paying: dict[Hashable, bool] = field(default_factory=dict)

    def run(self) -> bool:
        """Whether anything was fused."""
        changed, place = False, 0
        self.places = places_in(self.main)
        operations = list(self.places)
        while place < len(operations):
            call = operations[place]
            if call.name == "func.call" and callee(call) in self.kernels and _begins(call, self.kernels[callee(call)]) and self.fuse(call):
                changed, self.places = True, places_in(self.main)
                operations = list(self.places)
            else:
                place += 1
        return changed

    def fuse(self, head: ir.Operation) -> bool:
        """Fuse what follows one contraction, if that pays; whether it was."""
        edges = self.grow(head)
        if edges is None:
            return False
        key = pattern(edges)
        if self.paying.get(key, True):
            merged = joint_kernel(self.module, self.kernels, edges)
            if key not in self.paying:
                self.paying[key] = self.pays(edges, merged)
            if self.paying[key]:
                defer(edges)
                replace_calls(edges, merged)
                return True
            merged.operation.erase()
        return False

    def grow(self, head: ir.Operation) -> Edges | None:
        """The contraction and all that reads its rows and can be part of its kernel; None if nothing can."""
        edges, calls = None, [head]
        pending, seen = self.readers_of(head), set()
        while pending and len(calls) < _MOST:
            op = min(pending, key=self.places.__getitem__)
            pending.remove(op)
            seen.add(op)
            if waits(op, calls):
                continue
            more = edges_across([*calls, op], views=False)
            if more is None:
                continue
            key = pattern(more)
            if key not in self.one:
                trial = joint_kernel(self.module, self.kernels, more)
                self.one[key] = wgmma_rows.read(trial, self.target) is not None
                trial.operation.erase()
            if self.one[key]:
                edges = more
                calls.append(op)
                pending |= self.readers_of(op) - seen
        return edges

    def readers_of(self, call: ir.Operation) -> set[ir.Operation]:
        """The calls that read the results of one."""
        return {u for r in call.results for u in readers(r) if u.name == "func.call" and callee(u) in self.kernels}

    def pays(self, edges: Edges, merged: func.FuncOp) -> bool:
        """Whether the estimate of the one kernel is below those of all that it stands for."""
        own = self.kernels[callee(edges.calls[0])]
        c = parse_contraction(own)
        if c is None or not all(isinstance(size, int) for size in (c.B, c.N, c.K)) or (FREEZE in self.main.attributes and _is_copied(c)):
            return False  # what its kernel copies @prepare may do once
        alone = product_time(own, self.target)
        rows = wgmma_rows.read(merged, self.target)
        joined = [time for time, _ in wgmma_rows.candidates(rows, self.target)] if rows.reduces else []
        apart = inf if self.always else (alone or 0.0) + sum(_time(self.kernels[callee(o)]) for o in edges.calls[1:])
        sure = max(_SURE, direct.SMALL_TILES if not c.varies and direct.is_of_small(c) else 0)
        return alone is not None and bool(joined) and sure * min(joined) < apart


def _begins(call: ir.Operation, kernel: func.FuncOp) -> bool:
    """Whether a call may be of a contraction with few columns."""
    if len(call.results) != 1 or ATTRIBUTE in kernel.attributes:
        return False
    type_ = call.results[0].type
    if type_.rank < 2 or type_.is_dynamic_dim(type_.rank - 1) or type_.shape[-1] > wgmma_rows.WIDEST:
        return False
    return any(is_reduction(o.operation) for o in kernel.entry_block.operations)


def _is_copied(c: Contraction) -> bool:
    tiling = tile_contraction(c, 2, only_along_k=False)
    return tiling is None or tiling.lhs.copied or tiling.rhs.copied


def _time(kernel: func.FuncOp) -> float:
    """Microseconds of a kernel that is nothing but memory traffic, at least."""
    return _KERNEL + count_bytes(kernel) / _RATE

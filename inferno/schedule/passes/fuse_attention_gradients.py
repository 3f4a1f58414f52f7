"""The products of attention's backward become one kernel function, or two in which neither weights nor their gradients are in memory.

Weights are exponentials of products of queries and keys; their gradients are made of those and of the products of the result's gradients and
values.  Of two kernels one sums the gradient of queries over keys, the other one those of keys and values over queries; both compute weights and
gradients for themselves.  That is done where nothing else reads them, and a generator takes the kernels.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from inferno.mlir import func, ir
from inferno.passes.programs import callee, readers, wants_library
from inferno.schedule.analysis.unchanged import unchanged
from inferno.schedule.assign import chooser_of
from inferno.schedule.attention import attention_gradients
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.passes.edges import Edges, edges_across, pattern, wait_for_each_other
from inferno.schedule.passes.fuse_attention import UNKNOWN, Calls, Fusion
from inferno.schedule.passes.merge_calls import defer, replace_calls
from inferno.target import find_target

_GENERATOR = "attention_gradients"
_SLOWER = 1.5  # between the products are several kernels, not one; an estimate
_DEPTH = 2  # contractions behind the one with exponentials: of the gradient of weights, and of results


def fuse_attention_gradients(module: ir.Module, target: str, always: str = "", together: str = "") -> None:
    """Rewrite ``@main`` and its kernels, where a generator for the target takes such kernels.  ``always``: "1" for wherever they are ones; with
    ``together`` "1" they are one there where that can be."""
    machine = find_target(target)
    choose = chooser_of(_GENERATOR, machine)
    if always != "1" and (choose is None or wants_library(module)):
        return

    def time(kernel: func.FuncOp) -> float | None:
        if always == "1":
            return UNKNOWN
        with unchanged(kernel):
            return None if choose(kernel, machine) is None else attention_gradients.time(kernel, machine)

    _Gradients.rewrite(module, machine, time=time, together=always != "1" or together == "1")


@dataclass(frozen=True)
class _Merge:
    """Calls that become one, what of their results stays, and the kernel."""

    edges: Edges
    kernel: func.FuncOp
    gradient: AttentionGradient


@dataclass
class _Gradients(Fusion):
    """``together``: what may be one kernel is one.  ``made``: kernels and what they compute, by the patterns of the calls that they stand for and by the
    results that are given back; None where it is something else."""

    together: bool = True
    made: dict[Hashable, tuple[func.FuncOp, AttentionGradient] | None] = field(default_factory=dict)

    def run(self) -> bool:
        """Whether anything was fused."""
        self.survey()
        self.used: set[str] = set()
        self.pending = [c for c in self.order if self.starts(c)]
        fused = False
        while self.pending:
            fused |= self.fuse_from(self.pending.pop(0))
        for kernel, _ in filter(None, self.made.values()):
            if kernel.name.value not in self.used:
                kernel.operation.erase()
        return fused

    def starts(self, call: ir.Operation) -> bool:
        """Whether ``call`` multiplies scores: exponentials are at its end, or, where only one result is wanted, at that of a contraction of them; or apart,
        where a mask is not read along the loops of the products."""
        if not self.called(call, self.multiplies):
            return False
        powers = self.powers & (self.multiplies | self.maps)
        return callee(call) in self.powers or any(self.called(u, powers) for v in call.results for u in readers(v))

    def fuse_from(self, start: ir.Operation) -> bool:
        """Make kernels of what is made of the weights that ``start`` computes; whether that was done."""
        depth = self.descendants(start)
        first, second = ([c for c, d in depth.items() if d == n and callee(c) in self.multiplies] for n in (1, _DEPTH))
        found: list[_Merge] = []
        for last in second:
            merge = self.best([last], start, depth)
            if merge is not None and merge.gradient.transposed:
                both = (self.best([last, other], start, depth) for other in first if other not in merge.edges.calls)
                merge = next((m for m in both if m is not None), merge)
            found += [] if merge is None else [merge]
        parts, found = found, self.joined(found) or found
        read = self.read_elsewhere(found, depth)
        if len(read) == 1:
            found = self.joined(parts, read)
            read = self.read_elsewhere(found, depth)
        if not found or read:
            return False
        calls = {c for m in found for c in m.edges.calls}
        times = [self.time(m.kernel) for m in found]
        if None in times or not self.pays(times, calls, _SLOWER):
            return False
        for merge in found:
            self.put(merge)
        self.number()
        return True

    def read_elsewhere(self, found: Sequence[_Merge], depth: Mapping[ir.Operation, int]) -> tuple[ir.Value, ...]:
        """What is made between scores and results, and read by others than the kernels that were ``found``, of which it is no result."""
        inside = {c for m in found for c in m.edges.calls}
        inner = {c for m in found for c in m.edges.calls if depth.get(c, _DEPTH) < _DEPTH and not any(r in m.edges.exported for r in c.results)}
        return tuple(r for c in self.order if c in inner and c in depth for r in c.results if any(u not in inside for u in readers(r)))

    def joined(self, found: Sequence[_Merge], more: tuple[ir.Value, ...] = ()) -> list[_Merge]:
        """The kernels of queries, and of keys and values, as one, which also has ``more`` of what is between them as results; none where that cannot
        be."""
        if not self.together or len(found) != 2 or [m.gradient.transposed for m in found].count(True) != 1:
            return []
        both = sorted(found, key=lambda m: not m.gradient.transposed)
        calls = sorted({c for m in both for c in m.edges.calls}, key=self.order.__getitem__)
        merge = self.merged(tuple(calls), (*(v for m in both for v in m.edges.exported), *more))
        return [merge] if merge is not None and self.time(merge.kernel) is not None else []

    def descendants(self, start: ir.Operation) -> dict[ir.Operation, int]:
        """What is made of the result of ``start``, each call with how many contractions are between, itself included."""
        found = {start: 0}
        reached: dict[int, ir.Operation] = {}  # by their places, which are looked at in order: all that a call reads of comes before it
        places: list[int] = []

        def reach(call: ir.Operation) -> None:
            for reader in (u for r in call.results for u in readers(r) if self.called(u, self.kernels)):
                if (place := self.order[reader]) not in reached:
                    reached[place] = reader
                    heappush(places, place)

        reach(start)
        while places:
            call = reached[heappop(places)]
            behind = [found[m] for m in self.makers([call]) if m in found]
            if behind and (n := max(behind) + (callee(call) in self.multiplies)) <= _DEPTH:
                found[call] = n
                reach(call)
        return found

    def best(self, lasts: Sequence[ir.Operation], start: ir.Operation, depth: Mapping[ir.Operation, int]) -> _Merge | None:
        """The calls from ``start`` to the ``lasts`` and what is around them as one kernel; None where that is none of attention's gradients."""
        core = {c for last in lasts for c in self.between(start, last, depth)}
        behind = {last: self.behind(last) for last in lasts}
        for ends in dict.fromkeys(tuple((*behind[last], last)[0] for last in lasts) if some else tuple(lasts) for some in (True, False)):
            calls = {*core, *ends}
            calls |= {*self.before(tuple(calls), self.is_move), *self.before(tuple(calls), self.is_mask)}
            merge = self.merged(tuple(sorted(calls, key=self.order.__getitem__)), tuple(e.results[0] for e in ends))
            if merge is not None:
                return merge
        return None

    def between(self, start: ir.Operation, last: ir.Operation, depth: Mapping[ir.Operation, int]) -> set[ir.Operation]:
        found, pending = {start}, [last]
        while pending:
            call = pending.pop()
            if call not in found:
                found.add(call)
                pending += [m for m in self.makers([call]) if m in depth]
        return found

    def merged(self, calls: Calls, exported: tuple[ir.Value, ...]) -> _Merge | None:
        edges = edges_across(calls, views=True)
        if edges is None or wait_for_each_other(calls):
            return None
        edges = replace(edges, exported=exported)
        key = (pattern(edges), tuple(calls.index(v.owner) for v in exported))
        if key not in self.made:
            kernel = self.joined_kernel(edges, "attention_gradient")
            gradient = parse_attention_gradient(kernel)
            self.made[key] = (kernel, gradient) if gradient is not None else None
            if gradient is None:
                kernel.operation.erase()
        return None if self.made[key] is None else _Merge(edges, *self.made[key])

    def put(self, merge: _Merge) -> None:
        """Call the kernel; what others read stays."""
        gone: list[ir.Operation] = []
        for call in reversed(merge.edges.calls):
            if any(r in merge.edges.exported for r in call.results) or all(u in gone for r in call.results for u in readers(r)):
                gone.insert(0, call)
        self.pending = [c for c in self.pending if c not in gone]
        edges = replace(merge.edges, calls=tuple(gone))
        defer(edges)
        replace_calls(edges, merge.kernel)
        self.used.add(merge.kernel.name.value)

"""Fuse elementwise kernels that read a contraction's result into its epilogue, which then has several results: of a linear layer or a convolution in training
the activation and what its gradient needs of the sums, which are written from registers and never read.

``fuse-contractions`` makes an epilogue of one reader alone, with one result.  Here a contraction and all that read it point by point become one
kernel, if that takes less time by the estimates.  Before the choice of schedules, as ``fuse-duals``, and in its form: the contraction into a tensor
that is dead outside, and one elementwise operation that makes every result.  Between the two nothing is rounded that the model does not round.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import filterfalse

from inferno.mlir import func, ir, owner, users
from inferno.passes.programs import callee, keep_precision, readers
from inferno.schedule.convolution.im2col import parse_unfolded
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.product_times import contraction_time
from inferno.schedule.passes.call_times import CallTimes
from inferno.schedule.passes.calls import calls_in, free_name, in_order, inputs_of, may_change
from inferno.schedule.passes.edges import Edges, Waiting, edges_of, reads_reshaped
from inferno.schedule.passes.join_epilogues import join_epilogues
from inferno.schedule.passes.merge_calls import merged_kernel
from inferno.schedule.passes.recompute_maps import is_map, recompute_map
from inferno.schedule.passes.rewrite import Rewrite
from inferno.schedule.tiles.tile_ends import whole_tensors

_MOST = 4  # results: each is staged in shared memory, or stored by threads themselves, one after the other
# Of the estimates of what a convolution and its readers take apart, what one kernel may take (an H200, bf16, GELU and its input: 80 channels of 8x3000 to 512,
# windows of 3, 46.2 us, 36.8 apart, where one kernel was estimated to take 3% less; others gain more, see docs/convolution.md).
_SHARE = 0.95


def fuse_epilogues(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever a generator takes it."""
    _Fuse.rewrite_products(module, target, always)


@dataclass
class _Fuse(Rewrite):
    """``always``: wherever a generator takes it."""

    always: bool

    def __post_init__(self) -> None:
        self.times = CallTimes(self.kernels, self.target)
        self.makers: dict[ir.Operation, list[ir.Operation]] = {}  # of what makes operations' operands, while nothing changes

    def run(self) -> bool:
        """Whether anything was fused."""
        changed = self.recompute()
        for call in reversed(calls_in(self.main)):  # what is fused with one comes behind it
            while call is not None and (groups := self.groups(call)):
                call = next((new for group in groups if (new := self.fuse(edges_of(group, views=False))) is not None), None)
                changed |= call is not None
        return changed

    def recompute(self) -> bool:
        """Let those that read contractions compute what maps make for them and for others: one that is an epilogue would read it. Whether any does."""
        changed, refused = False, set()
        for call in [o for o in calls_in(self.main) if not self.is_elementwise(o)]:
            while any(recompute_map(self, made, refused) for made in self.maps_beside(call)):
                changed = True
        self.makers = {}
        return changed

    def maps_beside(self, call: ir.Operation) -> Iterator[ir.Operation]:
        """What elementwise readers of a contraction read beside it that maps make, for elementwise kernels alone."""
        found = [u for r in call.results for u in readers(r) if self.is_elementwise(u)]
        for reader in reversed(found) if found and self.times.is_contraction(call) else ():
            for made in dict.fromkeys(m for v in inputs_of(reader) if (m := owner(v)) is not None and m != call and self.is_elementwise(m)):
                if is_map(self.kernels[callee(made)]) and all(map(self.is_elementwise, users(made.results[0]))):
                    yield made

    def is_elementwise(self, op: ir.Operation) -> bool:
        return op.name == "func.call" and may_change(self.kernels.get(callee(op))) and self.times.is_elementwise(op)

    def groups(self, call: ir.Operation) -> list[list[ir.Operation]]:
        """A contraction's call with those of elementwise kernels that read its results as they are, and those that read theirs; or with the first
        alone; or with one of them: what is left reads results in another order, say."""
        first = self.reading(call) if may_change(self.kernels.get(callee(call))) else set()
        if not first or not self.times.is_contraction(call):
            return []
        found, pending = set(first), list(first)
        while pending:
            new = self.reading(pending.pop()) - found
            found |= new
            pending += new
        tried = [self.ready(call, each) for each in (found, first, *({one} for one in in_order(first)))]
        return [in_order([call, *each]) for i, each in enumerate(tried) if each and each not in tried[:i]]

    def ready(self, call: ir.Operation, group: set[ir.Operation]) -> set[ir.Operation]:
        """Those of a group that wait for nothing else that needs the call or one of them; one that is left out is something else to those that read it."""
        while group and (kept := set(filterfalse(Waiting({call, *group}, self.makers), group))) != group:
            group = kept
        return group

    def reading(self, call: ir.Operation) -> set[ir.Operation]:
        """The calls of elementwise kernels that read a call's results as they are."""
        return {u for r in call.results for u in readers(r) if self.is_elementwise(u) and set(u.operands) & set(call.results)}

    def fuse(self, edges: Edges) -> ir.Operation | None:
        """The new call in place of these, if one kernel may and should do what they do."""
        if reads_reshaped(edges) or len(edges.exported) > _MOST:
            return None
        call = self.merges.replace(edges, self.build)
        if call is not None:
            self.makers = {}
        return call

    def build(self, edges: Edges) -> func.FuncOp | None:
        contraction = self.kernels[callee(edges.calls[0])]
        merged = merged_kernel(self.kernels, edges, free_name(self.module, contraction.name.value))
        keep_precision(merged, contraction)
        kernel = join_epilogues(merged)
        if kernel is None:
            merged.operation.erase()
            return None
        c = parse_unfolded(kernel, self.target)
        time = contraction_time(kernel, self.target) if c is None or _lie_alike(c) else None
        if time is not None and (self.always or time < (1 if c is None else _SHARE) * sum(self.times.of(c) for c in edges.calls)):
            self.kernels[kernel.name.value] = kernel
            return kernel
        kernel.operation.erase()
        return None


def _lie_alike(c: Contraction) -> bool:
    """Whether all results, and what is read of their size, have one order in memory: one in another would be written uncoalesced."""
    return len({a.strides for a in (*(d.access for d in c.destinations), *whole_tensors(c))}) == 1

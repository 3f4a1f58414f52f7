"""Fuse two contractions that share an operand and meet elementwise into one kernel: ``silu(x @ g) * (x @ u)`` of a SwiGLU.

``fuse-contractions`` makes two kernels of it: one contraction is the other's epilogue's to read, as a tensor of float32.  As one kernel
that tensor is neither written nor read, the shared operand is read once, and there is one launch; but a tile has half of the columns.
Whether that pays the estimates say: the kernel has to take clearly less than all that it stands for.  Before the choice of schedules, since only
generators that have an estimate for it take it; everything else stays as it is.

The kernel's form: both contractions into tensors that are dead outside, and one elementwise operation that reads both and makes every
result, the epilogue of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee
from inferno.schedule.matmul import dual, dual_bf16x6, dual_vectors
from inferno.schedule.passes.call_times import CallTimes, elementwise_time
from inferno.schedule.passes.calls import calls_in, free_name, in_order, inputs_of
from inferno.schedule.passes.edges import Edges, edges_of, stays_in_order
from inferno.schedule.passes.join_epilogues import join_epilogues
from inferno.schedule.passes.merge_calls import merged_kernel, replace_calls
from inferno.schedule.passes.rewrite import Rewrite
from inferno.schedule.passes.split_chunks import Chunks

# Microseconds that have to be gained by the estimates.  Less is none: products with one vector, which others compute as fast, and whose second
# launch hides behind the first (H200, 1x4096x11008: 46.3 us as two and 46.2 as one kernel; columns together: 52.8 and 53.7).
_LEAST = 1.5
# The same where one of the kernels waits for the other's results: nothing hides its launch.
_LEAST_BEHIND = 0.0


def fuse_duals(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than Hopper.  ``always``: "1" for fusing wherever a generator takes it."""
    _Fuse.rewrite_products(module, target, always)


@dataclass
class _Fuse(Rewrite):
    """``always``: wherever a generator takes it."""

    always: bool

    def __post_init__(self) -> None:
        self.times = CallTimes(self.kernels, self.target)
        self.chunks = Chunks(self.kernels, lambda wanted: free_name(self.module, wanted))

    def run(self) -> bool:
        """Whether anything was fused."""
        changed = False
        for call in calls_in(self.main):
            for group in self.groups(call):
                edges = edges_of(group, views=False)
                if stays_in_order(edges) and (kernel := self.kernel(edges)) is not None:
                    replace_calls(edges, kernel)
                    changed = True
                    break
            else:
                changed |= self.fuse_chunks(call)
        return changed or bool(self.chunks.made)

    def fuse_chunks(self, last: ir.Operation) -> bool:
        """The same for chunks of one contraction's columns, which meet in ``last``."""
        split = self.chunks.split(last)
        if split is None:
            return False
        times = [self.times.find(c) or (False, elementwise_time(self.kernels[callee(c)])) for c in split.replaced]
        edges = edges_of(split.calls, views=False)
        fits = times[0][0] and stays_in_order(edges)
        kernel = self.kernel(edges, sum(time for _, time in times)) if fits else None
        if kernel is None:
            split.undo()
            return False
        replace_calls(edges, kernel)
        split.finish()
        return True

    def groups(self, last: ir.Operation) -> Iterator[list[ir.Operation]]:
        """Calls that may be two contractions that share an operand and meet in ``last``: it is the second one, or elementwise."""
        made = list(dict.fromkeys(made for v in inputs_of(last) if (made := owner(v)) is not None and made.name == "func.call"))
        for *pair, meets in ([(c, last, True) for c in made] + [(*pair, False) for pair in combinations(made, 2)]):
            if not set(inputs_of(pair[0])).isdisjoint(inputs_of(pair[1])) and self.contract(pair) and (meets or self.times.is_elementwise(last)):
                group = pair if meets else [*pair, last]
                yield in_order(group)

    def contract(self, calls: list[ir.Operation]) -> bool:
        return all(map(self.times.is_contraction, calls))

    def kernel(self, edges: Edges, before: float | None = None) -> func.FuncOp | None:
        """The kernel that does what these calls do, if it takes less time than they, or than ``before``."""
        return self.merges.kernel(edges, lambda edges: self.build(edges, before))

    def build(self, edges: Edges, before: float | None) -> func.FuncOp | None:
        # Products that are results themselves, as of a SwiGLU in training, stay apart: 4096x1024x2816 took an H100 152 us as one kernel (74 estimated),
        # where the library's products take 30 each and what reads them 21.
        if len(edges.exported) > 1 and not self.always:
            return None
        last = callee(edges.calls[-1])
        merged = merged_kernel(self.kernels, edges, free_name(self.module, f"dual_{last}"))
        kernel = join_epilogues(merged)
        if kernel is None:
            merged.operation.erase()
            return None
        pair = dual.parse_pair(kernel)
        makers = (dual.candidates, dual_bf16x6.candidates, dual_vectors.candidates)
        found = [item for make in makers for item in make(kernel, pair, self.target)] if pair is not None else []
        least = _LEAST if before is None else _LEAST_BEHIND
        before = sum(map(self.times.of, edges.calls)) if before is None else before
        if found and (self.always or min(time for time, _ in found) + least < before):
            return kernel
        kernel.operation.erase()
        return None

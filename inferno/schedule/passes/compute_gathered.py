"""On a GPU, compute what a map makes in the only other map that reads it, which gathers its elements, where that takes less time than both.

``fuse-gathers`` leaves a map alone that computes something costly of few elements, such as the gate of a channel, where it is gathered in another shape, and
one that ends a kernel of sums: it does not know yet which kernels there will be.  Where ``hoist-vectors`` has computed the gates apart, and what is left is a
kernel of its own, each element is as fast to make where it is gathered, as by a roll of gated rows.
"""

from dataclasses import dataclass

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.accesses import has_known_sizes
from inferno.schedule.maps.elementwise import choose
from inferno.schedule.passes.calls import generics_of, inputs_of
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.map_calls import MapCalls
from inferno.schedule.passes.recompute_maps import gather_first, time_of
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.target import find_target


def compute_gathered(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


@dataclass
class _Program(Rewrite):
    def __post_init__(self) -> None:
        self.maps = MapCalls(self.kernels)

    def run(self) -> bool:
        """Whether anything was changed."""
        return rewrite_calls(self.main, self._take_in)

    def _take_in(self, call: ir.Operation) -> bool:
        """Let a map compute what another one makes for it, if that pays; whether one does."""
        if call not in self.maps:
            return False
        made = [owner(v) for v in dict.fromkeys(map(root_of, inputs_of(call)))]
        return any(maker is not None and maker in self.maps and self._join(maker, call) for maker in made)

    def _join(self, maker: ir.Operation, reader: ir.Operation) -> bool:
        if len(maker.results) != 1 or any(r != reader for r in readers(maker.results[0])):
            return False
        before = [self.kernels[callee(c)] for c in (maker, reader)]
        if not all(map(has_known_sizes, before)):
            return False

        def takes(kernel: func.FuncOp) -> bool:
            alone = gather_first(kernel) and len(generics_of(kernel)) == 1 and choose(kernel, self.target) is not None
            return alone and time_of([kernel], self.target) < time_of(before, self.target)

        return self.merges.merge(edges_of([maker, reader], views=True), takes) is not None

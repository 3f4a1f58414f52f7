"""On Hopper, let attention write this step's keys and values to the caches that it reads, which saves the kernel that writes them.

A write by itself (``write-slices``) is a copy of the cache, which is left out where the result lies in its place, and a scatter of rows.  Both come to
the front of attention's function, which then returns the caches, too.  Who else reads a new cache reads it behind attention; where attention
waits for such a reader, or a generator does not know where the rows are, all stays apart.
"""

from dataclasses import dataclass, replace

from inferno.mlir import func, ir, owner
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.kernel_parts import OWN
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.support import read
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.passes.calls import calls_in, in_order, inputs_of
from inferno.schedule.passes.edges import edges_of, wait_for_each_other
from inferno.schedule.passes.merge_writes import is_write
from inferno.schedule.passes.rewrite import Rewrite
from inferno.target import find_target


def write_caches(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets without such a kernel of attention."""
    machine = find_target(target)
    if machine.hopper:
        _Writes.rewrite(module, machine)


@dataclass
class _Writes(Rewrite):
    def run(self) -> bool:
        """Whether anything was changed."""
        self.writing = {name for name, k in self.kernels.items() if is_write(k)}
        self.attention = {name for name, k in self.kernels.items() if _generator(k) == Attention.generator}
        calls = [o for o in calls_in(self.main) if callee(o) in self.attention]
        return sum([self.fold(call) for call in calls]) > 0

    def fold(self, call: ir.Operation) -> bool:
        """Whether the writes in front of a call of attention became a part of it."""
        made = dict.fromkeys(owner(root_of(v)) for v in inputs_of(call))
        writes = [op for op in made if op is not None and op.name == "func.call" and callee(op) in self.writing and _is_kept(op)]
        group = (*in_order(writes), call)
        if not writes or wait_for_each_other(group):
            return False
        edges = replace(edges_of(group, views=False), exported=tuple(r for c in group for r in c.results))
        kernel = self.kernels[callee(call)]
        return self.merges.merge(edges, lambda merged: self.takes(merged, kernel, len(writes)), f"{callee(call)}_writes") is not None

    def takes(self, merged: func.FuncOp, kernel: func.FuncOp, count: int) -> bool:
        """Give the function of all what attention's has; whether its generator takes it with so many writes."""
        for name in kernel.attributes:
            if name not in OWN:
                merged.attributes[name] = kernel.attributes[name]
        merged.attributes[ATTRIBUTE] = kernel.attributes[ATTRIBUTE]
        found = read(merged, self.target)
        return found is not None and len(found[0].writes) == count and fits(from_attribute(kernel.attributes[ATTRIBUTE]), found[0], self.target)


def _generator(kernel: func.FuncOp) -> str:
    return from_attribute(kernel.attributes[ATTRIBUTE]).generator if ATTRIBUTE in kernel.attributes else ""


def _is_kept(write: ir.Operation) -> bool:
    """Whether the program returns what is made, so that it may lie where the cache is."""
    return any(u.name == "func.return" for r in write.results for u in readers(r))

"""Bundle small independent kernels into one: the rotations of queries and keys, the updates of many weights.

Each alone costs a launch and leaves most of the GPU idle.  Calls that are near each other become one (see ``merge_independent`` and ``bundle``).
(On an H200 four layers of TinyLlama with one token took 172 us instead of 181, with 40 launches instead of 50.)
"""

from collections.abc import Iterator, Sequence
from typing import Any

from inferno.mlir import func, ir
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.kernel_parts import parts_of
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.composite import bundle
from inferno.schedule.passes.looked_up_rows import tables_of, tells_places
from inferno.schedule.passes.mark_overwrites import mark, overwritable, updated
from inferno.schedule.passes.merge_independent import Group, Merge
from inferno.target import Target

BUNDLE = "inferno.bundles"
"""On a module whose small kernels are to be bundled."""


def bundle_kernels(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels, where the module asks for it; nothing for targets other than GPUs."""
    if BUNDLE in module.operation.attributes:
        _Bundles.rewrite(module, target)


def bundle_updates(module: ir.Module, target: str) -> None:
    """The same of what changes arguments where they lie, the program's counts and weights, which stays possible: behind ``mark-overwrites``."""
    if BUNDLE in module.operation.attributes:
        del module.operation.attributes[BUNDLE]
        _Updates.rewrite(module, target)


class _Bundles(Merge):
    suffix = "bundle"

    def __init__(self, module: ir.Module, functions: dict[str, func.FuncOp], target: Target) -> None:
        self.schedules: dict[str, Any] = {}
        super().__init__(module, functions, target)

    def is_mergeable(self, kernel: func.FuncOp) -> bool:
        return bundle.fits(kernel) and len(parts_of(kernel)) == 1

    def choices(self) -> Iterator[tuple[Group, ...]]:
        return self.runs([c for c in self.calls() if not updated(c, self.kernels[callee(c)]) and not self.tells_places(c)], bundle.MOST, self.fits)

    def tells_places(self, call: ir.Operation) -> bool:
        """Whether it makes nothing but places, which scatters compute themselves by ``fold-places``."""
        found = readers(call.results[0]) if tells_places(self.kernels[callee(call)]) else []
        return bool(found) and all(r.name == "func.call" and call.results[0] in map(root_of, self.tables_of(r)) for r in found)

    def tables_of(self, call: ir.Operation) -> list[ir.Value]:
        """Where a call's scatters look their places up; one that this pass has made has none."""
        kernel = self.kernels.get(callee(call))
        return [] if kernel is None else tables_of(call, kernel)

    def fits(self, calls: tuple[ir.Operation, ...]) -> bool:
        return bundle.join([self.schedule_of(callee(c)) for c in calls]) is not None

    def schedule_of(self, name: str) -> Any:
        if name not in self.schedules:  # most are asked for with each of many that follow
            self.schedules[name] = from_attribute(self.kernels[name].attributes[ATTRIBUTE])
        return self.schedules[name]

    def schedule(self, kernel: func.FuncOp, parts: Sequence[func.FuncOp]) -> bundle.Bundle | None:
        return bundle.choose(parts)


class _Updates(_Bundles):
    suffix = "updates"

    def is_mergeable(self, kernel: func.FuncOp) -> bool:
        """Whether it is one elementwise operation: others may read again what they have changed."""
        return super().is_mergeable(kernel) and bool(overwritable(kernel)) and len(kernel.type.results) == 1

    def choices(self) -> Iterator[tuple[Group, ...]]:
        return self.runs([c for c in self.calls() if updated(c, self.kernels[callee(c)])], bundle.MOST, self.fits)

    def together(self, calls: tuple[ir.Operation, ...]) -> Group | None:
        """Behind who else reads what is changed, too."""
        group = super().together(calls)
        changed = [root_of(c.operands[n]) for c in calls for n in updated(c, self.kernels[callee(c)])]
        behind = max((self.order[r] + 1 for v in changed for r in readers(v) if r not in calls), default=0)
        if group is None or behind > min((self.order[r] for c in calls for v in c.results for r in readers(v)), default=behind):
            return None
        return Group(calls, max(group.place, behind))

    def schedule(self, kernel: func.FuncOp, parts: Sequence[func.FuncOp]) -> bundle.Bundle | None:
        found = super().schedule(kernel, parts)
        if found is not None:
            kernel.attributes[ATTRIBUTE] = to_attribute(found)
            mark(kernel)
        return found

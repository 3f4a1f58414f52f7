"""Merge independent contractions of one tensor into one kernel: attention's queries, keys and values, a weight's gradients.

Calls that read one tensor become one call (see ``merge_independent``); those that the cost model thinks faster one by one stay apart (see
``siblings``).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from inferno.mlir import func, ir
from inferno.passes.programs import root_of
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.composite import by_size, siblings
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.passes.calls import inputs_of
from inferno.schedule.passes.merge_independent import Group, Merge

MERGE = "inferno.siblings"
"""On a module whose contractions are to be merged."""


def merge_siblings(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels, where the module asks for it; nothing for targets other than GPUs."""
    if MERGE not in module.operation.attributes:
        return
    del module.operation.attributes[MERGE]
    _Siblings.rewrite(module, target)


class _Siblings(Merge):
    suffix = "siblings"

    def is_mergeable(self, kernel: func.FuncOp) -> bool:
        return ATTRIBUTE in kernel.attributes and _generators(from_attribute(kernel.attributes[ATTRIBUTE])) <= set(siblings.GENERATORS)

    def choices(self) -> Iterator[Iterator[Group]]:
        reading: dict[ir.Value, list[ir.Operation]] = {}
        for op in self.calls():
            for root in dict.fromkeys(root_of(v) for v in inputs_of(op)):
                reading.setdefault(root, []).append(op)
        yield from map(self._groups, reading.values())

    def _groups(self, calls: list[ir.Operation]) -> Iterator[Group]:
        """Those of ``calls`` that can be one, for each that is the first: as many as there are, and then the first ones alone."""
        for i, first in enumerate(calls):
            group = None
            for call in calls[i + 1:]:
                joined = self.together((*(group.calls if group else (first,)), call))
                group = joined or group
                if group is not None and len(group.calls) == siblings.MOST:
                    break
            while group is not None:
                yield group
                group = self.together(group.calls[:-1]) if len(group.calls) > 2 else None

    def schedule(self, kernel: func.FuncOp, parts: Sequence[func.FuncOp]) -> Any | None:
        if any(isinstance(t, ir.IndexType) for t in kernel.type.inputs):
            return by_size.choose(kernel, self.target)
        found = siblings.choose(kernel, self.target)
        return found if found is not None and found.pays else None


def _generators(schedule: Any) -> set[str]:
    return _generators(schedule.small) | _generators(schedule.large) if isinstance(schedule, BySize) else {schedule.generator}

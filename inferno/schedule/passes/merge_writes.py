"""On a GPU, merge independent writes to slices: a token's keys and its values, each to its cache.

What comes before a write is a copy, which is left out where it is made in place; the writes are one launch, whose blocks are dealt out to them.
"""

from collections.abc import Iterator, Sequence

from inferno.mlir import func, ir
from inferno.passes.programs import operations_in
from inferno.schedule.analysis.accesses import knows_arguments
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.passes.merge_independent import Group, Merge
from inferno.schedule.universal.universal import Universal

_MOST = 16  # as many as scatter_launches puts in one launch
_WRITE = ["linalg.copy", "tm_tensor.scatter", "func.return"]


def merge_writes(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than GPUs."""
    _Writes.rewrite(module, target)


class _Writes(Merge):
    suffix = "writes"

    def is_mergeable(self, kernel: func.FuncOp) -> bool:
        return is_write(kernel)

    def choices(self) -> Iterator[tuple[Group, ...]]:
        return self.runs(self.calls(), _MOST)

    def schedule(self, kernel: func.FuncOp, parts: Sequence[func.FuncOp]) -> Universal:
        return from_attribute(parts[0].attributes[ATTRIBUTE])


def is_write(kernel: func.FuncOp) -> bool:
    """Whether a kernel copies a tensor and writes to places of the copy that are all different, by the last generator."""
    operations = operations_in(kernel)
    if ATTRIBUTE not in kernel.attributes or from_attribute(kernel.attributes[ATTRIBUTE]).generator != Universal.generator:
        return False
    if not knows_arguments(kernel) or [o.name for o in operations] != _WRITE:
        return False
    return ir.BoolAttr(operations[1].attributes["unique_indices"]).value

"""On a GPU, split a total of all points that reads row sums into totals of rows, and a total of these.

A divergence of two softmaxes is one sum of all points, of terms that need the largest element and the sum of exponentials of each row of both.  As a sum of
everything it waits for the last row, and reads all again; as sums of rows it is part of the kernel that keeps the rows (``fuse-reductions``), which then
reads both tensors once.  ``fuse-totals`` does so later, for what goes over rows already.
"""

from math import prod

from inferno.mlir import func, ir, owner
from inferno.passes.generics import dims, inputs, is_reduction, maps
from inferno.passes.programs import callee, root_of
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.passes.calls import generics_of, inputs_of
from inferno.schedule.passes.totals import Total, named_kernel, rewrite_totals, split_total
from inferno.target import Target

_WIDTH = 64  # points of a row, of which a total is written and read again
_EACH = 2  # rows for each multiprocessor, so that all have work
_DEPTH = 4  # maps between what rows come to and what is made of it


def split_totals(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    def rewrite(kernels: dict[str, func.FuncOp], found: Total, machine: Target) -> bool:
        leading = _rows(found, kernels, machine)
        if leading is None:
            return False
        each, total = split_total(module, found, loop_sizes(found.generic), leading)
        for new in (each, total):
            kernels[callee(new)] = named_kernel(module, callee(new))
        found.call.results[0].replace_all_uses_with(total.results[0])
        found.call.erase()
        return True

    rewrite_totals(module, target, rewrite)


def _rows(found: Total, kernels: dict[str, func.FuncOp], target: Target) -> int | None:
    """How many leading loops are rows, of which what the total reads was reduced; None where there are none."""
    sizes, given = loop_sizes(found.generic), dict(zip(found.kernel.entry_block.arguments, inputs_of(found.call)))
    for value, map_ in zip(inputs(found.generic), maps(found.generic)):
        loops = dims(map_)
        if not loops or loops != list(range(len(loops))) or len(loops) == len(sizes) or value not in given:
            continue
        rows = prod(sizes[: len(loops)])
        if rows >= _EACH * target.multiprocessors and prod(sizes) >= _WIDTH * rows and _reduces(given[value], kernels, rows, _DEPTH):
            return len(loops)
    return None


def _reduces(value: ir.Value, kernels: dict[str, func.FuncOp], rows: int, depth: int) -> bool:
    """Whether a value is what rows come to, or is made of it, row by row."""
    call = owner(root_of(value))
    kernel = kernels.get(callee(call)) if call is not None and call.name == "func.call" else None
    if kernel is None or not value.type.has_static_shape or prod(value.type.shape) != rows:
        return False
    if any(is_reduction(g) for g in generics_of(kernel)):
        return True
    return depth > 0 and any(isinstance(v.type, ir.RankedTensorType) and _reduces(v, kernels, rows, depth - 1) for v in inputs_of(call))

"""What kernels of ``fuse-reductions`` and passes like it do, and take by themselves."""

from inferno.mlir import func, ir, users, walk
from inferno.passes.generics import REDUCTION, is_reduction, kinds
from inferno.passes.programs import operations_in
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.cost import KERNEL_RATE, KERNEL_TIME, count_bytes, example_bytes, extracted_bytes
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.passes.calls import generics_of
from inferno.schedule.reductions import reductions
from inferno.schedule.rows.parser import has_sized_tables
from inferno.schedule.rows.row_work import busy, scan_instructions
from inferno.schedule.scans import scans
from inferno.target import Target

_IN_CACHE, _EACH = 0.6, 1.1  # of what is moved where the L2 cache keeps all, and then of a kernel: RMSNorm of 2x1M took 7.1 us, of 4x1M 11.4


def kind_of(kernel: func.FuncOp, whole: bool = False) -> str | None:
    """What a kernel without a schedule is: a "map", a "reduction", a "scan" or a "copy"; None for anything else.  ``whole``: also of one reduction with maps
    before and behind it, as ``fuse-epilogues`` leaves a product with a vector."""
    if len(walk(kernel, "tm_tensor.scan")) == 1 and ATTRIBUTE not in kernel.attributes:
        return None if any(o.operation.name == "linalg.generic" for o in kernel.entry_block.operations) else "scan"
    generics = generics_of(kernel)
    if whole and len(generics) > 1:
        generics = [g for g in generics if is_reduction(g)]
    if not generics and len(walk(kernel, "linalg.copy")) == 1 and ATTRIBUTE not in kernel.attributes:
        return "copy"
    if len(generics) != 1 or ATTRIBUTE in kernel.attributes or has_sized_tables(kernel):
        return None
    sizes, kind = loop_sizes(generics[0]), kinds(generics[0])
    others = [a for a in kernel.entry_block.arguments if not isinstance(a.type, (ir.RankedTensorType, ir.IndexType))]
    if sizes is None or others:
        return None
    return "reduction" if any(k == REDUCTION and s != 1 for k, s in zip(kind, sizes)) else "map"


def alone(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds of a kernel by itself; a sum that is cut into chunks is two, and few blocks do not read as fast as many."""
    found, moved = reductions.planned(kernel, target), moved_bytes(kernel) / KERNEL_RATE
    if kind_of(kernel) == "scan" and (scan := scans.read(kernel, target)) is not None:
        vector = scans.pick(scan, target).vector
        moved = max(moved, busy(scan.outer * scan.length * scan.inner * scan_instructions(scan.combiner, vector), target))
    if found is None:
        return KERNEL_TIME + moved
    c, s = found
    return max(reductions.estimate(s, c, target), KERNEL_TIME * (1 + (s.cuts(c) > 1)) + moved)


def cached(kernel: func.FuncOp, target: Target) -> float:
    """The same where the L2 cache keeps what is read."""
    found = reductions.planned(kernel, target)
    kernels = 1 + (found is not None and found[1].cuts(found[0]) > 1)
    return _EACH * kernels + _IN_CACHE * max(0.0, alone(kernel, target) - KERNEL_TIME * kernels)


def moved_bytes(kernel: func.FuncOp) -> int:
    """What a kernel moves: of tensors that bodies extract from what they extract."""
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    tables = {op.operands[0] for g in generics for op in walk(g, "tensor.extract")}
    only = {t for t in tables if all(u.name == "tensor.extract" for u in users(t))}
    return count_bytes(kernel) - sum(map(example_bytes, only)) + sum(map(extracted_bytes, generics))

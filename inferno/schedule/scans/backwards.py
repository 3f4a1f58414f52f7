"""Scans of what is flipped, whose results are flipped back: the same scan from the end, as the gradient of a running sum is."""

from inferno.mlir import dim_of, func, ir, owner, users, walk
from inferno.passes.fuse_gathers import read_in_order
from inferno.passes.generics import inputs, is_copy, is_elementwise, loop_sizes, loops_of, maps
from inferno.passes.programs import callee, readers, root_of
from inferno.passes.reversals import flipped_dimensions
from inferno.schedule.passes.calls import generics_of, inputs_of


def straighten(scan: ir.Operation) -> bool:
    """Take the flips in front of a scan and behind it out of its kernel, if there are such; whether it goes over its dimension from the end then."""
    dimension, result = ir.IntegerAttr(scan.attributes["dimension"]).value, scan.results[0]
    maker, behind = owner(scan.operands[0]), list(users(result))
    gathers = [u for u in behind if u.name == "tensor.extract"]
    if not gathers or len(gathers) != len(behind) or not is_elementwise(maker) or len(list(users(maker.results[0]))) != 1:
        return False
    if not _is_flipped(maker, dimension) or not all(_flips(g, dimension) for g in gathers):
        return False
    for gather in gathers:
        turned = owner(list(gather.operands)[1 + dimension])
        gather.operands[1 + dimension] = turned.operands[1]
    for count in [o for o in walk(maker, "linalg.index") if dim_of(o) == dimension]:
        for use in [u.owner.operation for u in count.results[0].uses]:
            use.results[0].replace_all_uses_with(count.results[0])
            use.erase()
    for generic in (maker, *dict.fromkeys(g.parent.operation for g in gathers)):
        read_in_order(generic)
    maker = owner(scan.operands[0])
    if is_copy(maker) and maps(maker)[0] == maps(maker)[-1]:  # what is scanned is what the kernel is given
        scan.operands[0] = inputs(maker)[0]
        maker.erase()
    return True


def between_flips(kernels: dict[str, func.FuncOp], scan: ir.Operation) -> list[ir.Operation]:
    """The calls around a scan's whose kernels gather, as flips do, what it reads and what it makes, its maker first; none if there are others."""
    if not scan.results or not all(isinstance(r.type, ir.RankedTensorType) for r in scan.results):
        return []
    found = [owner(root_of(v)) for v in inputs_of(scan)]
    behind = list(dict.fromkeys(u for r in scan.results for u in readers(r)))
    if len(found) != 1 or found[0] is None or not behind or [u for r in found[0].results for u in readers(r)] != [scan]:
        return []
    every = [found[0], *behind]
    return every if all(_gathers(kernels.get(callee(c)) if c.name == "func.call" else None) for c in every) else []


def _gathers(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is a map that gathers."""
    generics = generics_of(kernel) if kernel is not None else []
    return len(generics) == 1 and is_elementwise(generics[0]) and bool(walk(generics[0], "tensor.extract"))


def _is_flipped(generic: ir.Operation, loop: int) -> bool:
    """Whether a map has nothing of a loop but elements of whole tensors that it gathers from the end."""
    made = maps(generic)[-1]
    if not made.is_permutation or ir.AffineDimExpr(made.results[loop]).position != loop:
        return False
    if any(loop in loops_of(e) for m in maps(generic)[: len(inputs(generic))] for e in m.results):
        return False
    counts = [o for o in walk(generic, "linalg.index") if dim_of(o) == loop]
    uses = [u.owner.operation for o in counts for u in o.results[0].uses]
    turned = {u.results[0] for u in uses if u.name == "arith.subi" and u.operands[1] in [o.results[0] for o in counts]}
    gathers = [g for g in walk(generic, "tensor.extract") if any(v in turned for v in list(g.operands)[1:])]
    flips = all(g.parent == generic and sum(v in turned for v in list(g.operands)[1:]) == 1 and len(_flipped(g)) == 1 for g in gathers)
    alone = sum(1 for v in turned for _ in v.uses) == len(gathers)
    return bool(gathers) and flips and alone and len(turned) == len(uses)


def _flips(gather: ir.Operation, dimension: int) -> bool:
    """Whether a map gathers what a scan makes from the end of its dimension, and in order along the others."""
    generic = gather.parent.operation
    if not is_elementwise(generic) or _flipped(gather) != {dimension}:
        return False
    turned = owner(list(gather.operands)[1 + dimension])
    counted = owner(turned.operands[1]) if turned.name == "arith.subi" else None
    return counted is not None and counted.name == "linalg.index"


def _flipped(gather: ir.Operation) -> set[int]:
    return flipped_dimensions(gather, loop_sizes(gather.parent.operation))

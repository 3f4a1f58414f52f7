"""On a GPU, shift the input of a scan instead of its result: an exclusive sum is one of a tensor that begins with a 0.

The running value stays what it is through elements that change nothing, so that both are the same numbers.  What gathers neighbours in front of a scan can be
part of its kernel (``fuse-scans``), what gathers them behind it would wait for all that other threads write.
"""

from inferno.mlir import constant_number, func, ir, owner, walk
from inferno.passes.generics import is_reduction
from inferno.passes.places import place_of
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.accesses import filled
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.passes.calls import inputs_of
from inferno.schedule.passes.rewrite import merge_in, rewrite_calls
from inferno.schedule.scans import scans
from inferno.target import Target, find_target

_NOTHING = {"arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1}  # what elements are that change nothing


def shift_scans(module: ir.Module, target: str) -> None:
    """Exchange calls in ``@main`` of a scan and of a shift that alone reads it; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        return rewrite_calls(main, lambda call: _exchanged(call, kernels, machine))

    merge_in(module, merge)


def _exchanged(call: ir.Operation, kernels: dict[str, func.FuncOp], target: Target) -> bool:
    """Exchange a scan with the shift that alone reads it, if it is one; whether that was done."""
    scan = _plain_scan(kernels.get(callee(call)), target)
    if scan is None or _joins(kernels, call):
        return False
    users = list(readers(call.results[0]))
    if len(users) != 1 or users[0].name != "func.call" or inputs_of(users[0]) != [call.results[0]] or not _shifts(kernels.get(callee(users[0])), *scan):
        return False
    _exchange(call, users[0])
    return True


def _plain_scan(kernel: func.FuncOp | None, target: Target) -> tuple[int, float] | None:
    """The dimension along which a kernel scans its only argument, and does nothing else, and the element that changes nothing."""
    found = walk(kernel, "tm_tensor.scan") if kernel is not None and ATTRIBUTE not in kernel.attributes else []
    if len(found) != 1 or len(kernel.type.inputs) != 2 or (c := scans.read(kernel, target)) is None or c.steps or c.combiner.name not in _NOTHING:
        return None
    given = list(kernel.entry_block.operations)[-1].operation.operands
    if found[0].operands[0] != kernel.entry_block.arguments[0] or list(given) != [found[0].results[0]]:
        return None
    return ir.IntegerAttr(found[0].attributes["dimension"]).value, _NOTHING[c.combiner.name]


def _joins(kernels: dict[str, func.FuncOp], call: ir.Operation) -> bool:
    """Whether what a scan reads is made by a map for it alone, which ``fuse-scans`` puts into the scan's kernel, and would not put in front of a shift."""
    maker = owner(root_of(call.operands[0]))
    kernel = kernels.get(callee(maker)) if maker is not None and maker.name == "func.call" else None
    if kernel is None or any(u != call for r in maker.results for u in readers(r)):
        return False
    generics = [g for g in walk(kernel, "linalg.generic") if filled(g.results[0]) is None]
    return len(generics) == 1 and not is_reduction(generics[0])


def _shifts(kernel: func.FuncOp | None, dim: int, nothing: float) -> bool:
    """Whether a kernel gives its only argument moved to higher places of a dimension, behind elements that are ``nothing``, and cut off at its end."""
    if kernel is None or ATTRIBUTE in kernel.attributes or len(kernel.type.inputs) != 2 or len(set(kernel.type.inputs)) != 1:
        return False
    generics, shape = walk(kernel, "linalg.generic"), list(kernel.type.inputs[0].shape)
    if len(generics) != 1 or list(list(kernel.entry_block.operations)[-1].operation.operands) != [generics[0].results[0]]:
        return False
    (generic,), rank = generics, len(shape)
    every = [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(generic.attributes["indexing_maps"])]
    block = generic.regions[0].blocks[0]
    choice = owner(list(block.operations)[-1].operation.operands[0])
    if len(generic.operands) != 1 or every != [ir.AffineMap.get_identity(rank)] or choice is None or choice.name != "scf.if":
        return False
    test, sides = owner(choice.operands[0]), [list(r.blocks[0].operations)[-1].operation.operands[0] for r in choice.regions]
    gathers = [i for i, v in enumerate(sides) if owner(v) is not None and owner(v).name == "tensor.extract"]
    if len(gathers) != 1 or len(walk(generic, "tensor.extract", "scf.if")) != 2 or test is None or test.name != "arith.cmpi":
        return False
    gather = owner(sides[gathers[0]])
    if constant_number(sides[1 - gathers[0]]) != nothing:
        return False
    where = [place_of(v) for v in list(gather.operands)[1:]]
    shift = -where[dim][2] if where[dim] is not None else 0
    if gather.operands[0] != kernel.entry_block.arguments[0] or where != [(d, 1, -shift if d == dim else 0) for d in range(rank)] or not 0 < shift < shape[dim]:
        return False
    value, bound = (place_of(v) for v in test.operands)
    if ir.IntegerAttr(test.attributes["predicate"]).value != 6 or bound is None or bound[0] is not None:  # ult
        return False
    # Below the shift are the elements that are nothing; moved by it, below what is left are those that are gathered.
    return (value, bound[2]) == (((dim, 1, 0), shift) if gathers[0] == 1 else ((dim, 1, -shift), shape[dim] - shift))


def _exchange(scan: ir.Operation, shift: ir.Operation) -> None:
    with ir.InsertionPoint(shift):
        first, second = shift.clone(), scan.clone()
    first.operands[0], first.operands[1] = scan.operands[0], scan.operands[1]
    second.operands[0], second.operands[1] = first.results[0], shift.operands[1]
    shift.results[0].replace_all_uses_with(second.results[0])
    shift.erase()
    scan.erase()

"""Arguments of a program that a kernel changes in places, which is done where they lie."""

from inferno.mlir import backward_slice, func, ir, owner, users
from inferno.passes.generics import body, inputs, maps, yielded
from inferno.passes.programs import root_of
from inferno.schedule.passes.mark_overwrites import updated


def changes_places(call: ir.Operation, kernel: func.FuncOp) -> bool:
    """Whether an argument of the program is changed in places and returned, as a cache by a token, whoever else reads it then: that can be done where
    it lies."""
    for number in updated(call, kernel):
        argument = kernel.entry_block.arguments[number]
        for op in (u for u in users(argument) if u.name == "linalg.generic"):
            old = [point for value, point in zip(inputs(op), body(op).arguments) if value == argument]
            made = [m for m in map(owner, yielded(op)) if m is not None and m.name == "arith.select"]
            if any(x in old and not _chosen_by_points(call, kernel, op, m) for m in made for x in list(m.operands)[1:]):
                return True
    return False


def _chosen_by_points(call: ir.Operation, kernel: func.FuncOp, generic: ir.Operation, select: ir.Operation) -> bool:
    """Whether it takes an element of each point that the program has computed to know where something changes, as a mask of probabilities does: then all
    points are read, and nothing is saved where they lie."""
    seen = set(backward_slice([select.operands[0]]))
    arguments = list(kernel.entry_block.arguments)
    for value, map_, point in zip(inputs(generic), maps(generic), body(generic).arguments):
        if point in seen and map_.is_permutation and root_of(value) in arguments:
            if not isinstance(root_of(call.operands[arguments.index(root_of(value))]), ir.BlockArgument):
                return True
    return False

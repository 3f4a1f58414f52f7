"""Make maps that yield one constant fills where a scatter starts from them: ``zeros`` or ``ones`` of sizes that vary are imported as such maps.

As a fill it is part of the scatter's kernel, like that of known sizes, and no kernel of its own writes it to be read again.
"""

from inferno.mlir import ir, linalg, owner, users, walk
from inferno.passes.generics import body, is_elementwise, outputs, yielded
from inferno.passes.programs import VIEWS


def fill_starts(module: ir.Module) -> None:
    """Replace maps that yield nothing but a constant by fills where a scatter takes them."""
    for op in walk(module.operation, "linalg.generic"):
        if not is_elementwise(op) or len(op.results) != 1 or len(body(op).operations) != 1 or not _meets_scatter(op.results[0]):
            continue
        (number,) = yielded(op)
        if (made := owner(number)) is None or made.name != "arith.constant":
            continue
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(linalg.fill(number, outs=outputs(op)))
        op.erase()


def _meets_scatter(value: ir.Value) -> bool:
    """Whether a scatter takes it, as it is or reshaped."""
    return any(u.name == "tm_tensor.scatter" or (u.name in VIEWS and _meets_scatter(u.results[0])) for u in users(value))

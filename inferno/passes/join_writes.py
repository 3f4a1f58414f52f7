"""A write to a part of a part is one write: ``x[1:, 2:4] = y`` takes ``x[1:]``, writes to a part of that, and writes it all back.

For the compiler these are two copies, of which only the last can be left out (see ``runtime/plan/in_place.py``).
"""

from collections.abc import Sequence

from inferno.mlir import ir, owner, walk
from inferno.passes.movements import insert
from inferno.passes.shapes import UnknownSize, slice_parts
from inferno.symbolic import Int


def join_writes(module: ir.Module) -> None:
    """Rewrite every ``tensor.insert_slice`` of what another one has made of the same part of the same tensor."""
    for op in walk(module.operation, "tensor.insert_slice"):
        first = owner(op.operands[0])
        if first is None or first.name != "tensor.insert_slice" or (places := _joined(op, first)) is None:
            continue
        offsets, sizes, steps = places
        with ir.InsertionPoint(op), op.location:
            made = insert(first.operands[0], op.operands[1], offsets, sizes, op, steps)
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _joined(op: ir.Operation, first: ir.Operation) -> tuple[Sequence[Int], ...] | None:
    """Offsets, sizes and steps of what ``first`` writes in the tensor that ``op`` writes to; None where that is not what the first part was taken from."""
    part = owner(first.operands[1])
    if part is None or part.name != "tensor.extract_slice" or part.operands[0] != op.operands[1]:
        return None
    if len({v.type.rank for v in (part.results[0], op.operands[0], op.operands[1])}) > 1:
        return None
    try:
        outer, inner = slice_parts(op), slice_parts(first)
        if slice_parts(part) != outer:
            return None
    except UnknownSize:
        return None
    return [b + o * s for b, o, s in zip(outer[0], inner[0], outer[2])], inner[1], [a * b for a, b in zip(outer[2], inner[2])]

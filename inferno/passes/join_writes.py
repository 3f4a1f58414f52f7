"""Compose writes to slices of slices: ``x[1:, 2:4] = y`` takes ``x[1:]``, writes to a part of that, and writes it all back.

For the compiler these are two copies, of which only the last can be left out (see ``runtime/plan/in_place.py``).  Between the two may be reshapes that leave
out dimensions of one element, or put them back: ``x[3, 2:4] = y`` writes to a part of a row.
"""

from collections.abc import Sequence

from inferno.mlir import ir, owner, walk
from inferno.passes.movements import insert, reshape
from inferno.passes.programs import root_of
from inferno.passes.shapes import UnknownSize, shape, slice_parts
from inferno.symbolic import Int


def join_writes(module: ir.Module) -> None:
    """Rewrite every ``tensor.insert_slice`` of what another one has made of the same part of the same tensor."""
    for op in walk(module.operation, "tensor.insert_slice"):
        first = owner(root_of(op.operands[0]))
        if first is None or first.name != "tensor.insert_slice" or (places := _joined(op, first)) is None:
            continue
        offsets, sizes, steps = places
        with ir.InsertionPoint(op), op.location:
            new = first.operands[0]
            if list(shape(new)) != sizes:
                new = reshape(new, sizes)
            made = insert(new, op.operands[1], offsets, sizes, op, steps)
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _joined(op: ir.Operation, first: ir.Operation) -> tuple[Sequence[Int], list[Int], Sequence[Int]] | None:
    """Offsets, sizes and steps of what ``first`` writes in the tensor that ``op`` writes to; None where that is not what the first part was taken from."""
    part = owner(root_of(first.operands[1]))
    if part is None or part.name != "tensor.extract_slice" or part.operands[0] != op.operands[1]:
        return None
    try:
        outer, inner = slice_parts(op), slice_parts(first)
        if slice_parts(part) != outer:
            return None
        between = [shape(v) for v in (op.operands[0], first.operands[1])]
    except UnknownSize:
        return None
    own = [i for i, n in enumerate(between[1]) if n != 1]
    if any([n for n in sizes if n != 1] != [between[1][i] for i in own] for sizes in (outer[1], between[0])):
        return None  # reshaped otherwise
    if any(inner[1][i] != 1 for i in range(len(inner[1])) if i not in own):
        return None  # nothing, of a dimension of one element
    places = iter(own)
    offsets, sizes, steps = [], [], []
    for begin, size, step in zip(*outer):
        i = next(places) if size != 1 else None
        offsets.append(begin if i is None else begin + inner[0][i] * step)
        sizes.append(1 if i is None else inner[1][i])
        steps.append(step if i is None else step * inner[2][i])
    known = all(isinstance(n, int) for n in (*shape(first.operands[0]), *sizes))
    return (offsets, sizes, steps) if known or list(shape(first.operands[0])) == sizes else None

"""Rewrite a concatenation of all phases of a tensor as a transposition: every second row and column of an image, from each of four pixels on, side by side.

Patches that are merged (Swin) and images whose resolution becomes channels are written so.  A transposition is one with the norm behind it, or with whatever
else reads it or is in front of it; of pieces rows are put together first.
"""

from collections.abc import Sequence
from itertools import permutations
from math import prod

from inferno.mlir import dim_of, ir, is_read, owner, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import PARALLEL, build, inverse
from inferno.passes.join_slices import join_slices
from inferno.passes.movements import reshape
from inferno.passes.parts import Part, taken_by
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import reassociation_attribute

_MOST = 16  # phases: four along each of two dimensions


def merge_phases(module: ir.Module) -> None:
    """Rewrite concatenations, of known sizes, of slices of one tensor that have every n-th place of some of its dimensions, and each place once.  Only modules
    for a GPU (``inferno.expand_pieces``) are changed."""
    if EXPAND not in module.operation.attributes:
        return
    joined = False
    for op in walk(module.operation, "tensor.concat"):
        if 1 < len(op.operands) <= _MOST and op.results[0].type.has_static_shape:
            if not joined:
                join_slices(module)
                joined = True
            _merge(op)


def _merge(op: ir.Operation) -> None:
    found = [_phase(v) for v in op.operands]
    if None in found or any(source != found[0][0] for source, _ in found):
        return
    source, parts, dim = found[0][0], [p for _, p in found], dim_of(op)
    sizes = list(source.type.shape)
    cut = [d for d, (_, _, step) in enumerate(parts[0]) if step > 1]
    if not cut or dim in cut or any(p[d] != (0, n, 1) for p in parts for d, n in enumerate(sizes) if d not in cut):
        return
    order = _order(parts, sizes, cut)
    if order is None:
        return
    own = [d + sum(e < d for e in cut) for d in range(len(sizes))]  # of each dimension the first that it is expanded to
    wide = [n for d, size in enumerate(sizes) for n in ((parts[0][d][1], parts[0][d][2]) if d in cut else (size,))]
    wanted = [n for d in range(len(sizes)) for n in ([*(own[e] + 1 for e in order), own[d]] if d == dim else [own[d]])]
    groups, taken = [], 0
    for d in range(len(sizes)):
        count = 1 + len(order) * (d == dim)
        groups.append(list(range(taken, taken + count)))
        taken += count
    type_ = op.results[0].type
    with ir.InsertionPoint(op), op.location:
        out = tensor.EmptyOp([wide[d] for d in wanted], type_.element_type).result
        maps = [projection(inverse(wanted), len(wide)), ir.AffineMap.get_identity(len(wide))]
        turned = build([reshape(source, wide)], [out], maps, [PARALLEL] * len(wide), lambda arguments: arguments[:1], op.location).results[0]
        op.results[0].replace_all_uses_with(tensor.CollapseShapeOp(type_, turned, reassociation_attribute(groups)).result)
    pieces = [owner(v) for v in op.operands]
    op.erase()
    for piece in dict.fromkeys(pieces):
        while piece is not None and piece.name in (*RESHAPES, "tensor.extract_slice") and not is_read(piece.results[0]):
            piece, gone = owner(piece.operands[0]), piece
            gone.erase()


def _phase(value: ir.Value) -> tuple[ir.Value, list[Part]] | None:
    """The tensor that a piece is a slice of, of as many dimensions, and what it takes."""
    cut = owner(value)
    while cut is not None and cut.name in RESHAPES:  # which may add dimensions of one element that the slice leaves out
        cut = owner(cut.operands[0])
    taken = taken_by(cut, drops=True) if cut is not None else None
    whole = taken is not None and cut.operands[0].type.has_static_shape and [n for _, n, _ in taken] == list(value.type.shape)
    return (cut.operands[0], taken) if whole else None


def _order(parts: Sequence[Sequence[Part]], sizes: Sequence[int], cut: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions that are cut, in the order in which the pieces count their phases; None where these are not all phases, each once."""
    steps = {d: parts[0][d][2] for d in cut}
    alike = all(p[d][1:] == (sizes[d] // steps[d], steps[d]) and sizes[d] % steps[d] == 0 for p in parts for d in cut)
    if not alike or len(parts) != prod(steps.values()):
        return None
    for order in permutations(cut):
        numbers = []
        for p in parts:
            number = 0
            for d in order:
                number = number * steps[d] + p[d][0]
            numbers.append(number)
        if numbers == list(range(len(parts))):
            return order
    return None

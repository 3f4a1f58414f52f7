"""What a convolution reads of its image for some of its windows, one behind the other: of an image with zeros around it fewer of these."""

from collections.abc import Sequence

from inferno.mlir import ir, is_unread, owner
from inferno.passes.affine import factors_in
from inferno.passes.generics import inputs, maps
from inferno.passes.movements import pad
from inferno.passes.padding import zero_padding
from inferno.passes.parts import Part
from inferno.passes.shapes import shape
from inferno.symbolic import Int


def can_shrink(op: ir.Operation, number: int, dimension: int, parts: Sequence[Part]) -> bool:
    """Whether windows that are a part of all read what is there when nothing but zeros is left out in front of a dimension of an operand."""
    value, found = inputs(op)[number], _window(op, number, dimension, parts)
    zeros, made = zero_padding(owner(value)), owner(value)
    if found is None or (made is not None and made.name == "tensor.insert_slice"):
        return False
    return found[0] == 0 or (zeros is not None and isinstance(found[0], int) and found[0] <= zeros[0][dimension])


def shrink(op: ir.Operation, parts: Sequence[Part]) -> None:
    """Let a convolution read no more zeros around its image than the windows do that are such a part, in place; with the first of them it begins then."""
    for number, map_ in enumerate(maps(op)[: len(inputs(op))]):
        made, zeros = owner(inputs(op)[number]), zero_padding(owner(inputs(op)[number]))
        if zeros is None:
            continue
        low, high = map(list, zeros)
        for d, expression in enumerate(map_.results):
            found = None if isinstance(expression, ir.AffineDimExpr) else _window(op, number, d, parts)
            if found is not None:
                begin, count = found
                behind = begin + count - low[d] - shape(made.operands[0])[d]
                high[d] = max(0, min(high[d], behind)) if isinstance(behind, int) else high[d]
                low[d] -= begin
        if (low, high) != tuple(map(list, zeros)):
            op.operands[number] = _padded(made, low, high)
            if is_unread(made):
                made.erase()


def _window(op: ir.Operation, number: int, dimension: int, parts: Sequence[Part]) -> tuple[Int, Int] | None:
    """Where what is read of a dimension begins, and how much it is; None if it is not read by the sum of two loops, or places are not neighbours."""
    found = factors_in(maps(op)[number].results[dimension], maps(op)[number].n_dims)
    if not found or any(parts[d][2] != 1 for d in found):
        return None
    begin = sum(parts[d][0] * by for d, by in found.items())
    return begin, 1 + sum((parts[d][1] - 1) * by for d, by in found.items())


def _padded(op: ir.Operation, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """What ``op`` pads, with so many zeros."""
    source = op.operands[0]
    if not any((*low, *high)):
        return source
    type_ = source.type
    sizes = [n if type_.is_dynamic_dim(d) else a + n + b for d, (a, n, b) in enumerate(zip(low, type_.shape, high))]
    body = op.regions[0].blocks[0].operations
    zero = body[len(body) - 1].operands[0]
    if (known := owner(zero)).block == op.regions[0].blocks[0]:
        zero = known.clone().results[0]
    return pad(source, ir.RankedTensorType.get(sizes, type_.element_type), low, high, zero)

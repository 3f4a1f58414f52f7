"""What a ``tensor.pad`` puts around a tensor."""

from inferno.mlir import constant_number, ir
from inferno.passes.shapes import UnknownSize, known_size
from inferno.symbolic import Int

Ends = tuple[list[int], list[int]]
"""Elements in front of each dimension, and behind it."""


def padding(op: ir.Operation) -> Ends:
    """Of a ``tensor.pad``; a number that is known at the call is MLIR's sign for that."""
    low, high = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in ("static_low", "static_high"))
    return low, high


def known_padding(op: ir.Operation) -> tuple[list[Int], list[Int]] | None:
    """The same, as numbers or expressions of symbols; None where one is neither."""
    varying, ends = iter(list(op.operands)[1:]), padding(op)
    try:
        return tuple([known_size(next(varying)) if n == ir.ShapedType.get_dynamic_size() else n for n in end] for end in ends)
    except UnknownSize:
        return None


def zero_padding(op: ir.Operation | None) -> Ends | None:
    """The zeros, of floating point, that ``op`` puts around a tensor; None for anything else, for numbers that are not known, and for less than none."""
    if op is None or op.name != "tensor.pad" or len(op.operands) != 1:
        return None
    body = op.regions[0].blocks[0].operations
    filling = constant_number(body[len(body) - 1].operands[0])
    if not isinstance(filling, float):
        return None
    low, high = padding(op)
    return (low, high) if filling == 0 and min(*low, *high) >= 0 else None

"""Pad the channels of convolutions of few channels with zeros: the copy engine (TMA) reads pixels of whole 16 bytes only.

The first convolution of a network for images has three channels.  With zeros behind them, and around the image for its padding, the terms along a row of the
window lie side by side in memory, and the convolution is a product of matrices whose rows overlap; or the copy engine reads each tap by itself.
What makes the padded image - it lies channels last only now - is one elementwise operation.  What tensor cores read as it is keeps its channels.
"""

from collections.abc import Sequence

from inferno.mlir import arith, ir, owner, walk
from inferno.passes.contraction import CONVOLUTIONS, has_windows, is_exact, pads_convolutions
from inferno.passes.convolution import is_small, leaves_channels, loops_in
from inferno.passes.generics import PARALLEL, REDUCTION, dims, kinds, knows_sizes, maps
from inferno.passes.movements import pad
from inferno.passes.padding import padding
from inferno.passes.programs import MAIN, programs

_ALIGNMENT = 16  # bytes
_GROWTH = 4  # of the image and of the window, at most
# The same where float32 is not rounded: tensor cores multiply it in parts, six times, CUDA cores what there is.  On an H200 32x3x224x224 to 64 features, 7x7 by
# steps of 2, row-major, takes 261 us so, and 465 without.
_EXACT_GROWTH = 4 / 3


def pad_channels(module: ir.Module) -> None:
    """Rewrite the convolutions of ``@main`` whose channels, the last dimension, are not whole 16 bytes, and that tensor cores may
    compute.  Without marked convolutions all stays."""
    for main in programs(module)[:1] if CONVOLUTIONS in module.operation.attributes else ():
        if main.name.value == MAIN:
            for op in walk(main, "linalg.generic"):
                if has_windows(op) and knows_sizes(op) and (more := _missing(op)):
                    _pad(op, more)


def _missing(op: ir.Operation) -> int:
    """How many channels a convolution lacks; 0 where it lacks none, has too few, or does not have them last."""
    image, window = maps(op)[:2]
    last = [m.results[len(m.results) - 1] for m in (image, window)]
    if dims(window) is None or last[0] != last[1] or not isinstance(last[0], ir.AffineDimExpr):
        return 0
    channel, order = ir.AffineDimExpr(last[0]).position, dims(window)
    kind = kinds(op)
    if kind[channel] != REDUCTION:
        return 0
    type_ = op.operands[1].type
    channels, terms = type_.shape[type_.rank - 1], 1
    for d, size in zip(order, type_.shape):
        terms *= size if kind[d] == REDUCTION else 1
    whole = _ALIGNMENT * 8 // type_.element_type.width
    wanted = -(-channels // whole) * whole
    if is_small(channels, terms) or wanted > (_EXACT_GROWTH if is_exact(op) else _GROWTH) * channels or _are_read(op):
        return 0
    return wanted - channels


def _are_read(op: ir.Operation) -> bool:
    """Whether the generator for groups takes the channels as they are: 16 bits, known sizes, and places in two dimensions."""
    image, window = maps(op)[:2]
    type_, kind, order = op.operands[1].type, kinds(op), dims(window)
    sizes = dict(zip(order, type_.shape))
    parallel = [d for d in order if kind[d] == PARALLEL]
    groups = [d for d in parallel if any(d in loops_in(e) for e in image.results)]
    places = type_.rank - len(parallel) - 1
    if type_.element_type.width != 16 or not all(v.type.has_static_shape for v in op.operands) or places != 2:
        return False
    if len(parallel) - len(groups) != 1 or len(groups) > 1:
        return False
    (feature,) = (d for d in parallel if d not in groups)
    return leaves_channels(sizes[groups[0]] if groups else 1, type_.shape[type_.rank - 1], sizes[feature])


def _pad(op: ir.Operation, more: int) -> None:
    image, window = list(op.operands)[:2]
    low, high = [0] * image.type.rank, [0] * image.type.rank
    around = owner(image)
    if pads_convolutions(around):
        low, high = padding(around)
        image = around.operands[0]
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = _padded(image, low, [*high[:-1], high[-1] + more])
        op.operands[1] = _padded(window, [0] * window.type.rank, [*[0] * (window.type.rank - 1), more])


def _padded(value: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """The tensor with zeros around it."""
    type_ = ir.RankedTensorType(value.type)
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [s if s == dynamic else a + s + b for a, s, b in zip(low, type_.shape, high)]
    made = ir.RankedTensorType.get(shape, type_.element_type)
    return pad(value, made, list(low), list(high), arith.constant(type_.element_type, 0.0))

"""A convolution's dimensions by what they are for, read off the maps of a ``linalg.generic``."""

from dataclasses import dataclass

from inferno.mlir import ir
from inferno.passes.generics import REDUCTION, kinds, loop_sizes, maps
from inferno.symbolic import product
from inferno.window_limits import FEW_CHANNELS, MOST_TERMS

# Results up to which a depthwise convolution reads its weight as it lies, element by element: a launch that transposes it takes longer.
_FEW_RESULTS = 2**21

Order = tuple[int, ...]
"""Of a tensor's dimensions in memory, outermost first."""


@dataclass(frozen=True)
class Roles:
    """The orders that kernels want: of the image (n, spatial, group, channel), the weight (group, feature, window, channel; of a depthwise
    convolution window, channel, or what it has where results are few) and the result (n, spatial, group, feature).  Features that stand between places of
    the result, as phases do (``skip-zeros``), stay there, and come before the others in the weight.  ``terms`` are the reduction's loops in the weight's
    order."""

    image: Order
    weight: Order
    result: Order
    terms: tuple[int, ...]


def is_small(channels: int, terms: int) -> bool:
    """Whether windows over all of an image's ``channels``, of so many terms, are for CUDA cores."""
    return channels <= FEW_CHANNELS and terms <= MOST_TERMS


def leaves_channels(groups: int, channels: int, features: int) -> bool:
    """Whether channels of 16 bits that are no whole 16 bytes are best read as they are (generator ``group_windows``), as it was timed on an H100: in us, all 18
    of an image at 56x56 8.4 and padded 39.5, 36 at 28x28 5.9 and 21.3, and pairs of groups, of 12 at 28x28 11.6 and 324."""
    if max(channels, features) > 36 or channels % 8 == 0:
        return False
    if groups > 1:
        return groups % 2 == 0 and channels % 8 == features % 8 == 4
    return min(channels, features) >= 12 and channels % 2 == 0 and features % 8 in (0, 2, 4)


def loops_in(expr: ir.AffineExpr) -> list[int]:
    """The loops that an expression adds up."""
    if isinstance(expr, ir.AffineDimExpr):
        return [ir.AffineDimExpr(expr).position]
    if isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        parts = ir.AffineBinaryExpr(expr)
        return [*loops_in(parts.lhs), *loops_in(parts.rhs)]
    return []


def roles(op: ir.Operation, order: Order | None = None) -> Roles:
    """The roles of a marked convolution's dimensions.  ``order`` is the image's, which matters where there are no windows but several loops of the
    sum along the image: that is the matmul of whole images or patches, and every order is as good that both factors have."""
    image, weight, result = ([loops_in(e) for e in m.results] for m in (*maps(op)[:2], maps(op)[-1]))
    reduced = {d for d, k in enumerate(kinds(op)) if k == REDUCTION}
    in_image, in_weight = ({d for e in part for d in e} for part in (image, weight))
    channels = {e[0] for e in image if len(e) == 1 and e[0] in reduced & in_weight}
    groups = {e[0] for e in image if len(e) == 1 and e[0] in in_weight - reduced}
    features = in_weight - in_image

    def sort(part: list[list[int]], *last: set[int]) -> Order:
        """Dimensions by the first of these sets that their loop is in, those that are in none first."""
        return tuple(sorted(range(len(part)), key=lambda d: next((i for i, s in enumerate(last, 1) if len(part[d]) == 1 and part[d][0] in s), 0)))

    def made(own: Order, last: Order, written: Order) -> Roles:
        return Roles(own, last, written, tuple(weight[d][0] for d in last if weight[d] and weight[d][0] in reduced))

    if sums_images(op):
        kept, taps = {e[0] for e in image if len(e) == 1} - reduced, {d for e in image if len(e) > 1 for d in e} - reduced
        return made(sort(image, kept), sort(weight, features), sort(result, taps, kept))
    phases = _phases(result, features)
    features -= phases
    windows = in_weight & reduced - channels
    if is_whole(op):
        along = [image[d][0] for d in order or range(len(image)) if image[d] and image[d][0] in channels]
        own, last = order or tuple(range(len(image))), sort(weight, phases, features, *({d} for d in along))
    else:
        orders = (phases, features, windows, channels) if features or channels else () if _is_few(op) else (phases, windows, groups)
        own, last = sort(image, groups, channels), sort(weight, *orders)
    return made(own, last, sort(result, groups, features))


def _phases(result: list[list[int]], features: set[int]) -> set[int]:
    """Those of the loops along the features that stand between places of the result."""
    along = [d for d, e in enumerate(result) if e and e[0] in features]
    return {result[d][0] for i, d in enumerate(along) if d - i != along[0]}


def has_phases(op: ir.Operation) -> bool:
    """Whether neighbours in a marked convolution's row-major result are of another column of the weight: phases of a step, as ``skip-zeros`` leaves them."""
    image, weight, result = ([loops_in(e) for e in m.results] for m in (*maps(op)[:2], maps(op)[-1]))
    return bool(_phases(result, {d for e in weight for d in e} - {d for e in image for d in e}))


def _is_few(op: ir.Operation) -> bool:
    count = product(size for size, kind in zip(loop_sizes(op), kinds(op)) if kind != REDUCTION)
    return isinstance(count, int) and count <= _FEW_RESULTS


def sums_images(op: ir.Operation) -> bool:
    """Whether a marked convolution is the gradient of another one's weight: the sum over all images and pixels, for each channel and tap."""
    image, weight = ([loops_in(e) for e in m.results] for m in maps(op)[:2])
    reduced, in_weight = {d for d, k in enumerate(kinds(op)) if k == REDUCTION}, {d for e in weight for d in e}
    if not image or len(image[0]) != 1 or image[0][0] not in reduced & in_weight or not weight[0] or weight[0][0] != image[0][0]:
        return False
    kept = [e[0] for e in image if len(e) == 1 and e[0] not in reduced | in_weight]
    sizes = loop_sizes(op)
    taps = product(sizes[d] for e in image for d in e if d not in reduced and d not in kept)
    places = product(sizes[d] for e in image[1:] for d in e if d in reduced)
    return len(kept) == 1 and taps <= places


def sums_taps(op: ir.Operation) -> bool:
    """Whether a marked convolution has the terms of a depthwise one's weight's gradient: for each channel and tap the sum over places of all images, of which
    there are more than a thread keeps windows of.  Its operands may lie in any order."""
    image, weight = ([loops_in(e) for e in m.results] for m in maps(op)[:2])
    parallel = {d for d, k in enumerate(kinds(op)) if k != REDUCTION}
    in_weight, sizes = {d for e in weight for d in e}, loop_sizes(op)
    along = [e for e in image if len(e) == 2]
    taps = {d for e in along for d in e if d in parallel} - in_weight
    channels = {e[0] for e in image if len(e) == 1} & in_weight & parallel
    if not along or parallel != taps | channels or len(channels) > 1 or any(len(set(e) & taps) != 1 for e in along):
        return False
    terms, windows = product(n for d, n in enumerate(sizes) if d not in parallel), product(sizes[d] for d in taps)
    return isinstance(terms, int) and isinstance(windows, int) and terms > MOST_TERMS >= windows


def is_whole(op: ir.Operation) -> bool:
    """Whether a marked convolution is a matmul of whole images or patches."""
    along = list(maps(op)[0].results)
    plain = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in along)
    return plain and sum(kinds(op)[d] == REDUCTION for e in along for d in loops_in(e)) > 1


def is_pointwise(op: ir.Operation) -> bool:
    """Whether a marked convolution multiplies each pixel's channels with the same matrix."""
    image, weight = ([d for e in m.results for d in loops_in(e)] for m in maps(op)[:2])
    plain = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in maps(op)[0].results)
    shared = set(image) & set(weight)
    return plain and len(shared) == 1 and all(kinds(op)[d] == REDUCTION for d in shared)


def is_depthwise(op: ir.Operation) -> bool:
    """Whether a marked convolution has a window for each channel, of so few terms that it is for CUDA cores in whatever order its channels and places lie,
    which is that of the result."""
    reduced = {d for d, k in enumerate(kinds(op)) if k == REDUCTION}
    image, weight, result = ([[d for d in loops_in(e) if d not in reduced] for e in m.results] for m in (*maps(op)[:2], maps(op)[-1]))
    sums = all(len(loops_in(e)) == 2 for m in maps(op)[:1] for e in m.results if set(loops_in(e)) & reduced)
    return sums and image == result and any(weight) and product(loop_sizes(op)[d] for d in reduced) <= MOST_TERMS

"""An operand of a contraction that is an image read through windows (im2col), as in a convolution, and what Hopper's copy engine can bring of it.

A kernel's operand ``image[n, oh * stride + r * dilation, ow * ..., c]``, or that of a padded image, is seen as the matrix of all windows: a
pixel of the result for each row, a tap's channels for each step along k.  That matrix is nowhere; the copy engine walks the image
instead (its im2col mode).  In the gradient of a convolution's weight the same matrix is summed over its rows, and its columns are the result's.
"""

from dataclasses import dataclass, replace
from math import prod

from inferno.mlir import func, ir, owner
from inferno.passes.affine import Linear, linear
from inferno.passes.generics import PARALLEL, REDUCTION
from inferno.passes.padding import zero_padding
from inferno.passes.shapes import shape
from inferno.pixel_limits import BITS, MOST_STEP, fits_corner
from inferno.schedule.analysis.accesses import Access, argument_index
from inferno.symbolic import Int, product, reach

_ALIGNMENT = 16  # bytes of a pixel's channels


@dataclass(frozen=True)
class Unfolded:
    """``image[n, at * step + tap * dilation - low, c]`` along each spatial dimension, with zeros outside of the image.

    ``shape`` is the image's, channels last; the other fields have one number for each spatial dimension, outermost first: ``counts`` of the
    result's pixels, ``taps``, and ``loops``: the contraction's loop of the taps, or None where it is one tap.  ``summed``: what is summed over is
    images and places, and not taps and channels.  ``groups``: a pixel has so many times the channels, of which the contraction's loop ``group``
    picks one group's, which has a matrix of windows of its own; ``shape`` is that of its image.
    """

    shape: tuple[Int, ...]
    counts: tuple[int, ...]
    taps: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    loops: tuple[int | None, ...]
    summed: bool = False
    groups: int = 1
    group: int | None = None

    @property
    def terms(self) -> int:
        """Of one sum: the columns of the matrix of windows."""
        return prod(self.taps) * self.shape[-1]

    @property
    def corners(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The box that holds the first tap's places, lower and upper corner, as distances from the image's: innermost first.

        From the box's size the copy engine finds how many of a row's places there are: ceil(size / step).
        """
        lower = tuple(-low for low in self.low)
        upper = tuple((n - 1) * step + 1 - low - size for n, step, low, size in zip(self.counts, self.steps, self.low, self.shape[1:-1]))
        return lower[::-1], upper[::-1]

    def fits(self, width: int) -> bool:
        """Whether the copy engine reads an image of elements of ``width`` bytes by it."""
        rank, (lower, upper) = len(self.counts), self.corners
        offsets = [(n - 1) * d for n, d in zip(self.taps, self.dilations)]
        return (
            all(fits_corner(x, rank) for x in (*lower, *upper)) and all(x < 1 << BITS[rank] for x in offsets)
            and all(s <= MOST_STEP for s in self.steps) and self.shape[-1] * width % _ALIGNMENT == 0
            and reach(product(self.shape)) * self.groups * width < 2**40 and max(map(reach, self.shape)) < 2**31
        )


def unfold(
    kernel: func.FuncOp, value: ir.Value, map_: ir.AffineMap, sizes: tuple[Int, ...], kinds: list[str], shared: set[int],
) -> tuple[Access, Unfolded] | None:
    """How ``map_`` walks over ``value``, an argument of the kernel or that padded with zeros, through windows: the access is that of the matrix
    of windows, with the argument's shape.  None for any other walk, also for one without windows.  ``shared`` are the parallel loops of both factors."""
    exchanged = [PARALLEL if kind == REDUCTION else REDUCTION for kind in kinds]
    found = _unfold(kernel, value, map_, sizes, kinds, shared)
    if found is None and (found := _unfold(kernel, value, map_, sizes, exchanged, set())) is not None:
        return found[0], replace(found[1], summed=True)
    return found


def _unfold(
    kernel: func.FuncOp, value: ir.Value, map_: ir.AffineMap, sizes: tuple[Int, ...], kinds: list[str], shared: set[int],
) -> tuple[Access, Unfolded] | None:
    found = _image(kernel, value)
    parts = [linear(e, map_.n_dims) for e in map_.results]
    if found is None or not 3 <= len(parts) <= 6 or None in parts:
        return None
    argument, whole, low = found
    if not all(isinstance(s, int) for s in whole[1:]):
        return None
    shape, group, groups = whole, None, 1
    if len(parts) > 3 and [d for d, c in enumerate(parts[-2][0]) if c] in [[d] for d in shared]:
        (group,), groups = (d for d, c in enumerate(parts[-2][0]) if c), whole[-2]
        if parts[-2][0][group] != 1 or parts[-2][1] or sizes[group] != groups or low[-1]:
            return None
        parts, shape, low = [*parts[:-2], parts[-1]], (*whole[:-2], whole[-1]), low[:-1]
    if len(parts) > 5:
        return None

    def used(part: Linear) -> list[int]:
        return [d for d, c in enumerate(part[0]) if c and sizes[d] != 1]

    outer, inner = parts[0], parts[-1]
    spatial = [_walk(part, used(part), kinds) for part in parts[1:-1]]
    if None in spatial or any(part[1] or len(used(part)) > 1 or any(part[0][d] != 1 for d in used(part)) for part in (outer, inner)):
        return None
    (image,), (channel,) = (used(part) or [None] for part in (outer, inner))
    if channel is None or kinds[channel] != REDUCTION or sizes[channel] != shape[-1] or (image is not None and kinds[image] != PARALLEL):
        return None
    places, taps, steps, dilations, begins = zip(*spatial)
    loops = [d for d in (image, channel, group, *places, *taps) if d is not None]
    counts, each = (tuple(1 if d is None else sizes[d] for d in dims) for dims in (places, taps))
    if len(set(loops)) != len(loops) or not all(isinstance(n, int) for n in (*counts, *each)):
        return None
    if shape[0] != (1 if image is None else sizes[image]):
        return None
    window = Unfolded(shape, counts, each, steps, dilations, tuple(p - b for p, b in zip(low, begins)), tuple(taps), groups=groups, group=group)
    alone = all(None in (p, t) and (s, d, b) == (1, 1, 0) for p, t, s, d, b in spatial)
    if alone and isinstance(value, ir.BlockArgument):
        return None  # as any tensor
    strides: list[Int] = [0] * map_.n_dims
    for d, step in zip((channel, *taps[::-1], *places[::-1], image, group), _matrix_strides(window)):
        if d is not None:
            strides[d] = step
    return Access(argument, ir.RankedTensorType(value.type).element_type, tuple(strides), 0, whole), window


def _matrix_strides(window: Unfolded) -> list[Int]:
    """The matrix of windows, row-major: of the channels, the taps and the places, innermost first, the image, and the group."""
    strides: list[Int] = [1]
    for size in (window.shape[-1], *window.taps[::-1], *window.counts[::-1], window.shape[0]):
        strides.append(strides[-1] * size)
    return strides


def _walk(part: Linear, used: list[int], kinds: list[str]) -> tuple | None:
    """(loop of places, loop of taps, step, dilation, begin) of ``place * step + tap * dilation + begin``."""
    places, taps = ([d for d in used if kinds[d] == kind] for kind in (PARALLEL, REDUCTION))
    if len(places) > 1 or len(taps) > 1 or any(part[0][d] < 1 for d in used):
        return None
    place, tap = (dims[0] if dims else None for dims in (places, taps))
    return place, tap, 1 if place is None else part[0][place], 1 if tap is None else part[0][tap], part[1]


def _image(kernel: func.FuncOp, value: ir.Value) -> tuple[int, tuple[Int, ...], tuple[int, ...]] | None:
    """The argument that ``value`` is, maybe padded with zeros along its spatial dimensions: its number, shape, and what is in front of it."""
    argument = argument_index(kernel, value)
    if argument is not None:
        return argument, shape(value), (0,) * (len(shape(value)) - 2)
    pad = owner(value)
    if (zeros := zero_padding(pad)) is None:
        return None
    argument = argument_index(kernel, pad.operands[0])
    if argument is None or any((x[0], x[-1]) != (0, 0) for x in zeros):
        return None
    return argument, shape(pad.operands[0]), tuple(zeros[0][1:-1])

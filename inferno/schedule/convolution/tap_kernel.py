"""What a kernel computes that is the gradient of a depthwise convolution's weight: for each channel and tap a sum over the places of all images."""

from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.passes.generics import REDUCTION
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.window_kernel import Axis, WindowKernel, parse_windows
from inferno.schedule.convolution.windows import is_supported
from inferno.schedule.matmul.contraction import Contraction
from inferno.target import Target
from inferno.window_limits import MOST_TERMS

_ELEMENTS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class Side:
    """A dimension of the images: element ``place * stride + tap * dilation - low`` of ``size``, zero outside, for loops ``place`` of the sum and ``tap`` of
    the result; None for those that there are not.  ``image`` and ``gradient``: elements of memory from one to the next."""

    place: int | None = None
    tap: int | None = None
    places: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    size: int = 1
    image: int = 0
    gradient: int = 0

    def reach(self, places: int) -> int:
        """Elements from the first to the last one that so many neighbouring places read."""
        return (places - 1) * self.stride + (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True)
class TapKernel:
    """``result[channel, taps] = sum over images and places of image * gradient``; ``channel`` is its loop, None for a single one, ``images`` are the loops
    of the sum over images.  ``origin``: where the image's first element is.  ``last`` and ``gradient_last``: channels are neighbours in memory."""

    contraction: Contraction
    image: Access
    gradient: Access
    channel: int | None
    images: tuple[int, ...]
    down: Side
    along: Side
    origin: int
    last: bool
    gradient_last: bool

    @property
    def together(self) -> bool:
        """Whether a block has several channels: those of the image or of the gradient are read together."""
        return self.last or self.gradient_last

    @property
    def mixed(self) -> bool:
        """Whether channels are neighbours in one of both."""
        return self.last != self.gradient_last

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.contraction.sizes

    @cached_property
    def channels(self) -> int:
        return self.sizes[self.channel] if self.channel is not None else 1

    @cached_property
    def count(self) -> int:
        """Images."""
        return prod(self.sizes[d] for d in self.images)

    @cached_property
    def taps(self) -> int:
        return self.down.taps * self.along.taps

    @cached_property
    def width(self) -> int:
        """Bytes of an element."""
        return element_bytes(self.image.element)

    def step(self, at: Access) -> int:
        """Elements of memory between two channels."""
        return at.strides[self.channel] if self.channel is not None else 0


def read(kernel: func.FuncOp, target: Target) -> TapKernel | None:
    """What ``kernel`` computes if that can be generated."""
    w = parse_windows(kernel) if target.kind == "nvptx" else None
    if w is None or w.sized is not None or not is_supported(w, _ELEMENTS):
        return None
    reduced = {d for d, kind in enumerate(w.kinds) if kind == REDUCTION and w.sizes[d] > 1}
    taps = [a.loop for a in w.axes if a.loop is not None]
    terms, count = prod(w.sizes[d] for d in reduced), prod(w.sizes[d] for d in taps)
    if not 1 <= len(w.axes) <= 2 or any(a.tap is None for a in w.axes) or not terms > MOST_TERMS >= count:
        return None
    plain = [d for d, kind in enumerate(w.kinds) if kind != REDUCTION and w.sizes[d] > 1 and d not in taps]
    if len(plain) > 1 or any(0 in (w.image.strides[d], w.weight.strides[d]) for d in plain):
        return None
    sides = sorted((_side(a, w) for a in w.axes), key=lambda s: -s.image)
    channel = plain[0] if plain else None
    images = sorted((d for d in reduced if d not in [s.place for s in sides]), key=lambda d: -w.image.strides[d])
    if len(sides) == 1 and images and w.image.strides[images[-1]] < sides[0].image:  # a window of one column: columns lie side by side all the same
        d = images.pop()
        sides.append(Side(d, None, w.sizes[d], size=w.sizes[d], image=w.image.strides[d], gradient=w.weight.strides[d]))
    down, along = sides if len(sides) == 2 else (Side(), *sides)
    if any(w.image.strides[d] < 1 or w.weight.strides[d] < 1 for d in images) or max(map(prod, (w.image.shape, w.weight.shape))) >= 2**31:
        return None
    origin = w.image.offset + sum(s.low * s.image for s in (down, along))
    last = channel is not None and w.image.strides[channel] < along.image
    gradient_last = channel is not None and w.weight.strides[channel] < along.gradient if along.places > 1 else last
    return TapKernel(w.contraction, w.image, w.weight, channel, tuple(images), down, along, origin, last, gradient_last)


def _side(a: Axis, w: WindowKernel) -> Side:
    """An axis of which the loop is a tap of the result, and what the window is along are places."""
    taps, places = w.sizes[a.loop] if a.loop is not None else 1, w.sizes[a.tap]
    return Side(a.tap, a.loop, places, taps, a.dilation, a.stride, a.low, a.size, w.image.strides[a.tap] // a.dilation, w.weight.strides[a.tap])


@cache
def seen(side: Side, places: int) -> dict[int, list[tuple[int, int]]]:
    """By element that the windows of so many places reach, from the first one's first, the places that see it and the taps by which they do."""
    found: dict[int, list[tuple[int, int]]] = {}
    for place in range(places):
        for tap in range(side.taps):
            found.setdefault(place * side.stride + tap * side.dilation, []).append((place, tap))
    return dict(sorted(found.items()))

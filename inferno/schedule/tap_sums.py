"""The schedule of gradients of depthwise convolutions' weights on CUDA cores: for each channel and tap a sum over the places of all images."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Contraction
from inferno.schedule.cost import CLOCK, bit_width
from inferno.schedule.window_kernel import Axis, WindowKernel, parse_windows
from inferno.schedule.windows import is_supported
from inferno.target import Target
from inferno.window_limits import MOST_TERMS

_ELEMENTS = ("f32", "bf16", "f16")
_REGISTERS = 232
# Microseconds of a launch and of the one that adds up what blocks have, bytes a microsecond of memory, clocks that the copies of a tile take until they
# come, the share of issue slots that is used, slots of one copy, and of a thread's tile beside its loads and products.
_START, _SECOND, _RATE, _LATENCY, _ISSUED, _COPY, _TILE = 2.0, 2.0, 3.6e6, 1500, 0.85, 14, 40
_WHOLE = 16  # bytes of a copy, at most
_SHARED_LINE = 128  # bytes that a warp reads at once


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
    of the sum over images.  ``origin``: where the image's first element is.  ``last``: channels are neighbours in memory."""

    contraction: Contraction
    image: Access
    gradient: Access
    channel: int | None
    images: tuple[int, ...]
    down: Side
    along: Side
    origin: int
    last: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.contraction.sizes

    @property
    def channels(self) -> int:
        return self.sizes[self.channel] if self.channel is not None else 1

    @property
    def count(self) -> int:
        """Images."""
        return prod(self.sizes[d] for d in self.images)

    @property
    def taps(self) -> int:
        return self.down.taps * self.along.taps

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return bit_width(self.image.element) // 8

    def step(self, at: Access) -> int:
        """Elements of memory between two channels."""
        return at.strides[self.channel] if self.channel is not None else 0


@dataclass(frozen=True)
class Region:
    """What a block has of a tensor in shared memory: ``images``, ``rows``, ``columns``, of which the first ``lead`` are for alignment, ``channels``.
    A copy brings ``vector`` neighbours, along the channels or the columns."""

    images: int
    rows: int
    columns: int
    channels: int
    lead: int
    vector: int
    along_channels: bool
    width: int

    @property
    def count(self) -> int:
        return self.images * self.rows * self.columns * self.channels

    @property
    def bytes(self) -> int:
        return -(-self.count * self.width // _WHOLE) * _WHOLE

    @property
    def copies(self) -> int:
        return self.count // self.vector


@dataclass(frozen=True)
class TapSums:
    """A thread has the sums of all taps of ``vector`` channels, for ``rows`` by ``along`` places at a time.  ``lanes`` threads are neighbours along the
    channels, ``wide`` along the columns, ``high`` along the rows, ``images`` along the images: a tile, which a block brings to shared memory.  ``parts``
    blocks share the tiles of their channels, whose sums a second kernel adds."""

    generator: ClassVar[str] = "tap_sums"
    pads: ClassVar[bool] = True  # what lies outside of the image is zeros

    vector: int = 1
    lanes: int = 1
    rows: int = 1
    along: int = 4
    wide: int = 1
    high: int = 1
    images: int = 1
    parts: int = 1

    @cached_property
    def strips(self) -> int:
        """Threads of a channel."""
        return self.wide * self.high * self.images

    @property
    def threads(self) -> int:
        return -(-self.strips * self.lanes // 32) * 32

    @property
    def channels(self) -> int:
        """Of a block."""
        return self.vector * self.lanes

    def groups(self, k: TapKernel) -> int:
        return ceil(k.channels / self.channels)

    def tiles(self, k: TapKernel) -> tuple[int, int, int]:
        """Of images, rows and columns."""
        return ceil(k.count / self.images), ceil(k.down.places / (self.rows * self.high)), ceil(k.along.places / (self.along * self.wide))

    def blocks(self, k: TapKernel) -> int:
        return self.groups(k) * self.parts

    def region(self, k: TapKernel, of_image: bool) -> Region:
        """Of the image, or of the gradient."""
        at, places = k.image if of_image else k.gradient, (self.rows * self.high, self.along * self.wide)
        steps = [k.down.image, k.along.image] if of_image else [k.down.gradient, k.along.gradient]
        rows, columns = (s.reach(n) if of_image else n for s, n in zip((k.down, k.along), places))
        others = [at.strides[d] for d in k.images]
        begin = self.along * self.wide * (k.along.stride if of_image else 1)
        low, size = (k.along.low, k.along.size) if of_image else (0, k.along.places)
        origin = k.origin if of_image else k.gradient.offset
        if k.step(at) == 1 and self.channels > 1:
            vector = _together(k.width, (self.channels, k.channels, origin, *steps, *others))
            return Region(self.images, rows, columns, self.channels, 0, vector, True, k.width)
        vector = 1
        if steps[1] == 1 and self.channels == 1:
            vector = _together(k.width, (begin, size, origin, steps[0], *others, k.step(at)))
        lead = -low % vector
        wanted = max(vector, self.read(k, of_image))
        return Region(self.images, rows, -(-(lead + columns) // wanted) * wanted, self.channels, lead, vector, False, k.width)

    def read(self, k: TapKernel, of_image: bool) -> int:
        """Columns that a thread may read together from shared memory."""
        if self.channels > 1:
            return 1
        return _together(k.width, (self.along * (k.along.stride if of_image else 1),), 8 if of_image else _WHOLE)

    def values(self, k: TapKernel) -> int:
        """Sums of a thread."""
        return k.taps * self.vector

    def shared(self, k: TapKernel) -> int:
        """Bytes: tiles, and later sums that meet."""
        return max(self.region(k, True).bytes + self.region(k, False).bytes, self.meeting(k) * self.threads * 4)

    def meeting(self, k: TapKernel) -> int:
        """Sums of each thread that meet at a time."""
        room = max(self.region(k, True).bytes + self.region(k, False).bytes, 32 * 1024)
        return max(1, min(self.values(k), room // (4 * self.threads)))

    def registers(self, k: TapKernel) -> int:
        """About so many a thread has."""
        return self.values(k) + self.rows * self.along * self.vector + 2 * k.along.reach(self.along) * self.vector // 2 + 40


def _together(width: int, numbers: tuple[int, ...], most: int = _WHOLE) -> int:
    """The most neighbours, of up to so many bytes, that all of these are multiples of."""
    found = 1
    while 2 * found * width <= most and all(n % (2 * found) == 0 for n in numbers):
        found *= 2
    return found


def choose(kernel: func.FuncOp, target: Target) -> TapSums | None:
    """The schedule with the lowest estimate if ``kernel`` sums products of an image and a gradient for each channel and tap."""
    k = read(kernel, target)
    return pick(k, target) if k is not None else None


def read(kernel: func.FuncOp, target: Target) -> TapKernel | None:
    """What ``kernel`` computes if that can be generated."""
    w = parse_windows(kernel) if target.kind == "nvptx" else None
    if w is None or w.images is not None or not is_supported(w, _ELEMENTS):
        return None
    reduced = {d for d, kind in enumerate(w.kinds) if kind == "reduction" and w.sizes[d] > 1}
    taps = [a.loop for a in w.axes if a.loop is not None]
    terms, count = prod(w.sizes[d] for d in reduced), prod(w.sizes[d] for d in taps)
    if not 1 <= len(w.axes) <= 2 or any(a.tap is None for a in w.axes) or not terms > MOST_TERMS >= count:
        return None
    plain = [d for d, kind in enumerate(w.kinds) if kind != "reduction" and w.sizes[d] > 1 and d not in taps]
    if len(plain) > 1 or any(0 in (w.image.strides[d], w.weight.strides[d]) for d in plain):
        return None
    sides = sorted((_side(a, w) for a in w.axes), key=lambda s: -s.image)
    down, along = sides if len(sides) == 2 else (Side(), *sides)
    channel = plain[0] if plain else None
    images = tuple(sorted((d for d in reduced if d not in (down.place, along.place)), key=lambda d: -w.image.strides[d]))
    if any(w.image.strides[d] < 1 or w.weight.strides[d] < 1 for d in images) or max(map(prod, (w.image.shape, w.weight.shape))) >= 2**31:
        return None
    origin = w.image.offset + sum(s.low * s.image for s in (down, along))
    last = channel is not None and w.image.strides[channel] < along.image
    return TapKernel(w.contraction, w.image, w.weight, channel, images, down, along, origin, last)


def _side(a: Axis, w: WindowKernel) -> Side:
    """An axis of which the loop is a tap of the result, and what the window is along are places."""
    taps, places = w.sizes[a.loop] if a.loop is not None else 1, w.sizes[a.tap]
    return Side(a.tap, a.loop, places, taps, a.dilation, a.stride, a.low, a.size, w.image.strides[a.tap] // a.dilation, w.weight.strides[a.tap])


def fits(s: TapSums, k: TapKernel, target: Target) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    if min(s.vector, s.lanes, s.rows, s.along, s.wide, s.high, s.images, s.parts) < 1 or s.threads > 1024 or s.vector not in (1, 2, 4):
        return False
    if (s.channels > 1) != k.last or (k.last and k.channels % s.vector):
        return False
    return s.registers(k) <= 255 and s.shared(k) <= target.shared and s.parts <= prod(s.tiles(k))


def schedules(k: TapKernel, target: Target) -> Iterator[TapSums]:
    """What is worth a look."""
    forms = [(v, n) for v in (1, 2, 4) for n in (4, 8, 16, 24, 32, 48, 64) if v * n <= 2 * k.channels and k.channels % v == 0] if k.last else [(1, 1)]
    for vector, lanes in forms:
        for rows in sorted({min(n, k.down.places) for n in (1, 2, 4, 7, 8)}):
            for along in (3, 4, 5, 7, 8) if k.last else (2, 4, 7, 8):
                if k.taps * vector + rows * along * vector > _REGISTERS or along > max(4, k.along.places):
                    continue
                for wide in sorted({ceil(ceil(k.along.places / along) / n) for n in (1, 2, 3, 4, 8)}):
                    for high in sorted({min(n, ceil(k.down.places / rows)) for n in (1, 2, 4, 7, 8, 16)}):
                        whole = wide * along >= k.along.places and high * rows >= k.down.places
                        for images in sorted({min(n, k.count) for n in (1, 2, 4, 8, 16, 32)}) if whole else (1,):
                            s = TapSums(vector, lanes, rows, along, wide, high, images)
                            if 64 <= s.threads <= 512 and s.registers(k) <= _REGISTERS and fits(s, k, target):
                                yield from _shared_out(s, k, target)


def _shared_out(s: TapSums, k: TapKernel, target: Target) -> Iterator[TapSums]:
    """The schedule with numbers of parts that fill the machine once or twice, or with one."""
    tiles, there = prod(s.tiles(k)), target.multiprocessors * resident(s, k, target)
    wanted = {1, *(min(tiles, max(1, n * there // s.groups(k))) for n in (1, 2))}
    yield from (replace(s, parts=ceil(tiles / ceil(tiles / n))) for n in sorted(wanted))


def resident(s: TapSums, k: TapKernel, target: Target) -> int:
    """Blocks of a multiprocessor at a time."""
    registers = -(-s.registers(k) // 8) * 8
    return max(1, min(65536 // (registers * s.threads), target.shared // (s.shared(k) + 1024), 2048 // s.threads, 8))


def pick(k: TapKernel, target: Target) -> TapSums | None:
    """The schedule with the least estimate."""
    return min(((estimate(s, k, target), s) for s in schedules(k, target)), key=lambda found: found[0], default=(inf, None))[1]


def estimate(s: TapSums, k: TapKernel, target: Target) -> float:
    """Microseconds: the issue slots of a multiprocessor's tiles, or what their copies take to come, or memory."""
    image, gradient, places = s.region(k, True), s.region(k, False), s.rows * s.along
    rows = len({y * k.down.stride + r * k.down.dilation for y in range(s.rows) for r in range(k.down.taps)})
    columns = len({x * k.along.stride + r * k.along.dilation for x in range(s.along) for r in range(k.along.taps)})
    elements = rows * columns + places
    loads = elements / max(1, min(s.read(k, True), 4)) * _conflicts(s, k)
    widened = elements * s.vector if k.width == 2 else 0
    copies = ceil((image.copies + gradient.copies) / s.threads)
    slots = places * k.taps * s.vector + elements / max(1, s.read(k, True) / 2) + widened + copies * _COPY * (2 if image.vector * k.width < 4 else 1) + _TILE
    warps = s.threads / 32
    issue = max(warps * slots / 4 / _ISSUED, warps * loads * max(1.0, 32 * s.vector * k.width / _SHARED_LINE))
    end = warps * s.values(k) * 6 / 4 + 1000
    there = resident(s, k, target)
    tiles, blocks = ceil(prod(s.tiles(k)) / s.parts), s.blocks(k)
    rounds = ceil(blocks / (target.multiprocessors * there))
    beside = min(there, ceil(blocks / target.multiprocessors))
    busy = rounds * (tiles * max(beside * issue, issue + _LATENCY) + beside * end) / CLOCK
    brought = prod(s.tiles(k)) * s.groups(k) * (image.bytes + gradient.bytes) / 2 + k.width * (prod(k.image.shape) + prod(k.gradient.shape))
    memory = brought / _RATE / 2 + s.parts * k.channels * k.taps * 8 / _RATE
    return _START + (busy**2 + memory**2) ** 0.5 + (_SECOND if s.parts > 1 else 0)


def _conflicts(s: TapSums, k: TapKernel) -> float:
    """How often a warp reads shared memory for one load of each thread, beside what is more than a line."""
    if not k.last or s.lanes >= 32:
        return 1.0
    width, step = s.vector * k.width, s.along * k.along.stride * s.channels * k.width
    lines: dict[int, set[int]] = {}
    for thread in range(32):
        at = thread // s.lanes * step + thread % s.lanes * width
        lines.setdefault(at // 4 % 32, set()).add(at // 4)
    return max(map(len, lines.values())) / max(1.0, 32 * width / _SHARED_LINE)

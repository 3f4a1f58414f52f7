"""The schedule of gradients of depthwise convolutions' weights on CUDA cores: for each channel and tap a sum over the places of all images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import ceil, inf, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.convolution.tap_kernel import TapKernel, read, seen
from inferno.schedule.convolution.tap_region import WHOLE, Region, together
from inferno.target import RESERVED_SHARED, Target

# Registers of a thread, at most, of all threads of a lane of a scheduler, of a copy's place, of a thread beside its sums and elements, and
# where the image lies in another order than the gradient.
_REGISTERS, _SCHEDULER, _PLACE, _BESIDE, _MIXED = 232, 512, 5, 42, 8
_LEAST, _MOST, _WASTE = 32, 512, 0.8  # threads of a block, and the share of them that has work
# Microseconds of a launch and of the one that adds up what blocks have, bytes a microsecond of memory and of what is in the cache, clocks that the copies of
# a tile take until they come, the share of issue slots that many warps use, warps of a scheduler that use half of that, slots of a piece of a tile, of each
# of its copies, also of those by a load and a store, and of a thread's tile beside its loads and products.
_START, _SECOND, _RATE, _CACHED, _LATENCY, _ISSUED, _HALF, _PIECE, _COPY, _LOAD, _TILE = 1.5, 1.5, 3.6e6, 5.0e6, 1200, 0.85, 0.35, 14, 4, 6, 40
_TERMS = 32  # of float32, that are added one after the other
_MEETING = 1 << 14  # bytes of sums that meet, at least
_PRODUCTS, _VALUES = 2048, 36  # of a tile, which are spelled out, and sums of a thread, if it has several channels
_ASYNCHRONOUS = 4  # bytes of a copy that no register waits for, at least
_SHARED_LINE, _SECTOR = 128, 32  # bytes that a warp reads at once of shared memory, and that come from memory together


@dataclass(frozen=True)
class TapSums:
    """A thread has the sums of all taps of ``vector`` channels, for ``rows`` by ``along`` places at a time.  ``lanes`` threads are neighbours along the
    channels, ``wide`` along the columns, ``high`` along the rows, ``images`` along the images: a tile, which a block brings to shared memory.  ``parts``
    blocks share the tiles of their channels, whose sums a second kernel adds; with two ``stages`` the next tile comes while one is added."""

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
    stages: int = 1

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
        if self.channels > 1 and (k.last if of_image else k.gradient_last):
            vector = together(k.width, (self.channels, k.channels, origin, *steps, *others)) if k.step(at) == 1 else 1
            return Region(self.images, rows, columns, self.channels, 0, vector, True, k.width)
        vector = 1
        if steps[1] == 1:
            vector = together(k.width, (begin, size, origin, steps[0], *others, k.step(at)))
        lead = -low % vector
        wanted, least = max(vector, self.read(k, of_image)), lead + columns
        run = WHOLE // (vector * k.width)
        if run > 1 and wanted == vector:  # whole pieces, with as little behind as may be
            run = ceil(ceil(least / vector) / ceil(ceil(least / vector) / run))
            wanted = run * vector
        columns = ceil(least / wanted) * wanted
        run = max(n for n in range(1, run + 1) if columns % (n * vector) == 0)
        # Lanes that are an odd number of what is read at once away from each other are in different banks.
        each = max(vector, self.read(k, of_image), 4 // k.width) if self.channels > 1 else 1
        apart = (ceil(rows * columns / each) | 1) * each - rows * columns if self.channels > 1 else 0
        return Region(self.images, rows, columns, self.channels, lead, vector, False, k.width, run, apart)

    def read(self, k: TapKernel, of_image: bool) -> int:
        """Columns that a thread may read together from shared memory."""
        if self.channels > 1 and (k.last if of_image else k.gradient_last):
            return 1
        return together(k.width, (self.along * (k.along.stride if of_image else 1),))

    def values(self, k: TapKernel) -> int:
        """Sums of a thread."""
        return k.taps * self.vector

    def tile_bytes(self, k: TapKernel) -> int:
        """Of shared memory."""
        return self.region(k, True).bytes + self.region(k, False).bytes

    def shared(self, k: TapKernel) -> int:
        """Bytes: tiles, and later sums that meet."""
        return max(self.stages * self.tile_bytes(k), self.meeting(k) * self.threads * 4)

    def meeting(self, k: TapKernel) -> int:
        """Sums of each thread that meet at a time."""
        return max(1, min(self.values(k), max(self.stages * self.tile_bytes(k), _MEETING) // (4 * self.threads)))

    def has_totals(self, k: TapKernel) -> bool:
        """Whether a thread adds up the products of a tile, and then the tiles: longer sums of float32 would be less exact than eager's are."""
        return k.width == 4 and self.parts < prod(self.tiles(k))

    def registers(self, k: TapKernel) -> int:
        """About so many a thread has."""
        rows = min(self.rows, ceil(k.down.reach(1) / k.down.stride))  # of the gradient, that see one row of the image
        ahead = (2 * self.read(k, True) if self.vector == 1 else 12 * self.vector) + (12 if k.width == 4 else 0)
        return self.values(k) * (2 if self.has_totals(k) else 1) + rows * self.along * self.vector + ahead + _BESIDE + _MIXED * k.mixed


def choose(kernel: func.FuncOp, target: Target) -> TapSums | None:
    """The schedule with the lowest estimate if ``kernel`` sums products of an image and a gradient for each channel and tap."""
    k = read(kernel, target)
    return pick(k, target) if k is not None else None


def fits(s: TapSums, k: TapKernel, target: Target) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    if min(s.vector, s.lanes, s.rows, s.along, s.wide, s.high, s.images, s.parts) < 1 or s.threads > 1024 or s.vector not in (1, 2, 4):
        return False
    if (s.channels > 1) != k.together or (k.together and k.channels % s.vector) or (k.mixed and s.vector > 1):
        return False
    return s.registers(k) <= 255 and resident(s, k, target) > 0 and s.parts <= prod(s.tiles(k))


def schedules(k: TapKernel, target: Target) -> Iterator[TapSums]:
    """What is worth a look."""
    return (s for _, s in candidates(k, target))


def pick(k: TapKernel, target: Target) -> TapSums | None:
    """The schedule with the least estimate."""
    return min(candidates(k, target), key=lambda found: found[0], default=(inf, None))[1]


def candidates(k: TapKernel, target: Target) -> list[tuple[float, TapSums]]:
    """Schedules with their estimates: of blocks nearly all of whose threads have work, or of any."""
    return next((found for waste in (_WASTE, 0) if (found := list(_of_blocks(k, target, waste)))), [])


def _of_blocks(k: TapKernel, target: Target, waste: float) -> Iterator[tuple[float, TapSums]]:
    for (vector, lanes), rows, along in product(_forms(k), (1, 2, 4, 5, 7, 8), (4, 5, 7, 8) if k.together else (2, 4, 7, 8)):
        if rows > k.down.places or along > max(4, k.along.places) or rows * along > (_TERMS if k.width == 4 else _PRODUCTS // (k.taps * vector)):
            continue
        for wide in _parts_of(ceil(k.along.places / along), (1, 2, 4, 8)):
            for high in _parts_of(ceil(k.down.places / rows), (1, 2, 3, 4, 8)):
                whole = wide * along >= k.along.places and high * rows >= k.down.places
                for images in sorted({min(n, k.count) for n in (1, 2, 4, 8, 16, 32)}) if whole else (1,):
                    s = TapSums(vector, lanes, rows, along, wide, high, images)
                    s = replace(s, parts=prod(s.tiles(k))) if k.width == 4 and s.registers(k) > _REGISTERS else s
                    if _LEAST <= s.threads <= _MOST and s.threads * waste <= s.strips * lanes and s.registers(k) <= _REGISTERS:
                        yield from _shared_out(s, k, target)


def _forms(k: TapKernel) -> list[tuple[int, int]]:
    """Channels of a thread, and threads along the channels."""
    if not k.together:
        return [(1, 1)]
    found, least = [], -(-_SECTOR // k.width)
    for vector in (n for n in (1, 2, 4) if k.channels % n == 0 and (n == 1 or (8 <= n * k.taps <= _VALUES and not k.mixed))):
        many = k.channels // vector
        found += [(vector, n) for n in sorted({min(many, -(-least // vector)), min(many, 32), ceil(many / ceil(many / 32)), ceil(many / ceil(many / 48))})]
    return found


def _parts_of(strips: int, numbers: Sequence[int]) -> list[int]:
    """Of so many strips a part, one of these."""
    return sorted({ceil(strips / n) for n in numbers if ceil(strips / n) <= _MOST})


def _shared_out(s: TapSums, k: TapKernel, target: Target) -> Iterator[tuple[float, TapSums]]:
    """A schedule's tiles given to one block, or to as many as fill the machine once or twice, which wait for each tile or not."""
    tile, tiles = _Tile.make(s, k), prod(s.tiles(k))
    there = target.multiprocessors * resident(s, k, target, tile)
    if not there:
        return
    wanted = {min(tiles, max(1, n * there // s.groups(k))) for n in (1, 2)} | ({1} if s.groups(k) > target.multiprocessors // 2 else set())
    wanted = wanted if s.parts == 1 else {s.parts}
    for parts, stages in product({ceil(tiles / ceil(tiles / n)) for n in wanted}, (1, 2)):
        each = replace(s, parts=parts, stages=stages)
        if (stages == 1 or parts < tiles) and resident(each, k, target, tile):
            yield estimate(each, k, target, tile), each


@dataclass(frozen=True)
class _Tile:
    """What one tile takes: bytes of shared memory, clocks of a multiprocessor's four schedulers, those of a block's end, and bytes
    that come for it."""

    bytes: int
    issue: float
    end: float
    brought: float

    @staticmethod
    def make(s: TapSums, k: TapKernel) -> "_Tile":
        image, gradient, places, together = s.region(k, True), s.region(k, False), s.rows * s.along, s.read(k, True)
        steps = s.along * k.along.stride, s.along  # columns of the image, and of the gradient, between neighbours along the columns
        rows, columns = seen(k.down, s.rows), seen(k.along, s.along)
        elements = len(rows) * len(columns) + places
        loads = len(rows) * len({(x + image.lead) // together for x in columns}), places / s.read(k, False)
        widened = elements * s.vector if k.width == 2 else 0
        copies = sum(ceil(r.pieces / s.threads) * (_PIECE + r.run * (_COPY if r.vector * k.width >= _ASYNCHRONOUS else _LOAD)) for r in (image, gradient))
        slots = places * k.taps * s.vector + sum(loads) + widened + copies + _TILE
        warps = s.threads / 32
        lines = warps * sum(
            n * _lines(s.lanes, step * r.strides[2] * k.width, s.vector * r.strides[3] * k.width, each * s.vector * k.width)
            for n, step, r, each in zip(loads, steps, (image, gradient), (together, s.read(k, False))))
        size = image.bytes + gradient.bytes
        brought = sum(r.bytes * (max(1, _SECTOR / (s.channels * k.width)) if r.along_channels else 1) for r in (image, gradient))
        return _Tile(size, max(warps * slots / 4 / _ISSUED, lines), warps * s.values(k) * 6 / 4 + _LATENCY, brought)


def resident(s: TapSums, k: TapKernel, target: Target, tile: _Tile | None = None) -> int:
    """Blocks of a multiprocessor at a time; 0 where one has no room."""
    shared = max(s.stages * (tile.bytes if tile is not None else s.tile_bytes(k)), _MEETING) + RESERVED_SHARED
    warps = 4 * (_SCHEDULER // (-(-s.registers(k) // 8) * 8))  # whole warps of each of four schedulers
    return min(warps * 32 // s.threads, target.shared // shared, 8)


def keeps_places(s: TapSums, k: TapKernel, target: Target) -> bool:
    """Whether threads have registers for where each of their copies of a tile is, which would take longer to compute again."""
    most = 8 * (_SCHEDULER // ceil(resident(s, k, target) * s.threads / 128) // 8)
    copies = sum(ceil(r.pieces / s.threads) for r in (s.region(k, True), s.region(k, False)))
    return s.registers(k) + _PLACE * copies <= min(255, most)


def estimate(s: TapSums, k: TapKernel, target: Target, tile: _Tile | None = None) -> float:
    """Microseconds: the issue slots of a multiprocessor's tiles, or what their copies take to come, or memory."""
    tile = tile or _Tile.make(s, k)
    there, blocks, total = resident(s, k, target, tile), s.blocks(k), prod(s.tiles(k))
    tiles, rounds, beside = ceil(total / s.parts), ceil(blocks / (target.multiprocessors * there)), min(there, ceil(blocks / target.multiprocessors))
    warps = beside * s.threads / 128  # of a scheduler
    issue = tile.issue * (warps + _HALF) / warps
    each = max(beside * issue, issue + _LATENCY) if s.stages == 1 else max(beside * issue, _LATENCY)
    busy = rounds * (_LATENCY + tiles * each + tile.end) / CLOCK
    whole = k.width * (prod(k.image.shape) + prod(k.gradient.shape))
    memory = max(whole / _RATE, total * s.groups(k) * tile.brought / _CACHED)
    meeting = _SECOND + s.parts * k.channels * k.taps * 8 / _CACHED if s.parts > 1 else 0
    return _START + (busy**3 + memory**3) ** (1 / 3) + meeting


@cache
def _lines(lanes: int, step: int, own: int, size: int) -> int:
    """Turns that shared memory takes for a load of ``size`` bytes by each thread of a warp, ``lanes`` of which are ``own`` bytes away from each other and the
    next ones ``step`` bytes."""
    at = [thread // lanes * step + thread % lanes * own for thread in range(32)]
    turns, each = 0, min(32, max(1, _SHARED_LINE // size))
    for first in range(0, 32, each):
        banks: dict[int, set[int]] = {}
        for word in {n for begin in at[first:first + each] for n in range(begin // 4, (begin + size - 1) // 4 + 1)}:
            banks.setdefault(word % 32, set()).add(word)
        turns += max(map(len, banks.values()))
    return turns

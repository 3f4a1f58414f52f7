"""Tiles of convolutions whose part of the image comes to shared memory once for many taps of the window: a patch of pixels with its halo.

Window by window each pixel comes from L2 as often as a window has taps.  A patch holds what some neighbouring columns of taps, ``span``, read of one chunk
of channels; a tap is another place in it to begin at.  Each 64 rows of a tile are a block of 8x8 pixels, so that 8 of them are neighbours in a row of the
patch wherever a tap begins, and the next 8 lie one row of the patch further.  Where an image's rows with their halo have up to 16, 32 or 64 pixels a block
may also be of whole ones: rows of a product follow each other through the patch, and those in the halo are computed for nothing.

Where windows move by two pixels an image of even sizes is four images, of every other row and column, in each of which the windows of some of the taps move
by one: a patch is of one of these.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.cost import CLOCK, At
from inferno.schedule.convolution.im2col import LAUNCH, Im2col
from inferno.schedule.convolution.unfolded import Unfolded
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.wgmma_cost import STORE_RATE, estimate
from inferno.schedule.matmul.wgmma_schedule import shared_of_block
from inferno.schedule.tiles.result_parts import ROW, store_maps
from inferno.schedule.tiles.tile_ends import are_long, read_clocks, work_clocks
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.symbolic import Int, hint, product
from inferno.target import Target

BLOCK = 8  # pixels along each side of a block of 64
WIDTHS = (16, 32, 64)  # of blocks of whole rows
_MOST_BOX = 256  # pixels of a copy along each dimension
_MOST_SPAN = 9  # columns of taps, whose products are one after the other in the code
_MOST_PATCHES, _MOST_WEIGHTS, _LEAST_WEIGHTS = 3, 8, 3  # slots
# Tiles with the share of the tensor core's rate, fitted like what is left of the estimate to 340 times of 60 layers on an H100, from which it is 5% away in
# the middle where they take 40 us or more.  3x3, bf16, 128 channels of 32x128x128 to as many 176 us in 128x128 by turns, 189 without; 256 of 8x128x128 to 128
# 95, in 256x128 106, window by window 119; 256 of 32x64x64 to as many with a residual 207 in 128x128 by turns, 215 in 64x256, 220 in 128x64; 128 of 8x128x128
# with ReLU 50.6 in 128x128 by turns, 52.7 in 64x128, 52.9 in 128x64.
_TILES = (
    (Im2col(128, 256), 0.96), (Im2col(128, 192), 0.94), (Im2col(128, 128), 0.93), (Im2col(128, 64), 0.9), (Im2col(256, 128), 0.94), (Im2col(256, 96), 0.95),
    (Im2col(256, 64), 0.92), (Im2col(256, 32), 0.66), *((Im2col(m, n, pingpong=True), share) for m, n, share in (
        (64, 256, 0.965), (64, 192, 0.96), (64, 128, 0.94), (64, 64, 0.88), (128, 64, 0.94), (128, 128, 1.0))),
)
# Of the arithmetic on a tile's results the share that the other consumer's products do not hide, by turns (the same with GELU, us: 58.2, 61.7 and 62.5; without
# turns 67.5 in 256x128, which were 57.3).
_SHOWN = 0.45
_WHOLE_ROWS = 0.97  # of that (28x28, 128 channels, 8 images: 10.1 us in 128x64, in blocks of 8x8 9.7)
_LEFT = 0.88  # of the time that others' tiles with such steps would take
_LEAST_TAP = 210  # clocks of a tap whose weights are awaited (8x128x128, 256 to 128, in 64x64 by turns 137 us)
_FEWEST_TAPS = 3  # along each dimension of a plane, of windows that were timed
# Where windows move by two pixels: slots of patches, of which the shortest are read by one tap, and taps, whose products are one after the other.
_SLOTS_OF_PHASES, _MOST_TAPS = (3, 6), 25
# Of the estimate there, times (on an H100, bf16, 3x3, us: 256 channels of 32x28x28 to 256 14.6 in 128x128 by turns, window by window 16.9; 512 of 14x14 to 512
# 17.8 in 64x128 by turns, in clusters 17.2; 320 of 4x64x64 to 320 19.7 in 128x128 by turns, in 64x192 with two slots 24.2).
_PHASES = 1.05


@dataclass(frozen=True)
class Phase:
    """One of the images of every other row and column: the first of its rows and columns, and its taps, each with the place in a patch where it begins."""

    row: int
    column: int
    taps: tuple[tuple[tuple[int, int], tuple[int, int]], ...]


@dataclass(frozen=True)
class Patch:
    """What a tile reads of an image through ``span`` columns of taps, ``row`` bytes of each pixel, and how its blocks of 64 pixels, ``width`` in a row, lie:
    ``blocks`` of them, ``wide`` side by side."""

    window: Unfolded
    blocks: int
    wide: int
    span: int
    row: int
    width: int

    @property
    def rows(self) -> int:
        """Of the result's pixels."""
        return 64 // self.width * self.blocks // self.wide

    @property
    def columns(self) -> int:
        return self.width * self.wide

    @property
    def step(self) -> int:
        """Pixels by which windows move along both dimensions of a plane."""
        return self.window.steps[-1]

    def begin(self, dim: int) -> int:
        """Where the patch of the result's first pixel begins along a dimension, in the image or each of the phases."""
        return -self.window.low[dim] // self.step

    def reach(self, dim: int, taps: int) -> int:
        """Pixels of the patch from the first one's begin to the last one's of so many taps."""
        return (((taps - 1) * self.window.dilations[dim] - self.window.low[dim]) // self.step) - self.begin(dim)

    @property
    def phases(self) -> tuple[Phase, ...]:
        found: dict[tuple[int, int], list] = {}
        for tap in itertools.product(*map(range, self.window.taps[-2:])):
            at = [t * d - low for t, d, low in zip(tap, self.window.dilations[-2:], self.window.low[-2:])]
            place = tuple(x // self.step - self.begin(dim) for dim, x in zip((-2, -1), at))
            found.setdefault((at[0] % self.step, at[1] % self.step), []).append((tap, place))
        return tuple(Phase(*phase, tuple(taps)) for phase, taps in sorted(found.items()))

    @property
    def height(self) -> int:
        """Of the patch."""
        return self.rows + self.reach(-2, self.window.taps[-2])

    @property
    def pitch(self) -> int:
        """Pixels of a row of the patch."""
        return self.columns + (0 if self.whole_rows else self.halo)

    @property
    def halo(self) -> int:
        """Pixels that a row of a tile reads more than it has."""
        return self.reach(-1, self.span)

    @property
    def whole_rows(self) -> bool:
        """Whether a block consists of rows of the patch."""
        return self.width > BLOCK

    @property
    def eight_rows(self) -> int:
        """Pixels of the patch from 8 rows of a product to the next 8."""
        return BLOCK if self.whole_rows else self.pitch

    @property
    def pixels(self) -> int:
        """Of a slot, which begins where the swizzle does."""
        each = 8 * ROW // self.row
        return ceil(self.height * self.pitch / each) * each

    @property
    def tiles(self) -> tuple[Int, ...]:
        """Images, maybe depths, and tiles along a plane's two dimensions."""
        *depths, rows, columns = self.window.counts
        return self.window.shape[0], *depths, ceil(rows / self.rows), ceil(columns / self.columns)

    @property
    def taps(self) -> float:
        """Of a patch; of those of several phases in the middle."""
        return self.window.taps[-2] * self.span / (1 if self.step == 1 else len(self.phases))

    @property
    def each(self) -> tuple[int, ...]:
        """Patches of a chunk of channels: one for each tap along the depth, if there is one, and for each part of the columns."""
        *depths, _, columns = self.window.taps
        return *depths, columns // self.span

    def place(self, block: int) -> tuple[int, int]:
        """Row and column of a block's first pixel in its tile."""
        return 64 // self.width * (block // self.wide), self.width * (block % self.wide)


def patch_of(s: Im2col, window: Unfolded) -> Patch:
    """Of a tile, which with ``pingpong`` is one consumer's."""
    return Patch(window, s.tile_m // 64, s.wide, s.span, s.row, s.width)


def takes(s: Im2col, c: Contraction, tiling: Tiling) -> bool:
    """Whether tiles with patches as ``s`` has them are for this convolution."""
    if not takes_windows(c, tiling) or s.span not in (1, c.lhs.unfolded.taps[-1]) or s.tile_m % (64 * s.wide) or s.rows % 64:
        return False
    plain = s.split == s.cluster == s.chunks == 1 and not (
        s.stream or s.lhs_rows or s.inside or s.swapped or s.bring or s.line or s.by_threads or s.registers or s.parts)
    patch = patch_of(s, c.lhs.unfolded)
    if patch.whole_rows:
        fills = s.width // 2 < patch.window.counts[-1] + patch.halo <= s.width
        plain = plain and s.width in WIDTHS and s.wide == 1 and s.span == patch.window.taps[-1] and fills
    if patch.step > 1:  # a box may not reach into the next pixel, which is the other phase's
        whole = window_bytes(c) % s.row == 0 and s.span == patch.window.taps[-1] and product(patch.window.taps) <= _MOST_TAPS
        plain = plain and whole and not any(n % 2 for n in patch.window.shape[1:-1])
    fits = max(patch.height, patch.pitch) <= _MOST_BOX and s.span <= _MOST_SPAN and s.patch == patch.pixels
    steps = s.kept in (0, tiling.k_steps(s.row // _size(c))) and (s.weights > 1) != (s.kept > 0)
    return plain and fits and steps and (not s.kept or tiling.n.size <= s.tile_n) and len(store_maps(c, tiling, s)) == len(c.destinations)


def window_bytes(c: Contraction) -> int:
    """Of a pixel's channels."""
    return c.lhs.unfolded.shape[-1] * _size(c)


def takes_windows(c: Contraction, tiling: Tiling) -> bool:
    """Whether a patch serves several taps, and a row of a tile is one pixel for all tensors that are read or written."""
    window = c.lhs.unfolded
    return (
        window is not None and not window.summed and window.group is None and len(window.counts) in (2, 3)
        and (set(window.steps) == {1} or window.steps == (2, 2)) and window.taps[-2] > 1
        and tiling.positions == 1 and tiling.rhs.along_k and tiling.rhs.raw is None
        and [a.dims for a in tiling.steps] == [(d,) for d in window.loops if d is not None]
    )


def is_timed(c: Contraction) -> bool:
    """Whether a GPU has run its like."""
    return min(c.lhs.unfolded.taps[-2:]) >= _FEWEST_TAPS and set(c.lhs.unfolded.steps[-2:]) in ({1}, {2})


def candidates(c: Contraction, target: Target, at: At = hint) -> Iterator[tuple[float, Im2col]]:
    """Schedules with their estimates in microseconds."""
    size = _size(c)
    tiling = tile_contraction(c, size, only_along_k=size == 4)
    if tiling is None or not takes_windows(c, tiling):
        return
    channels = size * c.lhs.unfolded.shape[-1]
    rows = [ROW, *(row for row in (64, 32) if ceil(channels / row) * row < ceil(channels / (2 * row)) * 2 * row)]
    for (tile, share), row in itertools.product(_TILES, rows):
        if tile.pingpong and c.varies:
            continue
        for wide, width in _shapes(tile, c):
            made = _with_slots(replace(tile, row=row, wide=wide, width=width), c, tiling, target)
            if made is not None:
                yield estimate_of(made, share, c, tiling, target, at), made


def _shapes(tile: Im2col, c: Contraction) -> Iterator[tuple[int, int]]:
    """How blocks may lie: one below the other, side by side where tiles are fewer then, or of whole rows."""
    window = c.lhs.unfolded
    blocks, (*_, columns) = tile.tile_m // 64, window.taps
    low, high = (Patch(window, blocks, wide, columns, ROW, BLOCK).tiles[1:] for wide in (1, 2))
    yield 1, BLOCK
    if blocks > 1 and product(high) < product(low):
        yield 2, BLOCK
    halo = Patch(window, blocks, 1, columns, ROW, BLOCK).halo
    yield from ((1, width) for width in WIDTHS if width // 2 < window.counts[-1] + halo <= width)


def _with_slots(s: Im2col, c: Contraction, tiling: Tiling, target: Target) -> Im2col | None:
    """``s`` with patches for all columns of taps, or, where these are too large, for one, and with the weights kept where a tile has one patch or there is
    room for three; None if it is not for this convolution."""
    steps, (*_, rows, columns) = tiling.k_steps(s.row // _size(c)), c.lhs.unfolded.taps
    for span in dict.fromkeys((columns, 1)):
        made = fit(replace(s, span=span), c, target)
        kept = fit(replace(s, span=span, kept=steps), c, target) if tiling.n.size <= s.tile_n else None
        made = kept if kept is not None and (kept.stages > 2 or steps == rows * span) else made
        if made is not None and takes(made, c, tiling):
            return made
    return None


def _size(c: Contraction) -> int:
    return element_bytes(c.lhs.element)


def fit(s: Im2col, c: Contraction, target: Target) -> Im2col | None:
    """``s`` with as many slots as shared memory holds, of patches at least two, or three where windows move by two pixels, and first of
    weights; None if there are too few."""
    patch = patch_of(s, c.lhs.unfolded)
    least, most = (2, _MOST_PATCHES) if patch.step == 1 else _SLOTS_OF_PHASES
    s = replace(s, patch=patch.pixels, stages=least, weights=0 if s.kept else _LEAST_WEIGHTS)
    free, each = shared_of_block(s, target) - s.shared().total, ceil(s.tile_n * s.row / (8 * ROW)) * 8 * ROW + 16
    if free < 0:
        return None
    weights = min(free // each, _MOST_WEIGHTS - s.weights) if s.weights else 0
    patches = min((free - weights * each) // (s.patch * s.row + 16), most - s.stages)
    return replace(s, stages=s.stages + patches, weights=s.weights + weights)


def estimate_of(s: Im2col, share: float, c: Contraction, tiling: Tiling, target: Target, at: At = hint) -> float:
    """As that of a tile that brings a tap's part of a patch at each step, of as many rows as all tiles have."""
    patch = patch_of(s, c.lhs.unfolded)
    each = replace(s, patch=0, span=0, weights=0, lhs_rows=ceil(s.patch / patch.taps), stages=s.weights or int(s.stages * patch.taps))
    share *= _WHOLE_ROWS if patch.whole_rows else 1
    if not s.kept:
        share = min(share, s.tile_m * s.tile_n * 4 / 128 * s.row / ROW / _LEAST_TAP)
    of_tiles = replace(tiling, m=replace(tiling.m, size=product(patch.tiles) * s.tile_m))
    time = estimate(each, share, c, of_tiles, target, at) + _shown_work(s, share, c, of_tiles, target, at)
    return (_LEFT * time + (1 - _LEFT) * LAUNCH) * (1 if patch.step == 1 else _PHASES)


def _shown_work(s: Im2col, share: float, c: Contraction, tiling: Tiling, target: Target, at: At) -> float:
    """Microseconds of the ends of tiles that take turns, beside those that the estimate has where ends take longer than products."""
    if not (s.pingpong and are_long(c)):
        return 0.0
    tile, rounds = s.tile_m * s.tile_n, ceil(at(tiling.tiles(s.tile_m, s.tile_n)) / target.multiprocessors)
    products = at(tiling.k_steps(s.row // _size(c))) * tile * 4 / 128 * s.row / ROW / share
    work, written = work_clocks(c, s.tile_m, s.tile_n, 1), tile * sum(element_bytes(d.access.element) for d in c.destinations) / STORE_RATE
    counted = max(0.0, (read_clocks(c, s.tile_m, s.tile_n) + work + written - products) / 2)
    return max(0.0, _SHOWN * work - counted) * (rounds - 1) / CLOCK

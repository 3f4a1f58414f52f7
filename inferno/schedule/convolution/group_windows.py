"""The schedule of convolutions in groups on the tensor cores of sm_80 and up, in 16 bits and with channels last.

A block has a tile of the image in shared memory, with all that the windows of its outputs reach, and the weights of its features, each brought once.
The tensor core reads the places of a tap where they lie, eight channels at a time.  So a sum's terms are a group's own channels and nothing else, and
infinity stays in its group.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as every
from math import ceil, gcd, inf, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.passes.convolution import leaves_channels
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.convolution import im2col, windows
from inferno.schedule.convolution.group_tile import BYTES, GroupTile, Side, odd
from inferno.schedule.convolution.window_kernel import Axis, WindowKernel, parse_windows
from inferno.target import Target

PIECE = 8
"""Channels that are copied, and multiplied, together: 16 bytes."""
ROWS = 16
"""Outputs of one product."""
# Of a group, that were timed: with 112 mma took 76.6 us on an H100 where this takes 45.4, with 64 29 and 26.5.
_MOST_CHANNELS = 128
_SHARED_OUT = ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (4, 4), (8, 4))  # groups of a block, and of a warp
_UNROLLED = 384  # products of a warp that are spelled out; of more there is a loop over the rows of the window
_MOST_REGISTERS = 230  # by ``registers``, which says it about: 255 are all that a thread can have
_LARGE = 112  # places along a side, of which parts of it are no small tiles
# Fitted to 210 kernels of 22 layers measured on an H100, 12% off on average: microseconds of a launch; clocks of a multiprocessor for a copied piece of the
# weights, a byte and a line of the image, a product of 16x8x16, a load of its factors, a warp, a line of results, a turn of a warp's results, and that much
# more where sums may have to be computed again; a warp's work that hides behind no other.
_START, _WEIGHT, _BYTE, _LINE, _PRODUCT, _LOAD, _WARP, _STORED, _TURN, _AGAIN, _ALONE = 1.37, 0.306, 0.0217, 0.718, 0.71, 2.48, 11.8, 0.598, 19.6, 6.7, 2.24
_L2, _BEYOND, _MEMORY = 32e6, 2.6e6, 4.0e6  # bytes that stay in the L2 cache, a microsecond's of what does not, which blocks side by side hide, at most
_EXACT = 160  # registers where sums of several groups of a warp may have to be computed again: 152 to 168
_CLOSE = 4  # warps of a block that does so, at least: 10 groups of 12 at 28x28 took 15.3 us with two, 12.7 with four


@dataclass(frozen=True)
class GroupKernel:
    """``group`` and ``channel`` are loops of the window kernel, or None, ``images`` those of whole images, outermost first.

    ``unit`` neighbouring groups are computed as one, with zeros for the weights between a feature and another's channels, where a group alone has no whole
    pieces.  What is not finite comes out of that as NaN, and such sums are computed again."""

    window: WindowKernel
    group: int | None
    channel: int | None
    images: tuple[int, ...]
    unit: int = 1

    def size(self, loop: int | None) -> int:
        return self.window.sizes[loop] if loop is not None else 1

    def outputs(self, axis: Axis | None) -> int:
        return self.size(axis.loop) if axis is not None else 1

    @property
    def places(self) -> tuple[int, int]:
        """Of the result, down and along."""
        return self.outputs(self.window.down), self.outputs(self.window.along)

    @property
    def taps(self) -> tuple[int, int]:
        return self.window.taps(self.window.down), self.window.taps(self.window.along)

    @property
    def groups(self) -> int:
        """Units of them."""
        return self.size(self.group) // self.unit

    @property
    def pieces(self) -> int:
        """Of a unit's channels, of which the last one may end in zeros."""
        return ceil(self.unit * self.size(self.channel) / PIECE)

    @property
    def together(self) -> int:
        """Channels of the image that are copied together: those of a piece, where a unit has whole ones."""
        return gcd(self.unit * self.size(self.channel), PIECE)

    @property
    def grain(self) -> int:
        """Channels of a feature's weights that are copied together: those of a piece that are of one group."""
        return gcd(self.size(self.channel), PIECE)

    @property
    def features(self) -> int:
        """Of a unit, and as many as fill vectors."""
        return PIECE * ceil(self.unit * self.size(self.window.lane) / PIECE)

    @property
    def last(self) -> int:
        """Features of a unit's last vector."""
        return self.unit * self.size(self.window.lane) - self.features + PIECE

    @property
    def moving(self) -> set[int]:
        """Loops of the result that a warp's outputs are not the same in."""
        return {*self.images, *(a.loop for a in (self.window.down, self.window.along) if a is not None)}

    @property
    def constant(self) -> int:
        """Tensors that the epilogue reads of which all outputs read the same."""
        return sum(all(a.strides[d] == 0 for d in self.moving) for a in self.window.contraction.extras)

    @property
    def count(self) -> int:
        """Images."""
        return prod(self.size(d) for d in self.images)


@dataclass(frozen=True)
class GroupWindows:
    """A block computes ``rows`` x ``columns`` outputs of each of ``images`` images, ``features`` of each of ``groups`` groups, by ``warps`` warps, each of
    which has ``own`` of the groups."""

    generator: ClassVar[str] = "group_windows"
    pads: ClassVar[bool] = True  # an image's padding is not read

    images: int = 1
    rows: int = 8
    columns: int = 8
    groups: int = 1
    features: int = 8
    warps: int = 4
    own: int = 1

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def tiles(self) -> int:
        """Tiles of 16 outputs that a warp has."""
        return ceil(ceil(self.images * self.rows * self.columns / ROWS) / self.parts)

    @property
    def parts(self) -> int:
        """Warps that share the outputs of a group."""
        return self.warps * self.own // self.groups

    @property
    def stage(self) -> int:
        """Numbers from one output's sums to the next one's, on their way to vectors: an odd number of vectors."""
        return 8 * odd(self.own * self.features // 8)

    @property
    def beside(self) -> int:
        """Lanes that have neighbouring vectors of an output's features: as many as leave the fewest idle."""
        vectors = self.own * self.features // 8
        return min((1, 2, 4), key=lambda n: (ceil(vectors / n) * max(n, 2), -n))

    def grid(self, k: GroupKernel) -> tuple[int, ...]:
        """Blocks along images, rows, columns, features and groups; groups are the innermost, as neighbours read the same sectors."""
        rows, columns = k.places
        return (ceil(k.count / self.images), ceil(rows / self.rows), ceil(columns / self.columns), k.features // self.features,
                k.groups // self.groups)

    def tile(self, k: GroupKernel) -> GroupTile:
        sides = [Side(n, a.stride, k.window.taps(a), a.dilation) if a is not None else Side(n)
                 for n, a in ((self.rows, k.window.down), (self.columns, k.window.along))]
        return GroupTile(self.images, *sides, self.groups * k.pieces)

    def turns(self, k: GroupKernel) -> int:
        """Parts that the sums are added up in, one after the other: rows of the window, or all at once."""
        products = ceil(prod(k.taps) * k.pieces / 2) * self.tiles * self.own * self.features // 8
        return k.taps[0] if products > _UNROLLED else 1

    def terms(self, k: GroupKernel) -> int:
        """Pieces of a turn's terms."""
        return prod(k.taps) * k.pieces // self.turns(k)

    def steps(self, k: GroupKernel) -> int:
        """Products of a turn, of two pieces each."""
        return ceil(self.terms(k) / 2)

    def weight_pitch(self, k: GroupKernel) -> int:
        """Bytes from one feature's weights to the next one's."""
        return odd(2 * self.turns(k) * self.steps(k)) * BYTES

    def regions(self, k: GroupKernel) -> tuple[int, int, int, int]:
        """Bytes of shared memory: of the image, the weights, the sums on their way, and zeros."""
        return self.tile(k).bytes, self.groups * self.features * self.weight_pitch(k), self.warps * ROWS * self.stage * 4, BYTES

    def registers(self, k: GroupKernel) -> int:
        """About so many a thread has."""
        kept = ceil(self.own * self.features / 8 / self.beside) * 4 * k.constant
        return self.tiles * (self.own * self.features // 2 + 7) + self.features // 2 + kept + 50

    def resident(self, k: GroupKernel, target: Target) -> int:
        """Blocks of a multiprocessor at once."""
        registers = max(self.registers(k), _EXACT if k.unit > 1 < self.own else 0) + (24 if k.grain == 1 else 0)
        shared = (target.shared + 1024) // (sum(self.regions(k)) + 1024)
        return max(1, min(shared, 65536 // (self.threads * 8 * ceil(registers / 8)), 2048 // self.threads))


def choose(kernel: func.FuncOp, target: Target) -> GroupWindows | None:
    """The schedule with the lowest estimate, where neither CUDA cores are faster nor tiles by the copy engine."""
    k = read(kernel, target)
    if k is None or max(k.size(k.channel), k.size(k.window.lane)) > _MOST_CHANNELS or not (_is_timed(k) or takes_unmeasured(kernel.operation)):
        return None
    time, found = pick(k, target)
    if found is None:
        return None
    plain, tiles = windows.choose(kernel, target), im2col.parse_unfolded(kernel, target)
    others = windows.estimate(plain, k.window, target) if plain is not None else inf
    return found if time < min(others, im2col.least(kernel, tiles, target)[0] if tiles is not None else inf) else None


def _is_timed(k: GroupKernel) -> bool:
    """Whether a GPU has run its like: groups, and what is not padded for it."""
    return k.size(k.group) > 1 or leaves_channels(1, k.size(k.channel), k.size(k.window.lane))


def read(kernel: func.FuncOp, target: Target) -> GroupKernel | None:
    """What ``kernel`` computes if that can be generated."""
    c = parse_windows(kernel) if target.kind == "nvptx" and target.capability >= 80 else None
    if c is None or c.sized is not None or not c.side_by_side or not windows.is_supported(c, ("bf16", "f16")):
        return None
    axes = [a for a in (c.down, c.along) if a is not None]
    if set(c.axes) != set(axes) or any(None in (a.loop, a.tap) for a in axes):
        return None
    channels = [d for d in c.further if c.sizes[d] > 1]
    groups, images = ([d for d in c.others if c.image.strides[d] and bool(c.weight.strides[d]) == own] for own in (True, False))
    if max(len(channels), len(groups)) > 1 or len(groups) + len(images) != len(c.others) or c.image.strides[c.lane] or not c.weight.strides[c.lane]:
        return None
    group, channel = groups[0] if groups else None, channels[0] if channels else None
    k = GroupKernel(c, group, channel, tuple(images[::-1]))
    if k.size(group) * k.size(c.lane) % 2:
        return None  # (two neighbours are written together)
    k = replace(k, unit=_unit(k.size(group), k.size(channel), k.size(c.lane)))
    if any(a.strides[d] != 1 for d in channels for a in (c.image, c.weight)) or (k.unit > 1 and not _neighbours(k)) or k.together == 1:
        return None  # (what asynchronous copies are too large for are the weights alone)
    if max(prod(a.shape) for a in (c.image, c.weight, c.out, *c.contraction.extras)) >= 2**30:
        return None
    whole = [c.image.offset, *(c.image.strides[d] * (k.unit if d == group else 1) for d in range(len(c.sizes)) if d != channel)]
    whole += [c.image.strides[a.tap] // a.dilation for a in axes]
    parts = [c.weight.offset, *(n for d, n in enumerate(c.weight.strides) if d != channel)]
    return k if all(n % k.together == 0 for n in whole) and all(n % k.grain == 0 for n in parts) else None


def _unit(groups: int, channels: int, features: int) -> int:
    """How many groups have whole pieces together, of their channels and of their features; 1 where no number of them does."""
    return next((n for n in (1, 2, 4, 8) if groups % n == channels * n % PIECE == features * n % PIECE == 0), 1)


def _neighbours(k: GroupKernel) -> bool:
    """Whether a group follows the one before it in the image and in all that the epilogue reads and writes."""
    c = k.window
    results = [*c.contraction.extras, *(d.access for d in c.contraction.destinations)]
    return c.image.strides[k.group] == k.size(k.channel) and all(a.strides[k.group] == k.size(c.lane) * a.strides[c.lane] for a in results)


def fits(s: GroupWindows, k: GroupKernel, target: Target) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    if min(s.images, s.rows, s.columns, s.groups, s.features, s.warps, s.own) < 1 or s.warps > 32 or s.groups % s.own or s.warps % (s.groups // s.own):
        return False
    if k.groups % s.groups or k.features % s.features or s.features % 8:
        return False
    if s.images > k.count or any(n > most for n, most in zip((s.rows, s.columns), k.places)):
        return False
    return sum(s.regions(k)) <= target.shared and s.registers(k) <= min(_MOST_REGISTERS, 65536 // s.threads)


def schedules(k: GroupKernel, target: Target) -> Iterator[GroupWindows]:
    """What is worth a look."""
    rows, columns = ({ceil(n / parts) for parts in range(1, most + 1)} | ({each, 2 * each} if n > _LARGE else set())
                     for n, most, each in zip(k.places, (16, 4), (8, 16)))
    for down, along, (groups, own), features, warps in every(rows, columns, _SHARED_OUT, (k.features, 64, 32, 16), (2, 4, 7, 8)):
        whole = (down, along) == k.places
        for images in (1, 2, 4, 8) if whole else (1,):
            s = GroupWindows(images, down, along, groups, features, warps, own)
            if fits(s, k, target):
                yield s


def pick(k: GroupKernel, target: Target) -> tuple[float, GroupWindows | None]:
    """The schedule with the least estimate, in microseconds."""
    found = ((estimate(s, k, target), s) for s in dict.fromkeys(schedules(k, target)) if k.unit == 1 or s.warps >= _CLOSE)
    return min(found, key=lambda x: (x[0], x[1].warps, x[1].groups, x[1].images, x[1].rows, x[1].columns, x[1].features), default=(inf, None))


def estimate(s: GroupWindows, k: GroupKernel, target: Target) -> float:
    """Microseconds: the work of the fullest multiprocessor's blocks, as much of it as no other warp hides, and what memory takes."""
    tile, steps, eights = s.tile(k), s.turns(k) * s.steps(k), s.features // 8
    places, row = tile.images * tile.down.places * tile.along.places, 2 * s.groups * k.unit * k.size(k.channel)
    whole = s.features == k.features
    runs, run = s.images * s.rows * s.columns * s.groups // (s.own if whole else 1), 2 * s.features * (s.own if whole else 1)
    turns = s.warps * s.tiles * ceil(s.own * eights / s.beside) * max(1, s.beside // 2)
    work = s.groups * s.features * steps * 2 * PIECE // k.grain * _WEIGHT
    work += places * (ceil(row / 32) * 32 * _BYTE + ceil(row / 128) * _LINE) + runs * ceil(run / 128) * _STORED
    work += s.warps * s.own * steps * (s.tiles * eights * _PRODUCT + (s.tiles + ceil(eights / 2)) * _LOAD)
    work += s.warps * _WARP + turns * (_TURN + (_AGAIN if k.unit > 1 else 0))
    mine, resident = ceil(prod(s.grid(k)) / target.multiprocessors), s.resident(k, target)
    clocks, moved = work * (mine + ceil(mine / resident) * _ALONE / s.warps), k.window.moved
    return _START + max(clocks / CLOCK + max(0, moved - _L2) / _BEYOND / min(mine, resident), moved / _MEMORY)

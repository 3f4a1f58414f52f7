"""The schedule of contractions of which a kernel also adds up each column of a result: each channel's numbers over all pixels, and their squares.

That is what batch norm needs of a convolution while it is trained.  As ``im2col`` or ``wgmma`` with tiles of the same columns for all turns of a block: each
warp adds up what it writes, in float32 through the 16 rows of a tile that it has, and in float64 from there on.  The squares of numbers of 16 bits with 8
of precision, and their sums over 16 rows, are exact in float32 wherever they are nearly alike, so nothing that a variance needs is lost.  (Of others
one of the 16 had to be taken off before: on an H100, 64 channels of 32x56x56 in float16, 3x3 and batch norm took 37.2 us, with sums apart 34.3.)  A second
launch adds up the blocks' sums, in one order.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK, fastest
from inferno.schedule.convolution import im2col
from inferno.schedule.convolution.halo import takes
from inferno.schedule.convolution.im2col import Im2col
from inferno.schedule.convolution.summed_columns import parse_summed
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.wgmma_schedule import Shared, raw_bytes, shared_of_block
from inferno.schedule.tiles.result_parts import columns_together, store_maps
from inferno.schedule.tiles.shared_tiles import height
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.target import Target

WARPS = 4  # of a consumer
_SUM = 8  # bytes of a sum in shared memory
# Clocks of a warp for its part of 64x64 results, of which ping-pong hides a share, and microseconds of the launch that adds up the blocks' sums (guesses,
# which are too high: on an H100, batch norm and ReLU behind 64 channels of 32x56x56, 3x3, takes 24.7 us, with sums apart 33.8; 256 to 64, 1x1, 36.8 and 44.9).
_CLOCKS, _HIDDEN, _LAST = 260, 0.7, 2.0
_LEAST_SLOTS = 2, 3  # of the lhs, and of a halo's weights


@dataclass(frozen=True)
class ChannelSums(Im2col):
    """As ``Im2col``, or without ``windows``, where the terms are neighbours in memory, as ``Wgmma``.  ``sums``: how many there are of each column."""

    generator: ClassVar[str] = "channel_sums"

    sums: int = 2
    windows: bool = False

    def shared(self, raw_bytes: int = 0, rhs_height: int = 0) -> Shared:
        """The sums are in front of the barriers."""
        laid = self.plain().shared(raw_bytes, rhs_height)
        return replace(laid, barriers=laid.barriers + self.sums_bytes, total=laid.total + self.sums_bytes)

    def plain(self) -> Im2col:
        """The same without sums."""
        return Im2col(**{f.name: getattr(self, f.name) for f in fields(Im2col)})

    @property
    def sums_bytes(self) -> int:
        return WARPS * self.consumers * self.sums * self.tile_n * _SUM


def choose(kernel: func.FuncOp, target: Target) -> ChannelSums | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction with sums of its columns for Hopper's tensor cores."""
    found = list(candidates(kernel, target))
    return fastest(found)[1]


def candidates(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, ChannelSums]]:
    """Schedules with their estimates in microseconds."""
    overlap = False  # what a plain contraction reads of an image
    for windows in (True, False):
        c = parse_summed(kernel, target, windows)
        overlap |= windows and c is not None
        tiling = tiling_of(c.contraction) if c is not None else None
        if tiling is None:
            continue
        for time, s in im2col.at_size(c.head, c.contraction, target) if windows else wgmma.candidates(c.head, c.contraction, target):
            plain = s if windows else im2col.im2col(s)
            made = _fit(ChannelSums(**asdict(replace(plain, group=1, inside=False)), sums=len(c.squares), windows=windows), tiling, target)
            if made is not None and takes_schedule(made, c.contraction, tiling):
                if overlap and not windows:
                    time = max(time, im2col.time_of_rows(s, tiling, element_bytes(c.contraction.lhs.element), target))
                yield time + _time(made, tiling, target), made


def tiling_of(c: Contraction) -> Tiling | None:
    """The tiles of such a contraction; None where it cannot be tiled."""
    width = element_bytes(c.lhs.element)
    return tile_contraction(c, width, only_along_k=width == 4, offset=c.windows is None)


def takes_schedule(s: ChannelSums, c: Contraction, tiling: Tiling) -> bool:
    """Whether a block's tiles all have the same columns, each row of the result is in one of them, and is staged."""
    alone = s.split == s.cluster == s.group == 1 and s.persistent and s.resident == 1
    plain = not (s.stream or s.lhs_rows or s.inside or s.swapped or s.bring or s.line or s.by_threads or s.registers or s.parts)
    as_they_lie = tiling.n.size == c.N and not (any(raw_bytes(s, tiling, 1)) or tiling.lhs.copied or tiling.rhs.copied)
    if not (alone and plain and as_they_lie) or len(store_maps(c, tiling, s)) != len(c.destinations):
        return False
    width = columns_together(c, tiling, s)
    return s.tile_n % width == 0 and s.sums * width % 32 == 0 and (not s.patch or takes(s, c, tiling))


def _fit(s: ChannelSums, tiling: Tiling, target: Target) -> ChannelSums | None:
    """``s`` with as many slots as there is room for beside the sums; None if there are too few."""
    high = height(s.tile_n, tiling.rhs.along_k, s.panel)
    while s.shared(0, high).total > shared_of_block(s, target):
        if s.weights > _LEAST_SLOTS[1]:
            s = replace(s, weights=s.weights - 1)
        elif s.stages > _LEAST_SLOTS[0]:
            s = replace(s, stages=s.stages - 1)
        else:
            return None
    return s


def _time(s: ChannelSums, tiling: Tiling, target: Target) -> float:
    """Microseconds that the sums take beside the contraction."""
    turns = ceil(tiling.tiles(s.tile_m, s.tile_n) / target.multiprocessors)
    return _LAST + turns * s.rows * s.tile_n / 64**2 * _CLOCKS * (1 - _HIDDEN if s.pingpong else 1) / CLOCK

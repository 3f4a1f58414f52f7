"""The schedule of depthwise convolutions on the tensor cores of sm_80 and up, in 16 bits and with channels last."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.convolution import windows
from inferno.schedule.convolution.window_kernel import WindowKernel
from inferno.target import Target

LINES, COLUMNS, OUTPUTS = 16, 16, 8
"""Of a product: rows of the left factor, a run of the image each, their elements, and outputs of each."""
CHANNELS = 32
"""Of a block.  With other numbers accesses to shared memory meet in its banks."""
_WORTH_IT = 36  # terms: CUDA cores do 25 at 92% of what memory brings, and 49 at 45%
_MOST_ROWS = 7  # of a window: sums and factors of nine do not fit into registers
# Fitted to 37 kernels measured on an H200, 6% off on average: bytes a microsecond, microseconds of a turn and of a launch.
_RATE, _TURN, _START = 3.0e6, 0.8, 0.6


@dataclass(frozen=True)
class BandWindows:
    """A block has 32 channels, ``own`` of them a warp, and goes along ``rows`` rows of outputs of 16 runs of eight."""

    generator: ClassVar[str] = "band_windows"
    pads: ClassVar[bool] = True  # an image's padding is not read

    own: int = 2
    rows: int = 8

    @property
    def threads(self) -> int:
        return 32 * CHANNELS // self.own

    @property
    def items(self) -> int:
        """Pairs of places that a thread brings in a turn, and vectors of outputs that it stores."""
        return self.own // 2

    def ages(self, c: WindowKernel) -> int:
        return c.taps(c.down)

    def strips(self, c: WindowKernel) -> int:
        return ceil(c.outputs(c.down) / self.rows)

    def tiles(self, c: WindowKernel) -> int:
        """Runs of outputs along a row."""
        return ceil(c.outputs(c.along) / OUTPUTS)

    def lines(self, c: WindowKernel) -> int:
        return self.tiles(c) * self.strips(c) * prod(c.sizes[d] for d in c.others)

    def chunks(self, c: WindowKernel) -> int:
        return ceil(c.sizes[c.lane] / CHANNELS)

    def blocks(self, c: WindowKernel) -> int:
        return self.chunks(c) * ceil(self.lines(c) / LINES)


@asked_once
def choose(kernel: func.FuncOp, target: Target) -> BandWindows | None:
    """A schedule if the windows of ``kernel`` are so large that CUDA cores are slower than memory, and there are so many that they are slower than the turns
    of a block, one after the other (7x7, 1x96x56x56: 9.7 us, where CUDA cores take 3.0 for float32)."""
    c = read(kernel, target)
    found = pick(c, target) if c is not None and c.terms >= _WORTH_IT else None
    plain = windows.pick(c, target) if found is not None else None
    return found if plain is None or estimate(found, c, target) < windows.estimate(plain, c, target) else None


def read(kernel: func.FuncOp, target: Target) -> WindowKernel | None:
    """What ``kernel`` computes if that can be generated."""
    c = windows.read(kernel, target)
    if c is None or target.capability < 80 or not c.side_by_side or c.depth > 1 or None in (c.down, c.along) or c.sized is not None:
        return None
    if c.sizes[c.lane] % 8 or c.sizes[c.lane] < CHANNELS:
        return None
    if str(c.image.element) not in ("bf16", "f16") or any(a.phases != 1 or a.step != 1 for a in (c.down, c.along)):
        return None
    if c.image.strides[c.lane] != 1 or c.weight.strides[c.lane] != 1 or c.taps(c.along) > COLUMNS - OUTPUTS + 1 or c.taps(c.down) > _MOST_ROWS:
        return None
    if {a for a in c.axes} - {c.down, c.along} or max(prod(a.shape) for a in (c.image, c.weight, c.out, *c.contraction.extras)) >= 2**30:
        return None
    others = [at.strides[d] for at in (c.image, c.weight) for d in range(len(c.sizes)) if d != c.lane]
    return c if all(n % 8 == 0 for n in (c.image.offset, c.weight.offset, *others)) else None


def fits(s: BandWindows, c: WindowKernel) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    return s.own in (2, 4) and 1 <= s.rows <= c.outputs(c.down)


def schedules(c: WindowKernel) -> Iterator[BandWindows]:
    """What is worth a look."""
    rows = c.outputs(c.down)
    lengths = sorted({min(rows, n) for n in (4, 7, 8, 14, 16, 28, 32, 56)} | {ceil(rows / n) for n in (1, 2, 3, 4)})
    yield from (BandWindows(own, length) for own in (4, 2) for length in lengths)


def pick(c: WindowKernel, target: Target) -> BandWindows | None:
    """The schedule with the least estimate."""
    return min(schedules(c), key=lambda s: (estimate(s, c, target), s.own, s.rows), default=None)


def estimate(s: BandWindows, c: WindowKernel, target: Target) -> float:
    """Microseconds: what memory takes, or turns one after the other."""
    # The registers of one block are a multiprocessor's, with two channels a warp and with four: the model does not tell these apart.
    turns = ceil(s.blocks(c) / target.multiprocessors) * (s.rows + s.ages(c))
    again = (s.rows + s.ages(c) - 1) / s.rows * 0.25 + 0.75  # of what is read several times most is in a cache
    return _START + ((c.moved * again / _RATE) ** 2 + (turns * _TURN) ** 2) ** 0.5

"""The schedule of depthwise convolutions on CUDA cores whose rows the copy engine brings to shared memory: sm_90 and up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.convolution import band_windows, windows
from inferno.schedule.convolution.window_kernel import Axis, WindowKernel
from inferno.symbolic import Int, bounds, reach
from inferno.target import WARP, Target

_BOX = 256  # elements along a dimension of a copy, at most
_LINE = 128  # bytes: what a copy in shared memory begins at a multiple of
_BARRIERS = 256  # bytes behind the slots
_REGISTERS = 65536  # of a multiprocessor, a quarter for each scheduler's warps
# Fitted to kernels measured on an H200, 10% off on average: microseconds of a launch, bytes a microsecond of memory, clocks of a turn in which a warp waits,
# warps of a scheduler that use half of the issue slots that many use, and the part of what tiles have in common that is not read from a cache.
_START, _RATE, _TURN, _HALF, _AGAIN = 1.0, 4.25e6, 200, 0.2, 0.5
_BETTER = 0.95  # of another generator's estimate: those of ``windows`` are 5% to 10% above what was measured
_FEWEST = 8e6  # bytes: one image of 144 x 56 x 56 took 2.7 us for 2.0, 32 of 192 x 28 x 28 6.0 for 6.4
_SECTOR = 32  # bytes: channels of a block that end within one (144 bytes of 288) took 45 us where 288 took 35


@dataclass(frozen=True)
class StagedWindows:
    """A thread computes ``vector`` channels of ``along`` outputs side by side in each of ``rows`` rows.  A block has ``lanes`` vectors of channels by ``runs``
    such threads along the row, and a warp that starts copies, which are ``stages`` ahead.  A copy is the rows of a turn or, with ``strips`` > 0, of a
    whole tile, which then has so many times ``rows``, of other threads.  ``resident`` blocks are on a multiprocessor; each has tiles of the same channels, one
    after the other."""

    generator: ClassVar[str] = "staged_windows"
    pads: ClassVar[bool] = True  # what is outside of an image arrives as zeros

    vector: int = 1
    along: int = 8
    rows: int = 8
    lanes: int = 32
    runs: int = 4
    stages: int = 4
    resident: int = 1
    strips: int = 0

    @property
    def consumers(self) -> int:
        """Threads that compute, and some to fill their last warp."""
        return ceil(self.members / WARP) * WARP

    @property
    def members(self) -> int:
        return self.lanes * self.runs * max(1, self.strips)

    @property
    def threads(self) -> int:
        return WARP + self.consumers

    @property
    def chunk(self) -> int:
        """Channels of a block."""
        return self.lanes * self.vector

    def ages(self, c: WindowKernel) -> int:
        """Rows of outputs that a turn's rows of the image are part of."""
        return ceil(c.taps(c.down) / c.down.step)

    def turns(self, c: WindowKernel) -> int:
        """Of a tile."""
        return self.rows + self.ages(c) - 1

    def columns(self, c: WindowKernel) -> int:
        """Elements along a row that a thread reads."""
        return (self.along - 1) * c.along.step + c.taps(c.along)

    def pitch(self, c: WindowKernel) -> int:
        """Elements along a row that are copied."""
        found = (self.along * self.runs - 1) * c.along.step + c.taps(c.along)
        return found if c.side_by_side else ceil((ahead(c) + found) / aligned(c)) * aligned(c)

    @property
    def height(self) -> int:
        """Rows of outputs of a tile."""
        return self.rows * max(1, self.strips)

    def box_rows(self, c: WindowKernel) -> int:
        """Rows of the image that a copy brings."""
        return (self.height - 1) * c.down.step + c.taps(c.down) if self.strips else 1

    def box_bytes(self, c: WindowKernel) -> int:
        """Of a copy in shared memory."""
        return ceil(self.copied(c) / _LINE) * _LINE

    def copied(self, c: WindowKernel) -> int:
        return self.chunk * self.pitch(c) * self.box_rows(c) * c.width

    def rows_of_turn(self, c: WindowKernel) -> int:
        return min(c.down.step, c.taps(c.down))

    def boxes(self, c: WindowKernel) -> int:
        """Copies of a slot."""
        return 1 if self.strips else self.rows_of_turn(c)

    def shared(self, c: WindowKernel) -> int:
        """Bytes of shared memory."""
        return self.stages * self.boxes(c) * self.box_bytes(c) + _BARRIERS

    def floors(self, c: WindowKernel) -> int:
        """Tiles down an image."""
        return ceil(c.outputs(c.down) / self.height)

    def spans(self, c: WindowKernel) -> int:
        """Tiles along a row."""
        return ceil(c.outputs(c.along) / (self.along * self.runs))

    def tiles(self, c: WindowKernel) -> int:
        """Of each chunk of channels."""
        return self.floors(c) * self.spans(c) * prod(c.sizes[d] for d in outer(c))

    def total(self, c: WindowKernel) -> Int:
        """The same, of as many images as there are at a call."""
        return self.tiles(c) if c.images is None else self.tiles(c) // c.sizes[c.others[-1]] * c.images

    def chunks(self, c: WindowKernel) -> int:
        return c.sizes[channel(c)] // self.chunk

    def workers(self, c: WindowKernel, target: Target) -> int:
        """Blocks that share the tiles of a chunk; as few as are done at the same time."""
        most = max(1, target.multiprocessors * self.resident // self.chunks(c))
        return ceil(self.tiles(c) / ceil(self.tiles(c) / most))

    def registers(self, c: WindowKernel) -> int:
        """About so many a thread has."""
        raw = ceil(self.columns(c) * self.vector * self.rows_of_turn(c) * c.width / 4)
        return self.vector * (self.ages(c) * self.along + c.terms) + raw + 17


def channel(c: WindowKernel) -> int:
    """The loop over channels."""
    return c.lane if c.side_by_side else c.others[0]


def outer(c: WindowKernel) -> list[int]:
    """The loops over images, from the least strides on."""
    return [d for d in c.others if d != channel(c)]


def aligned(c: WindowKernel) -> int:
    """Elements of 16 bytes: along the innermost dimension copies begin at multiples of them, or are an illegal instruction."""
    return 16 // c.width


def ahead(c: WindowKernel) -> int:
    """Elements in front of the first one that is needed that a copy along places begins with."""
    return -c.along.low % aligned(c) if not c.side_by_side else 0


def place_stride(c: WindowKernel, axis: Axis) -> int:
    """Elements in memory between neighbours along a dimension of the image."""
    return c.image.strides[axis.loop] // axis.stride


def choose(kernel: func.FuncOp, target: Target) -> StagedWindows | None:
    """A schedule if it is the fastest of the ways to compute windows by the estimates."""
    c = read(kernel, target)
    if c is None or c.moved < _FEWEST:
        return None
    # In f32 the loads of ``windows`` are long enough: 3x3 with channels last takes 35 us here for 33 there, every second with channels first 54 for 50.
    if c.width == 4 and c.side_by_side == (c.down.step == 1):
        return None
    found = pick(c, target)
    if found is None:
        return None
    others = [(g, g.choose(kernel, target)) for g in (band_windows, windows)]
    times = [g.estimate(s, g.read(kernel, target), target) for g, s in others if s is not None]
    return found if estimate(found, c, target) < _BETTER * min(times, default=float("inf")) else None


def read(kernel: func.FuncOp, target: Target) -> WindowKernel | None:
    """What ``kernel`` computes if that can be generated."""
    c = windows.read(kernel, target)
    if c is None or (c.sized is not None and c.images is None):
        return None
    if target.capability < 90 or c.depth > 1 or None in (c.down, c.along) or not (c.side_by_side or c.others):
        return None
    if {*c.axes} - {c.down, c.along} or any(a.loop is None or a.dilation != 1 for a in (c.down, c.along)):
        return None
    if not c.side_by_side and (c.lane is not None or c.out.strides[c.along.loop] != 1):
        return None
    innermost = c.image.strides[channel(c)] if c.side_by_side else place_stride(c, c.along)
    dims, begin = dimensions(c), -sum(a.low * place_stride(c, a) for a in (c.down, c.along))
    if innermost != 1 or c.image.offset != begin or len(dims) > 5 or prod(n for n, _ in dims) != prod(c.image.shape):
        return None
    width = c.width
    if any(s < 1 or (s * width) % (16 if n else 1) or s * width >= 2**40 for n, (_, s) in enumerate(dims)):
        return None
    if c.weight.strides[channel(c)] == 0 or any(c.weight.strides[d] for d in (*outer(c), c.down.loop, c.along.loop)):
        return None
    larger = 1 if c.images is None else reach(c.images) / c.sizes[c.others[-1]]
    if max(prod(a.shape) for a in (c.image, c.weight, *c.contraction.extras, *(d.access for d in c.contraction.destinations))) * larger >= 2**30:
        return None
    return c if c.images is None or bounds(c.images)[0] > 0 else None


def dimensions(c: WindowKernel) -> list[tuple[int, int]]:
    """The image's dimensions as they are copied: sizes, of an example of a number of images that varies, and strides."""
    lane = (c.sizes[channel(c)], c.image.strides[channel(c)])
    along, down = ((a.size, place_stride(c, a)) for a in (c.along, c.down))
    inner = [lane, along, down] if c.side_by_side else [along, down, lane]
    return [*inner, *((c.sizes[d], c.image.strides[d]) for d in outer(c))]


def fits(s: StagedWindows, c: WindowKernel) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    if min(s.along, s.rows, s.lanes, s.runs, s.stages, s.resident) < 1 or s.strips < 0 or s.vector not in (1, 2, 4, 8) or s.threads > 1024:
        return False
    if c.sizes[channel(c)] % s.chunk or max(s.chunk, s.pitch(c), s.box_rows(c)) > _BOX:
        return False
    if s.rows > c.outputs(c.down) or s.height >= c.outputs(c.down) + s.rows:
        return False
    width = c.width
    if c.side_by_side:
        lies = s.chunk % aligned(c) == 0 and s.vector * width <= 16
    else:
        lies = s.vector == 1 and c.outputs(c.along) % s.along == 0 and (s.spans(c) == 1 or s.along * s.runs * c.along.step % aligned(c) == 0)
    return lies and s.along * s.runs < c.outputs(c.along) + s.along and s.shared(c) * s.resident <= 227 * 1024 and 16 * s.stages <= _BARRIERS


def schedules(c: WindowKernel) -> Iterator[StagedWindows]:
    """What is worth a look."""
    rows, width, most = c.outputs(c.down), c.width, c.outputs(c.along)
    lengths = sorted({ceil(rows / n) for n in ((1, 2, 3, 4, 5, 7, 8) if c.side_by_side else (4, 7, 8))})
    along = [n for n in (4, 7, 8) if n <= most] or [most]
    if not c.side_by_side:  # what a thread stores of a row are 16 bytes, or 8
        along = [n for n in (2, 4, 8) if 8 <= n * width <= 16 and most % n == 0]
    lanes = [n for n in range(1, _BOX + 1) if c.sizes[channel(c)] % n == 0]
    for vector, each, length, resident in product((1, 2, 4) if c.side_by_side else (1,), along, lengths, (1, 2, 3, 4)):
        whole = ceil(most / each)
        # Planes come as they lie in memory: by rows of many planes 3x3 took 24 us in bf16 for 21, 7x7 33 us in f32 for 27.
        floors = {0} if c.side_by_side else {ceil(rows / length), ceil(rows / length / 2)}
        for n, runs, strips in product(lanes, sorted({whole, ceil(whole / 2)}), sorted(floors)):
            s = StagedWindows(vector, each, length, n, runs, 1, resident, strips)
            if not fits(s, c) or s.registers(c) * ceil(s.threads * resident / 128) * 128 > _REGISTERS or s.registers(c) > 160:
                continue
            if s.members < 0.85 * s.consumers or s.consumers < 96 or (c.side_by_side and (s.chunk * width < 64 or s.chunk * width % _SECTOR)):
                continue
            stages = min(8, (227 * 1024 // resident - _BARRIERS) // (s.shared(c) - _BARRIERS))
            if stages > 1 and (not strips or stages * resident > 3):
                yield replace(s, stages=min(stages, 4) if strips else min(stages, s.turns(c)))


@kept_with
def pick(c: WindowKernel, target: Target) -> StagedWindows | None:
    """The schedule with the least estimate."""
    return min(schedules(c), key=lambda s: (round(estimate(s, c, target), 1), -s.consumers * s.resident, s.resident, s.lanes, s.rows), default=None)


def estimate(s: StagedWindows, c: WindowKernel, target: Target) -> float:
    """Microseconds: what memory takes, or the turns of a block one after the other, beside those of the blocks that are there at the same time."""
    width = c.width
    outputs, loaded = s.along * s.vector, s.columns(c) * s.rows_of_turn(c)
    slots = s.rows * outputs * (c.terms + 1.5) + s.turns(c) * (loaded * (1 + (s.vector if width < 4 else 0)) + (8 if s.strips else 40))
    warps = s.resident * ceil(s.consumers / 128)  # of the scheduler that has most of them
    rounds = ceil(s.tiles(c) / s.workers(c, target)) * ceil(s.chunks(c) * s.workers(c, target) / (target.multiprocessors * s.resident))
    computing = rounds * max(slots * (warps + _HALF), slots + s.turns(c) * _TURN) / CLOCK
    copied = s.turns(c) / s.rows if not s.strips else s.box_rows(c) / (s.height * c.down.step)
    memory = c.moved * (1 + _AGAIN * (copied - 1)) / _RATE
    return _START + (memory**1.5 + computing**1.5) ** (2 / 3)

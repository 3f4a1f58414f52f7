"""The schedule of kernels that multiply and add over windows on CUDA cores: depthwise convolutions, and those with few channels a group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import ClassVar

from inferno.mlir import func, ir, walk
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.analysis.unchanged import asked_once, kept_with
from inferno.schedule.convolution.pixel_sums import parse_summed
from inferno.schedule.convolution.window_kernel import WindowKernel, parse_windows
from inferno.symbolic import Int, ceildiv
from inferno.target import Target
from inferno.window_limits import FEW_CHANNELS, MOST_TERMS

_REGISTERS = 200  # of a thread, by ``registers``, that are worth a look; 255 are all
# Fitted to 70 kernels measured on an H200, 10% off on average: microseconds of a launch and of a row's loads, bytes a microsecond of memory and of
# stores of two bytes each, the share of issue slots that many warps use, warps of a scheduler that use half of that, and clocks of a line of loads.
_START, _LATENCY, _RATE, _SCATTERED, _ISSUED, _HALF, _LINE = 1.0, 0.25, 3.6e6, 3.0e6, 0.95, 0.35, 1.5
# Several features a channel, in groups: of 4 at 56x56 an H100 took 127 us for 33.4 by these counts, of 1 to 2, 7x7 by 2, 36 for 9.6, of 8 at 28x28 66 for 38.
_SEVERAL = 3.0
_CLOSE = 1.04  # of estimates that may as well be the same
_ELEMENTS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class Windows:
    """A thread computes ``vector`` lanes of ``along`` outputs side by side in each of ``rows`` rows, and reads each row of the image once.
    ``across`` threads are neighbours along the lanes, the next ones along the image; a block has ``threads``.  ``ahead``: the next row is on its way
    while one is multiplied."""

    generator: ClassVar[str] = "windows"
    pads: ClassVar[bool] = True  # an image's padding is not read

    threads: int = 128
    vector: int = 1
    along: int = 1
    rows: int = 1
    across: int = 1
    ahead: bool = True

    def ages(self, c: WindowKernel) -> int:
        """Rows of outputs that one row of the image, or the ``step`` that are read together, is part of."""
        return ceil(c.taps(c.down) / (c.down.step if c.down is not None else 1))

    def columns(self, c: WindowKernel) -> int:
        """Elements of a row that are read."""
        return (self.along - 1) * (c.along.step if c.along is not None else 1) + c.taps(c.along)

    def lanes(self, c: WindowKernel) -> int:
        """Vectors along the lanes."""
        return c.sizes[c.lane] // self.vector if c.lane is not None else 1

    def count(self, c: WindowKernel) -> Int:
        """Threads that have work."""
        found: Int = self.lanes(c)
        for axis, each in ((c.down, self.rows), (c.along, self.along)):
            found *= ceildiv(c.outputs(axis), each) * (axis.phases if axis is not None else 1)
        for d in c.others:
            found *= c.sizes[d]
        return found

    def blocks(self, c: WindowKernel) -> Int:
        return ceildiv(self.count(c), self.threads)

    def registers(self, c: WindowKernel) -> int:
        """About so many a thread has."""
        loaded = self.columns(c) * c.depth * (self.vector if c.lane is None or c.image.strides[c.lane] else 1)
        step = c.down.step if c.down is not None else 1
        per_channel = sum(c.lane is not None and a.strides[c.lane] != 0 for a in c.contraction.extras)
        kept = self.vector * (self.ages(c) * self.along + c.terms + per_channel)
        return kept + loaded + (ceil(loaded * c.width / 4) * step if self.ahead else 0) + 30


@asked_once
def choose(kernel: func.FuncOp, target: Target) -> Windows | None:
    """A schedule if ``kernel`` has windows of few enough terms."""
    c = read(kernel, target)
    return pick(c, target) if c is not None else None


def read(kernel: func.FuncOp, target: Target) -> WindowKernel | None:
    """What ``kernel`` computes if that can be generated."""
    if target.kind != "nvptx":
        return None
    c = parse_windows(kernel)
    if c is None or c.terms > MOST_TERMS or (_channels(c) > FEW_CHANNELS and not _grouped(c)):
        return None
    if parse_summed(kernel, target) is not None:
        return None  # 128 pixels for 1280 times 2560 times 9 results took an H200 660 us
    return c if is_supported(c, _ELEMENTS) else None


def is_supported(c: WindowKernel, elements: Sequence[str]) -> bool:
    """Whether the factors are of one of these types, sums of float32, and the epilogue one that may be inlined."""
    k = c.contraction
    if str(k.accumulator) != "f32" or str(c.image.element) not in elements or c.image.element != c.weight.element:
        return False
    if any(o.extend not in (None, "arith.extf") for o in (k.lhs, k.rhs)):
        return False
    written = {d.access.argument for d in k.destinations}
    if any(a.argument in written for a in (c.image, c.weight, *k.extras)):
        return False
    if k.epilogue is not None and (walk(k.epilogue.generic, "linalg.index") or walk(k.epilogue.generic, "tensor.extract")):
        return False
    elements_beside = [a.element for a in (*k.extras, *(d.access for d in k.destinations))]
    return not any(isinstance(e, ir.ComplexType) or (e.width < 16 and str(e) != "i1") for e in elements_beside)


def _channels(c: WindowKernel) -> int:
    """Channels that a sum is over."""
    return prod(c.sizes[d] for d in c.further if d not in {a.tap for a in c.axes})


def _grouped(c: WindowKernel) -> bool:
    """Whether each feature has channels of its own."""
    return any(c.image.strides[d] and c.weight.strides[d] for d in (*c.others, *((c.lane,) if c.lane is not None else ())))


def fits(s: Windows, c: WindowKernel) -> bool:
    """Whether the generator takes the kernel with the schedule."""
    powers = (s.threads, s.vector)
    if any(n < 1 or n & (n - 1) for n in powers) or not 32 <= s.threads <= 1024 or s.vector > 8 or min(s.along, s.rows, s.across) < 1:
        return False
    if (c.lane is None and (s.vector, s.across) != (1, 1)) or (c.along is None and s.along > 1) or (c.down is None and s.rows > 1):
        return False
    if c.lane is not None and (c.sizes[c.lane] % s.vector or s.lanes(c) % s.across):
        return False
    return s.along <= c.outputs(c.along) and s.rows <= max(1, c.outputs(c.down)) and s.registers(c) <= 255


def schedules(c: WindowKernel) -> Iterator[Windows]:
    """What is worth a look."""
    rows, along = c.outputs(c.down), c.outputs(c.along)
    lengths = sorted({min(rows, n) for n in (1, 2, 4, 8, 16, 32, 64)} | {ceil(rows / n) for n in (1, 2, 3, 4, 8)})
    widths = sorted({min(along, n) for n in (1, 2, 4, 8)} | {n for n in (3, 5, 6, 7) if along % n == 0})
    for vector, each, length, threads, ahead in product((1, 2, 4, 8), widths, lengths, (128, 256), (True, False)):
        across = 1
        if c.lane is not None and c.sizes[c.lane] % vector == 0 and c.side_by_side:
            lanes = c.sizes[c.lane] // vector
            across = max(n for n in range(1, min(32, lanes) + 1) if lanes % n == 0)
            across = lanes if across < 8 and lanes <= 128 else across
        s = Windows(threads, vector, each, length, across, ahead)
        if fits(s, c) and s.registers(c) <= _REGISTERS:
            yield s


@kept_with
def pick(c: WindowKernel, target: Target) -> Windows | None:
    """The schedule with the least estimate, with as many threads, by fewer rows each, as leave it close: they hide each other's loads, and the last of them
    leave less of the machine idle (7x7, 32x96x56x56: 42.5 us in f32 and 34.7 in bf16 with 28 rows, 36.9 and 28.5 with 14; bf16, 3x3,
    32x144x56x56: 21.2 with 14, 19.9 with 7)."""
    found = [(estimate(s, c, target) * (1 if s.ahead else _CLOSE), s) for s in schedules(c)]
    if not found:
        return None
    least, best = min(found, key=lambda x: (x[0], -x[1].threads, x[1].vector, x[1].along))
    alike = [s for time, s in found if time <= least * _CLOSE and (s.vector, s.along, s.ahead) == (best.vector, best.along, best.ahead)]
    # No rows are read twice as often as there are.
    close = [best, *(s for s in alike if s.rows >= 2 * (s.ages(c) - 1))]
    return max(close, key=lambda s: (s.count(c), s.threads))


def estimate(s: Windows, c: WindowKernel, target: Target) -> float:
    """Microseconds: what memory, scattered stores, the issue slots, loads or the latency of one row after the other take."""
    width, step = c.width, c.down.step if c.down is not None else 1
    outputs, ages = s.rows * s.along * s.vector, s.ages(c)
    read = (s.rows + ages - 1) * min(step, c.taps(c.down)) * s.columns(c) * c.depth  # places
    in_vector = s.vector if c.lane is None or c.image.strides[c.lane] else 1
    loads = read * max(1, in_vector * width // 16)
    slots = outputs * c.terms + 2 * loads + (read * in_vector if width < 4 else 0) + 2 * c.terms * s.vector + 60
    slots += outputs * (c.operations + 1) + s.rows * s.along * 4 * len(c.contraction.destinations)
    each = ceil(s.blocks(c) / target.multiprocessors) * s.threads  # threads of the multiprocessor that has most of them
    resident = max(s.threads, min(2048, 65536 // max(32, s.registers(c))) // s.threads * s.threads)
    warps = min(each, resident) / 128  # of a scheduler
    issue = each * slots / (128 * CLOCK * _ISSUED) * (warps + _HALF) / warps
    l1 = each * loads / 32 * _wavefronts(s, c, width) * _LINE / CLOCK
    memory = c.moved / _RATE
    # Stores of two bytes that are apart: 3x3, 32x144x56x56, channels first, takes 45 us with 4 outputs side by side, 98 with 8.
    scattered = 0 if c.side_by_side or width > 2 else s.along * sum(d.access.bytes for d in c.contraction.destinations) / _SCATTERED
    latency = ceil(each / resident) * ((s.rows + ages - 1) * (0.7 if s.ahead else 1.0) + 1) * _LATENCY
    time = sum(x**2 for x in (memory, issue, scattered, l1, latency)) ** 0.5
    return _START + time * (_SEVERAL if c.lane is not None and not c.image.strides[c.lane] and _grouped(c) else 1)


def _wavefronts(s: Windows, c: WindowKernel, width: int) -> float:
    """Lines of 128 bytes that the 32 threads of one load touch."""
    if c.side_by_side or (c.lane is not None and c.along is None):
        return max(1.0, 32 * s.vector * width / 128)
    return max(1.0, s.along * (c.along.stride if c.along is not None else 1) * width * 32 / 128)

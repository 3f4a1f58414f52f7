"""The schedule of contractions on the tensor cores that all GPUs from sm_80 on have: bf16, f16, TF32, bytes and float64."""

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func, walk
from inferno.schedule.analysis.cost import At, fastest, moved_bytes
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.matmul import wgmma, wgmma_schedule
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.tiles.tiling import Axes, Axis, main_read, paired, pick_axes
from inferno.symbolic import hint, is_multiple, product, reach
from inferno.target import Target


@dataclass(frozen=True)
class Mma:
    """A block computes ``tile_m`` x ``tile_n`` results, ``row`` bytes of terms at a time, by ``warps_m`` x ``warps_n`` warps.

    ``stages`` slots in shared memory hold tiles of the operands that are multiplied or on their way.  Blocks go down columns of
    ``group`` tiles.  ``split`` blocks share the terms of a tile; their sums go to the workspace, where a second kernel adds them.
    """

    generator: ClassVar[str] = "mma"

    tile_m: int = 128
    tile_n: int = 128
    warps_m: int = 2
    warps_n: int = 2
    row: int = 64
    stages: int = 4
    group: int = 8
    split: int = 1

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def warp_m(self) -> int:
        """Rows that one warp multiplies."""
        return self.tile_m // self.warps_m

    @property
    def warp_n(self) -> int:
        return self.tile_n // self.warps_n

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.stages * (self.tile_m + self.tile_n) * self.row


@dataclass(frozen=True)
class Way:
    """How an operand comes to shared memory.  ``along_k``: its tiles have k innermost, otherwise its other tiled axis.  ``copy``: the
    bytes of one asynchronous copy, 0 where it goes through registers; ``across``: there neighbouring threads load neighbours
    along the axis that is not the tile's innermost."""

    along_k: bool
    copy: int
    across: bool = False


def precision(kernel: func.FuncOp, c: Contraction) -> tuple[str, str] | None:
    """PTX's names of the factors' types: bf16, f16, tf32, f64, s8 or u8; None where the tensor core has no such product."""
    if (found := wgmma_schedule.precision(kernel, c)) is not None:
        return found, found
    types = [str(o.element) for o in (c.lhs, c.rhs)]
    if str(c.accumulator) == "f64" and types == ["f64", "f64"]:
        return "f64", "f64"
    signs = {"arith.extsi": "s8", "arith.extui": "u8"}
    if str(c.accumulator) == "i32" and types == ["i8", "i8"] and all(o.extend in signs for o in (c.lhs, c.rhs)):
        return signs[c.lhs.extend], signs[c.rhs.extend]
    return None


def ways(c: Contraction, axes: Axes) -> tuple[Way, Way]:
    """How both operands come to shared memory."""
    return _way(c.lhs, axes.m, axes), _way(c.rhs, axes.n, axes)


def _way(operand: Operand, rows: Axis, axes: Axes) -> Way:
    width, main = element_bytes(operand.element), main_read(operand)
    along_k = axes.k.stride(main) == 1 or rows.stride(main) != 1
    if width == 1 and not along_k:
        return Way(True, 0, True)  # there is no instruction that turns bytes
    inner, outer = (axes.k, rows) if along_k else (rows, axes.k)
    if inner.stride(main) != 1:
        return Way(along_k, 0, 0 < hint(outer.stride(main)) < hint(inner.stride(main)))
    strides = [main.offset, *(a.stride(main) for a in (outer, *axes.grid, *axes.steps))]
    if operand.prologue is None:
        for bytes_ in (16, 8, 4):
            if bytes_ >= width and all(is_multiple(s * width, bytes_) for s in strides):
                return Way(along_k, bytes_)
    return Way(along_k, 0)


def supported(c: Contraction) -> bool:
    """Whether all types and bodies are ones that the generator can inline, and offsets of 32 bits reach everything."""
    if not wgmma_schedule.supported(c) or any(not o.reads for o in (c.lhs, c.rhs)):
        return False
    reads = [*c.lhs.reads, *c.rhs.reads]
    if any(not supported_element(a.element) or reach(product(a.shape)) >= 2**31 for a in reads):
        return False
    bodies = [o.prologue.generic for o in (c.lhs, c.rhs) if o.prologue is not None]
    return all(supported_body(b) and not walk(b, "tensor.extract", "linalg.index") for b in bodies)


# Tiles from large to small, and the share of the tensor core's rate that their inner loop reaches.  Measured on an H200 at 4096^3
# (bf16, us): 128x128 of 4 warps 322, with lines of 128 bytes 316, of 8 warps 355; 128x256 328, 256x128 322, 128x64 400; the smaller
# ones are estimates.
_CANDIDATES = (
    (Mma(128, 256, 2, 4, 64, 4), 0.86),
    (Mma(256, 128, 4, 2, 64, 4), 0.875),
    (Mma(128, 128, 2, 2, 128, 3), 0.89),
    (Mma(128, 128, 2, 2, 64, 4), 0.88),
    (Mma(128, 128, 2, 4, 128, 3), 0.79),
    (Mma(128, 64, 2, 2, 64, 5), 0.70),
    (Mma(64, 128, 2, 2, 64, 5), 0.70),
    (Mma(64, 64, 2, 2, 128, 4), 0.65),
    (Mma(64, 32, 2, 2, 128, 5), 0.55),
    (Mma(32, 64, 2, 2, 128, 5), 0.55),
    (Mma(16, 128, 1, 4, 128, 5), 0.45),
    (Mma(16, 64, 1, 4, 128, 6), 0.35),
    (Mma(32, 32, 2, 2, 128, 6), 0.35),
)
# Sums of f64 take twice the registers, and lines of k are always 128 bytes.  Fitted, with the other constants of f64, to 54 times of 512^3, 1000^3 and
# 2048^3 in both layouts on an H200 (4% off in the mean; us: 512^3 in 32x32 9.0, 64x32 9.8, 64x64 15.4; 1000^3 in 64x32 52, 128x64 54, 64x64 67; 2048^3 in
# 128x64 319, 64x64 327; cuBLASLt 8.8, 42.8 and 295).
_DOUBLE = (
    (Mma(128, 128, 2, 4, 128, 3), 0.816),
    (Mma(128, 64, 2, 2, 128, 4), 0.812),
    (Mma(64, 128, 2, 2, 128, 4), 0.785),
    (Mma(64, 64, 2, 2, 128, 4), 0.76),
    (Mma(64, 32, 2, 2, 128, 5), 0.706),
    (Mma(32, 32, 2, 2, 128, 6), 0.743),
    (Mma(16, 64, 1, 4, 128, 6), 0.46),
)
_ROUNDING = 0.85  # of TF32's rate is left beside rounding the factors (H200: 186 TFLOP/s where bf16 has 434)
_SPLITS = (2, 4, 8, 16, 32)  # parts of the terms that are compared


def choose(kernel: func.FuncOp, target: Target) -> Mma | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction for these tensor cores, the target has no better ones that
    take it, and its tiles are not mostly empty: CUDA cores walk over all axes of m, n and k at once, however short each is."""
    c = parse_contraction(kernel) if target.capability >= 80 else None
    found = candidates(kernel, c, target) if c is not None else []
    if not found:
        return None
    best = fastest(found)[1]
    if _filled(best, c) < _LEAST:
        return None
    others = wgmma.candidates(kernel, c, target) if target.hopper else []
    return best if not others or is_faster(kernel, c, target, *min(others, key=lambda item: item[0])) else None


_THIN = 64  # rows


def is_faster(kernel: func.FuncOp, c: Contraction, target: Target, time: float, other: wgmma_schedule.Wgmma) -> bool:
    """Whether Hopper's own instructions, where ``other`` is best and takes ``time``, are slower than these: of few rows of TF32 by registers
    (16x4096x11008, `x @ w`: 44.4 us and 54.5; 9x5120x13824 67 and 77, 32x4096x11008 52.7 and 55.3, 48x4096x11008 68 and 56, as is estimated), and where
    they would have a factor copied first, whose lines the copy engine cannot read (on an H100 17x4096x4099, `x @ w`, 21.8 us, with a copy 36.4;
    8x12193x2910 45 and 81, 96 of 197x197x64 7.4 and 8.7; 512x4097x4096 119 and 56, as is estimated)."""
    if not (wgmma.copies(other, c) or (other.registers and hint(c.M) <= _THIN)):
        return False
    found = min(candidates(kernel, c, target), key=lambda item: item[0], default=None)
    return found is not None and found[0] < time and _filled(found[1], c) >= _LEAST


_LEAST = 1 / 32  # of a tile; one row of 16 is well worth reading the other operand at the memory's rate


def _filled(s: Mma, c: Contraction) -> float:
    """The share of the tiles' products that belongs to the contraction."""
    axes, depth = pick_axes(c), s.row // element_bytes(c.lhs.element)
    sizes = [(hint(a.size), tile) for a, tile in ((axes.m, s.tile_m), (axes.n, s.tile_n), (axes.k, depth))]
    return prod(size / (ceil(size / tile) * tile) for size, tile in sizes)


def takes(target: Target) -> bool:
    """Whether this generator is the one for its types where sizes vary."""
    return target.capability >= 80 and not target.hopper


def candidates(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint) -> list[tuple[float, Mma]]:
    """Schedules with their estimates in microseconds; none where ``c`` is not for these tensor cores."""
    kinds = precision(kernel, c)
    return list(_candidates(c, kinds, target, at)) if kinds is not None and not c.is_reduction and supported(c) else []


@kept_with
def _candidates(c: Contraction, kinds: tuple, target: Target, at: At) -> list[tuple[float, Mma]]:
    axes, found = pick_axes(c), []
    if axes is None:
        return []
    for s, share in _DOUBLE if kinds[0] == "f64" else _CANDIDATES:
        if s.shared > target.shared or registers(s, c, axes) > _most_registers(s) or not _readable(s, c, axes):
            continue
        depth = s.row // element_bytes(c.lhs.element)
        for split in (1, *_SPLITS):
            if split == 1 or _splits(split, s, axes, depth, target, at):
                s = replace(s, split=split)
                some = dict.fromkeys((s, _dealt_out(s, axes, target, at))) if kinds[0] == "f64" else (s,)
                found += [(estimate(x, share, kinds[0], c, axes, target, at), x) for x in some]
    return found


def _dealt_out(s: Mma, axes: Axes, target: Target, at: At) -> Mma:
    """``s`` with so many slots that no more blocks fit on a multiprocessor than its share: otherwise one of them gets another one, for which all wait
    (float64 on an H200, us: 1000^3 in 64x64 67, three of which fit, with a slot more 52, 256x4096x4096 242 and 180, 16 of 256x256x256 18.4 and 14.2; one
    block and not two, 777x1024x520, 33)."""
    mine = ceil(at(axes.tiles(s.tile_m, s.tile_n)) * s.split / target.multiprocessors)
    slots = target.shared // (mine + 1) // (s.shared // s.stages) + 1
    return replace(s, stages=slots) if mine > 1 and slots > s.stages and slots * (s.shared // s.stages) <= target.shared else s


def _readable(s: Mma, c: Contraction, axes: Axes) -> bool:
    """Whether the lines of tiles that are read element by element are 128 bytes: those of TF32 with k outermost."""
    narrow = (rows for way, rows in zip(ways(c, axes), (s.tile_m, s.tile_n)) if not way.along_k)
    return bit_width(c.lhs.element) != 32 or all(rows >= 32 for rows in narrow)


def _splits(split: int, s: Mma, axes: Axes, depth: int, target: Target, at: At) -> bool:
    """Whether each part has a few terms, of a number that is known, and the multiprocessors are not full without."""
    steps = axes.k_steps(depth)
    if not isinstance(steps, int) or not isinstance(axes.tiles(s.tile_m, s.tile_n), int):
        return False
    each = ceil(steps / split)
    return at(axes.tiles(s.tile_m, s.tile_n)) * split <= 2 * target.multiprocessors and each >= 4 and (split - 1) * each < steps


def _most_registers(s: Mma) -> int:
    return min(255, 65536 // s.threads) - 40  # what addresses and counters take


def registers(s: Mma, c: Contraction, axes: Axes) -> int:
    """Registers of a thread for sums, two sets of fragments (of f64 one), where copies come from and go to if rows end inside of a tile, and what is
    loaded of operands that do not come by copies."""
    wide = 2 if bit_width(c.accumulator) == 64 else 1
    count = s.warp_m * s.warp_n // 32 * wide + (s.warp_m + s.warp_n) // 16 * 8
    width = element_bytes(c.lhs.element)
    for operand, way, axis, rows in zip((c.lhs, c.rhs), ways(c, axes), (axes.m, axes.n), (s.tile_m, s.tile_n)):
        if not way.copy:
            each = rows * s.row // width / s.threads
            count += ceil(sum(each * max(1, bit_width(a.element) / 32) for a in operand.reads if hint(max(a.strides, key=hint)) > 0))
        elif not is_multiple(axis.size, rows):
            count += 2 * (rows * s.row // way.copy // s.threads)
    return count


@dataclass(frozen=True)
class Machine:
    """What a multiprocessor and a GPU can do: 16-bit multiply-adds with sums in float32 by mma.sync a clock, those of f64, the clock in
    MHz, bytes of memory a microsecond.  TF32 has half and bytes twice the rate of 16 bits."""

    half: int
    double: int
    clock: float
    memory: float


# From NVIDIA's data sheets: dense rates / (multiprocessors * clock * 2) of A100, A40, L40S, B200, RTX PRO 6000.  An H200's are fitted to
# what was measured: 434 TFLOP/s of bf16, which is 0.56 of what wgmma reaches, and 58 of f64.  That a B200 has twice the rate is a guess.
_MACHINES = {
    80: Machine(1024, 64, 1410, 2.0e6),
    86: Machine(512, 2, 1740, 0.7e6),
    89: Machine(512, 2, 2500, 0.86e6),
    90: Machine(1100, 150, 1700, 4.3e6),
    100: Machine(2048, 64, 1850, 7.5e6),
    120: Machine(512, 2, 2400, 1.7e6),
}
_SHARED_RATE, _L2_RATE = 128, 48  # bytes a clock and multiprocessor (the second an estimate: 64 at best)
_LATENCY = 900  # clocks from the start of a copy to its arrival (estimate)
_BARRIER = 60  # clocks of a step that no other warp fills where there is one block (estimate)
# Clocks of a row of a tile that is not full where there are further loops of the sum, as of a window's taps (groups of 24 channels in windows of 3x3,
# bf16, 32 images, on an H100: 14 groups of 14x14 63 us, 5 of 28x28 151, 2 of 56x56 172).
_SHORT_ROW = 11
# Clocks of an element that goes through registers, of its way there, and of a copy of 8 or 4 bytes, beside the products.  Fitted to times on an H100,
# in us, by registers: 512x4097x4096 119, 154x6025x13832 352, 17x4097x4096 28.7, 17x4096x4099, `x @ w`, 21.8, 96 of 197x197x64 7.4, bytes that are transposed
# 1024x2048x4096 51; by 8 bytes 512x4100x4096 62; by 4 8x4098x4096 12.2, TF32 1000x1001x1003 46.
_ELEMENT, _ALONE, _NARROW = 2 / 32, 1200, 6 / 32
_START = 1.5  # microseconds of a kernel that does next to nothing
# Of f64: latency, barrier, start, and a second kernel with the rate at which parts come and go.  Where more blocks fit on a multiprocessor than its share of
# them, some get one more: of two or more that adds this share of a tile's time, once so much of a round is filled; where no more fit, or one is the share,
# that (see ``_dealt_out``).
_LATENCY_F64, _BARRIER_F64, _START_F64, _SECOND_F64, _PARTS_RATE_F64 = 300, 124, 0.5, 1.0, 3.0e6
_ONE_MORE, _FILLED = {True: 0.85, False: 0.27}, 0.44
_SECOND, _PART = 2.0, 0.15  # microseconds that a second kernel adds, and each part (16x4096x4096 in 4 parts 18.5, in 8 20.0; 16x11008x4096 43.6, 45.7)
_STORE_RATE = 16  # bytes a clock and multiprocessor
_BY_ELEMENT = 0.8  # clocks of a result of 16 bits whose neighbour is no pair with it (16 terms of 5672x1111 took an H100 34.3 us, of which 7.8 were estimated)


def machine(target: Target) -> Machine:
    """The rates of a target; an unknown one's are those of the one below."""
    return _MACHINES[max(k for k in _MACHINES if k <= target.capability)]


def _written_alone(c: Contraction, axes: Axes) -> int:
    """How many results have 16 bits and are written element by element."""
    return sum(bit_width(d.access.element) == 16 and not paired(d.access, axes) for d in c.destinations)


def estimate(s: Mma, share: float, kind: str, c: Contraction, axes: Axes, target: Target, at: At = hint) -> float:
    """Microseconds: the fullest multiprocessor's steps at the rate of its tensor cores, of shared memory or of L2, or, where it has few
    blocks, at the copies' latency; no less than memory takes."""
    m, width = machine(target), element_bytes(c.lhs.element)
    rate = m.double if kind == "f64" else m.half * 2 / width * (_ROUNDING if kind == "tf32" else 1)
    depth = s.row // width
    steps = ceil(at(axes.k_steps(depth)) / s.split)
    tiles = at(axes.tiles(s.tile_m, s.tile_n))
    mine = ceil(tiles * s.split / target.multiprocessors)
    fits = max(1, min(target.shared // s.shared, 65536 // (s.threads * min(255, registers(s, c, axes) + 48))))
    filled = (s.tile_m + s.tile_n) * s.row
    loads = s.warps_m * s.warps_n * (s.warp_m + s.warp_n) * s.row
    multiply = s.tile_m * s.tile_n * depth / rate / share
    brought = list(zip(ways(c, axes), (s.tile_m, s.tile_n)))
    by_registers = sum(rows * depth for way, rows in brought if not way.copy)  # elements
    narrow = sum(rows * s.row / way.copy for way, rows in brought if 0 < way.copy < 16)  # copies
    short = (s.tile_m + s.tile_n) * _SHORT_ROW if axes.steps and at(axes.k.size) < depth else 0
    step = max(multiply + _ELEMENT * by_registers + _NARROW * narrow, (loads + filled) / _SHARED_RATE, filled / _L2_RATE, short)
    # What goes through registers is on its way for a part of one step, not for as many as there are slots.
    double = kind == "f64"
    latency, barrier = (_LATENCY_F64, _BARRIER_F64) if double else (_LATENCY, _BARRIER)
    alone = step + barrier + _ALONE if by_registers else max(step + barrier, latency / (s.stages - 1))
    rounds, share_of = ceil(mine / fits), tiles * s.split / target.multiprocessors / mine
    more = _ONE_MORE[fits > mine > 1] * max(0.0, (share_of - _FILLED) / (1 - _FILLED)) if double and fits >= mine else 0
    out = sum(element_bytes(d.access.element) for d in c.destinations)
    clocks = max((mine + more) * step, rounds * alone) * steps + (0 if by_registers else rounds * latency)
    clocks += mine * s.tile_m * s.tile_n * _written_alone(c, axes) * _BY_ELEMENT if s.split == 1 else 0
    clocks += s.tile_m * s.tile_n * (out if s.split == 1 else element_bytes(c.accumulator)) / _STORE_RATE * (1 + 0.3 * (mine - 1))
    time = clocks / m.clock
    if s.split > 1:
        second, rate = (_SECOND_F64, min(_PARTS_RATE_F64, m.memory)) if double else (_SECOND, m.memory)
        time += second + 2 * tiles * s.split * s.tile_m * s.tile_n * element_bytes(c.accumulator) / rate
    memory = moved_bytes(c, at) / m.memory
    return (_START_F64 if double else _START) + max(time, memory) + 0.2 * min(time, memory) + (_PART * s.split if s.split > 1 else 0)

"""The schedule of float32 contractions as six products of bf16 on Hopper's tensor cores.

Every number is the sum of three bf16 numbers (``codegen/matmul/splitting.py``); of the nine products of their parts the three smallest,
below 2^-24 of the largest, are left out.

The tensor core cuts off what does not fit into its sums: every sum is about ``CUT`` of itself too small, and what comes out of six products in a
row, as a gradient does, six times that.  So the rhs is split a little too large: its low parts have as much more.  Neighbours without low parts, of
16 bits or less, stay as they are, and sums of whole numbers exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, lcm
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import MEMORY_RATE, At, fastest, moved_bytes
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.matmul import simt
from inferno.schedule.matmul.contraction import Contraction, Operand, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Shared, precision, supported
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.tiling import Source, Tiling, shortest_part, tile_contraction
from inferno.symbolic import bounds, hint, is_multiple, product, reach
from inferno.target import Target, clusters_at_once

DEPTH = 32
"""Terms of a step: 128 bytes of float32."""
CUT = 4.2e-8
"""The share of a sum that is cut off: 4.4e-8 of random terms, 5.1e-8 of positive ones, 3.6e-8 where 16 are added and not 32 (a model of
the tensor core, see ``codegen/bf16x6``; less than half of float32's last bit, so that a sum that is exact without it is so with it)."""
_COMPENSATED = 32  # columns of a tile for which a consumer has registers for compensated sums
_IN_A_ROW = 64
"""Steps that a sum may add one after the other without being compensated: the error is 1.6e-7 then, where cuBLAS' is 1.3e-7 at best
(measured: 2.1e-7 of 128 steps; cuBLAS' for 9x4096x11008)."""
_CAREFUL = 1.05  # the time of compensated sums (measured: 1.02 to 1.07)


@dataclass(frozen=True)
class Bf16x6:
    """One thread copies float32 tiles to ``raw`` slots; ``groups`` of two warps split the rhs's into ``stages`` slots, every one
    each ``groups``-th step's.  ``consumers`` warpgroups split the lhs in registers and multiply, 64 rows of a tile of ``tile_m`` x
    ``tile_n`` each, so that one splits while another multiplies: they take turns, or where ``slices`` of them have the same
    rows, every one takes each ``slices``-th step and the first adds up.

    After every step the products are added to sums in float32 registers: the tensor core's own additions cut bits off.
    ``compensated``: what rounding takes from a sum is added with the next step (Kahan), so that errors do not grow with the steps.
    ``persistent`` blocks walk over tiles, down columns of ``group`` tiles.  ``buffers`` for results a consumer.
    ``split`` blocks, a cluster, share the terms of one tile and add up in the first one's registers.
    ``swapped``: the sides are exchanged, for few rows: the longer factor is split in registers, once.
    """

    generator: ClassVar[str] = "bf16x6"
    cluster: ClassVar[int] = 1
    chunks: ClassVar[int] = 1
    pingpong: ClassVar[bool] = False
    bring: ClassVar[int] = 0
    line: ClassVar[int] = 0
    by_threads: ClassVar[bool] = False
    kept: ClassVar[int] = 0
    spread: ClassVar[bool] = False
    sends: ClassVar[bool] = False
    across: ClassVar[bool] = False
    inside: ClassVar[bool] = False
    lhs_rows: ClassVar[int] = 0
    resident: ClassVar[int] = 1
    sharing: ClassVar[tuple[int, int]] = (1, 1)

    tile_m: int = 128
    tile_n: int = 128
    stages: int = 2
    raw: int = 4
    persistent: bool = True
    group: int = 8
    buffers: int = 2
    split: int = 1
    groups: int = 2
    slices: int = 1
    swapped: bool = False
    compensated: bool = False

    @property
    def fits_registers(self) -> bool:
        """Whether a consumer has registers for all the numbers of a result."""
        return self.tile_n <= _COMPENSATED or not self.compensated

    @property
    def helpers(self) -> int:
        """Warpgroups that do not multiply."""
        return 1 if self.groups == 1 else 2

    @property
    def consumers(self) -> int:
        return self.tile_m // 64 * self.slices

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.split

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + self.helpers)

    @property
    def staging(self) -> int:
        """Bytes of a consumer's buffers for results."""
        return self.buffers * 64 * ROW

    def shared(self, raw_bytes: int) -> Shared:
        """Three tiles of bf16 a slot, staging for results, ``raw`` slots of ``raw_bytes``, then barriers."""
        results = self.stages * 3 * self.tile_n * DEPTH * 2
        raw = results + self.consumers * self.staging
        barriers = raw + self.raw * raw_bytes
        return Shared(0, 0, results, raw, barriers, barriers + 16 * self.stages + 16 + 16 * self.raw)


# Schedules, and microseconds that a step of one block takes.  Measured on an H200, MxKxN: 512x512x512 and 512x1024x512 (64x32:
# 6.8 and 11.0 us), 512x1024x512 and 64x4096x4096 (64x64 in two parts: 10.8 and 29.7), 1024^3 (64x128: 24.3, 128x64: 23.8),
# 2048^3 (128x128: 151, with three groups 144), 1280^3 (48.4, 45.5).
CANDIDATES = (
    (Bf16x6(128, 128, 2, 4), 1.17),
    (Bf16x6(128, 128, 3, 3, groups=3, persistent=False), 1.13),
    (Bf16x6(128, 64, 4, 4), 0.645),
    (Bf16x6(64, 128, 4, 4, slices=2), 0.667),
    (Bf16x6(64, 64, 6, 6, groups=3, slices=2), 0.393),
    (Bf16x6(64, 32, 6, 12, groups=3, slices=2), 0.26),
)
SPLIT = tuple((replace(s, persistent=False, split=split), step) for s, step in CANDIDATES for split in (2, 4, 8))
# For few rows.  Measured on an H200: 16x4096x4096 (64x16 in two parts: 21.5 us, 64x32: 22.8) and 16x4096x11008 (128x16: 58.7, 64x16: 66).
_FEW = tuple(
    (replace(s, swapped=True, persistent=split == 1, split=split), step)
    for s, step in (
        (Bf16x6(128, 16, 4, 8), 0.44), (Bf16x6(64, 16, 6, 12, groups=3, slices=2), 0.26), (Bf16x6(64, 32, 6, 12, groups=3, slices=2), 0.30),
    )
    for split in (1, 2, 4)
)
_ROWS = max(s.tile_n for s, _ in _FEW)
"""So many rows are few.  With 64, tiles would be as large as they are otherwise, only exchanged."""


def tile(c: Contraction) -> Tiling | None:
    """How ``c`` is cut; None if it is not of float32, or the copy engine cannot bring its operands."""
    if any(str(x) != "f32" for x in (c.accumulator, c.lhs.element, c.rhs.element)):
        return None
    if any(reach(product(a.shape)) >= 2**31 for a in (*c.lhs.reads, *c.rhs.reads)):
        return None  # they are read with offsets of 32 bits where a sum is not finite
    for rewrite in (True, False):
        tiling = tile_contraction(c, 4, only_along_k=False, rewrite=rewrite, offset=True)
        if tiling is not None and (tiling.lhs.raw is None or bit_width(tiling.lhs.raw.element) == 32):
            return tiling
    return None


def sources(c: Contraction, tiling: Tiling) -> list[tuple[Operand, Source]]:
    """Both operands with the tensor whose tiles come to shared memory as ``raw``; of temporaries nothing is to be computed."""
    return [_raw(c.lhs, tiling.lhs), _raw(c.rhs, tiling.rhs)]


def _raw(operand: Operand, source: Source) -> tuple[Operand, Source]:
    if source.raw is not None:
        return operand, source
    if source.copied:
        element = operand.element
        operand = replace(operand, prologue=None, access=replace(operand.reads[0], argument=-1, element=element))
    return operand, replace(source, raw=operand.access, raw_along_k=source.along_k)


def raw_bytes(s: Bf16x6, c: Contraction, tiling: Tiling) -> tuple[int, int]:
    """Bytes of a raw slot's parts: tiles of the lhs and the rhs."""
    return tuple(
        rows * DEPTH * element_bytes(source.raw.element)
        for rows, (_, source) in zip((s.tile_m, s.tile_n), sources(c, tiling))
    )


def choose(kernel: func.FuncOp, target: Target) -> Bf16x6 | None:
    """The schedule with the lowest estimate if ``kernel`` is a float32 contraction of known sizes and CUDA cores would take longer."""
    c = parse_contraction(kernel) if target.hopper else None
    found = candidates(kernel, c, target) if c is not None and not c.varies else []
    if not found:
        return None
    time, best = fastest(found)
    other = simt.choose_with_estimate(c, target)
    return None if other is not None and other[0] <= time else best


def candidates(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Bf16x6]]:
    """Schedules with their estimates in microseconds; none where ``c`` is not of float32, or a product with a vector: its one
    row of 64 would be read as slowly, and CUDA cores add as exactly as eager.  Sizes that vary may be such at another call.
    ``most``: rows that there are at most, where that is less than what their number can be."""
    takes = target.hopper and precision(kernel, c) is None and supported(c) and min(at(c.M), at(c.N)) > simt.VECTOR
    return list(_candidates(c, target, at, most)) if takes else []


@kept_with
def _candidates(c: Contraction, target: Target, at: At, most: int | None) -> list[tuple[float, Bf16x6]]:
    found, rows = [], min(bounds(c.M)[1], most or inf)
    for swapped, schedules in ((False, CANDIDATES + SPLIT), (True, _FEW if rows <= _ROWS else ())):
        exchanged = oriented(c, swapped)
        tiling = tile(exchanged) if schedules else None
        if tiling is None:
            continue
        for s, step in schedules:
            if swapped and s.tile_n < rows:
                continue  # the long factor would be read again
            if c.varies and s.persistent and (s.tile_m, s.tile_n) == (64, 128):
                continue  # spills 324 bytes a thread beside what counts tiles
            s = fit(s, exchanged, tiling, target)
            if s is not None and (s.split == 1 or splits(s, tiling, target, at)):
                found.append((estimate(s, step, exchanged, tiling, target, at), s))
    return found


def fit(s: Bf16x6, c: Contraction, tiling: Tiling, target: Target) -> Bf16x6 | None:
    """``s`` with as many raw slots as shared memory holds; None if those are none, or a slice would have no step."""
    steps = tiling.k_steps(DEPTH)
    if s.split == 1 and bounds(steps)[0] < s.slices:
        s = replace(s, slices=1)
    s = replace(s, persistent=s.persistent and is_multiple(steps, lcm(s.groups, s.slices)))
    s = replace(s, compensated=s.tile_n <= _COMPENSATED and bounds(steps)[1] > s.split * s.slices * _IN_A_ROW)
    if s.tile_n == 128 and not sources(c, tiling)[0][1].raw_along_k:
        s = replace(s, groups=1)  # reading it number by number takes more registers than consumers have beside two helpers
    while s.raw > 0 and s.shared(sum(raw_bytes(s, c, tiling))).total > target.shared:
        s = replace(s, raw=s.raw - lcm(s.groups, s.slices))
    return s if s.raw > 0 and divides(s, tiling) else None


def divides(s: Bf16x6, tiling: Tiling) -> bool:
    """Whether also the last block of a cluster has a step for each slice, and each slot of a ring is always of one slice and
    of one group, also when a block goes on to its next tile.

    (The barriers of a slot tell only one round from the next: who waits at it must not leave out a round.)
    """
    steps, turns = tiling.k_steps(DEPTH), lcm(s.groups, s.slices)
    if s.stages % turns or s.raw % turns or (s.persistent and not is_multiple(steps, turns)):
        return False
    return shortest_part(steps, s.split) >= s.slices


def splits(s: Bf16x6, tiling: Tiling, target: Target, at: At) -> bool:
    """Whether all clusters run at once and every block has a few terms."""
    few = at(tiling.tiles(s.tile_m, s.tile_n)) <= clusters_at_once(s.split, target.multiprocessors)
    return few and ceil(at(tiling.k_steps(DEPTH)) / s.split) >= 4


# Microseconds besides the steps; bytes of sums a microsecond (fitted to the times above, the first to 512x512x512 6.3 us, 320x256x640 4.1, 640x320x640 6.4).
_START, _FINISH_RATE = 2.0, 5e4
# Microseconds of each round behind the first beside its steps: a tile's first terms are split before it multiplies (H200, in batches of 3072 32x32x64 47.3
# us, of 768 64x64x64 18.3 and 128x128x64 28.1, of 384 256x256x64 42, of 96 384x384x64 31).
_NEXT = 0.9
_LEAST = 1.5  # microseconds of the steps, however few: until the first is brought, split and multiplied (64x128x256 3.7 us in 64x32 and in 64x64)
# More with a cluster (256x512x256 in two parts of 64x32 5.0, 512^3 in 64x64 7.3, 640x320x640 in 128x64 7.8); bytes a microsecond that its first block reads
# of the others.
_CLUSTER, _EXCHANGE_RATE = 0.7, 4e4
_ALONE = 1.6  # a step's time where no second slice multiplies while the first one splits: sums of a varying length (not measured)


def estimate(s: Bf16x6, step: float, c: Contraction, tiling: Tiling, target: Target, at: At = hint, more: Sequence[Access] = ()) -> float:
    """Microseconds: rounds of tiles, each so many steps; no less than memory takes for the contraction's tensors and ``more``; and temporaries."""
    rounds = ceil(at(tiling.tiles(s.tile_m, s.tile_n)) * s.split / target.multiprocessors)
    slower = 1.15 if s.groups == 1 and s.generator == "bf16x6" else 1
    if s.slices == 1 and s.tile_m == 64 and c.varies:
        slower *= _ALONE
    slower *= _CAREFUL if s.compensated else 1
    sums = s.tile_m * s.tile_n * 4
    time = _START + max(_LEAST, rounds * ceil(at(tiling.k_steps(DEPTH)) / s.split) * step * slower) + rounds * sums / _FINISH_RATE
    time += _NEXT * (rounds - 1)
    time += _CLUSTER + (s.split - 1) * sums / _EXCHANGE_RATE if s.split > 1 else 0
    memory = moved_bytes(c, at, tuple(more)) / MEMORY_RATE
    copies = sum(2 + 8 * at(product(o.shape)) / MEMORY_RATE for o in (tiling.lhs, tiling.rhs) if o.copied)
    return max(time, memory) + copies


def has_room(s: Bf16x6, layout: Shared, target: Target) -> bool:
    """Whether shared memory has room for the ``layout``, and in it for what is added up: the second slice's sums lie where results are staged, those of other
    blocks in what is in front of it, or of the barriers."""
    slices = 64 * s.tile_n * 4 if s.slices > 1 else 0
    others = s.tile_m * s.tile_n * 4 if s.split > 1 else 0
    room = layout.results if s.slices > 1 else layout.barriers
    return layout.total <= target.shared and slices <= layout.raw - layout.results and others <= room

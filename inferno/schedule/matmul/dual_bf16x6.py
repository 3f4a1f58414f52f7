"""The schedule of two float32 contractions that share an operand and meet elementwise: one kernel of six products of bf16 each.

As ``dual`` is to ``wgmma`` this is to ``bf16x6``: one contraction with twice the columns, of which a tile is half of the one factor and half of
the other.  What the kernel saves beside a launch is to read and split the shared operand twice, and to write and read the one's sums.
"""

from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.matmul import bf16x6, simt
from inferno.schedule.matmul.bf16x6 import Bf16x6, estimate, fit, sources, splits
from inferno.schedule.matmul.dual import DualTiling, Pair, parse_pair
from inferno.schedule.matmul.wgmma_schedule import precision, supported
from inferno.target import Target


@dataclass(frozen=True)
class DualBf16x6(Bf16x6):
    """As ``Bf16x6``, for a tile of ``tile_m`` x ``tile_n`` results: a raw slot holds ``tile_n`` rows of either rhs, one behind the other."""

    generator: ClassVar[str] = "dual_bf16x6"

    @property
    def wide(self) -> Bf16x6:
        """The schedule of the one contraction that both are."""
        return Bf16x6(**{**asdict(self), "tile_n": 2 * self.tile_n})


def tile(kernel: func.FuncOp, pair: Pair) -> DualTiling | None:
    """How both are cut; None where they are not of float32 and known sizes, or a rhs does not come to shared memory as it is, term by term."""
    c, second = pair.contraction, pair.second
    both = c, replace(c, rhs=second)
    if c.varies or precision(kernel, c) is not None or c.rhs.prologue is not None or second.prologue is not None or not all(map(supported, both)):
        return None
    tilings = [bf16x6.tile(x) for x in both]
    if None in tilings or replace(tilings[1], rhs=tilings[0].rhs) != tilings[0]:
        return None
    first, other = (sources(x, t)[1][1] for x, t in zip(both, tilings))
    if any(x.copied or not x.raw_along_k for x in (first, other)) or first.axes != other.axes:
        return None
    return DualTiling(tilings[0], other)


def choose(kernel: func.FuncOp, target: Target) -> DualBf16x6 | None:
    """The schedule with the lowest estimate if ``kernel`` is such a pair, else None."""
    pair = parse_pair(kernel) if target.hopper else None
    found = candidates(kernel, pair, target) if pair is not None else []
    return fastest(found)[1]


def candidates(kernel: func.FuncOp, pair: Pair, target: Target) -> list[tuple[float, DualBf16x6]]:
    """Schedules with their estimates in microseconds; none where there are few rows: as for ``bf16x6``, those are left to CUDA cores."""
    c = pair.contraction
    tiles = tile(kernel, pair) if target.hopper and isinstance(c.M, int) and c.M > simt.VECTOR else None
    if tiles is None:
        return []
    found = []
    for s, step in (*bf16x6.CANDIDATES, *bf16x6.SPLIT):
        s = fit(s, c, tiles.wide, target)
        if s is not None and s.tile_n >= 32 and (s.split == 1 or splits(s, tiles.wide, target, int)):
            found.append((estimate(s, step, c, tiles.wide, target, more=pair.second.reads), narrow(s)))
    return found


def narrow(s: Bf16x6) -> DualBf16x6:
    """The schedule of both contractions that ``s`` of the one with all columns is."""
    return DualBf16x6(**{**asdict(s), "tile_n": s.tile_n // 2})


def divides(s: DualBf16x6, tiles: DualTiling) -> bool:
    """Whether the steps divide among slots and slices, and a consumer has registers for both sums."""
    return bf16x6.divides(s, tiles.tiling) and s.wide.fits_registers and not s.swapped and s.tile_n % 16 == 0


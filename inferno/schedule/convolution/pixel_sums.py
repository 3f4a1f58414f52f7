"""The schedule of gradients of convolutions' weights on Hopper's tensor cores: contractions over the pixels of all images, of the result's gradient and the
matrix of windows (im2col), which the copy engine brings a tap's channels and some pixels at a time.

Both operands have the pixels outermost, which the tensor core takes of 16 bits.  There are many pixels and few results, so the blocks of a cluster
share a tile's pixels (``split``).
"""

from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma import candidates
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.shared_tiles import panel
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target


@dataclass(frozen=True)
class PixelSums(Wgmma):
    """As ``Wgmma``; the sides stay where they are, and the rhs is of each block alone."""

    generator: ClassVar[str] = "pixel_sums"
    pads: ClassVar[bool] = True  # what lies outside of the image is zeros


def choose(kernel: func.FuncOp, target: Target) -> PixelSums | None:
    """The schedule with the lowest estimate if ``kernel`` is a sum over the pixels of images, which 16-bit tensor cores compute."""
    c = parse_summed(kernel, target)
    found = at_size(kernel, c, target) if c is not None else []
    return fastest(found)[1]


def at_size(kernel: func.FuncOp, c: Contraction, target: Target) -> list[tuple[float, PixelSums]]:
    """Schedules with their estimates in microseconds; panels are narrower where a tap's channels ask for it."""
    found = []
    for time, s in candidates(kernel, c, target):
        made = next((m for m in (s, replace(s, panel=32)) if fits(m, c)), None)
        if made is not None:
            found.append((time, PixelSums(**asdict(made))))
    return found


def parse_summed(kernel: func.FuncOp, target: Target) -> Contraction | None:
    """What ``kernel`` computes, if that is a contraction over the pixels of images, read through windows, the rhs; of sizes that are known."""
    c = parse_contraction(kernel, unfolded=True) if target.hopper else None
    if c is None or c.varies or c.rhs.unfolded is None or not c.rhs.unfolded.summed:
        return None
    return c


def fits(s: Wgmma, c: Contraction) -> bool:
    """Whether each box of the rhs is of one tap, and ``s`` shares none between blocks."""
    tiling = tile_contraction(c, 2, only_along_k=False, rewrite=s.rewrite)
    if tiling is None or tiling.rhs.along_k or s.swapped or s.cluster > 1 or s.stream:
        return False
    channels, each = c.rhs.unfolded.shape[-1], panel(s.tile_n, False, s.panel)
    return tiling.n.size <= channels or channels % each == s.tile_n % each == 0

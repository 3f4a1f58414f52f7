"""The schedule of products of groups of rows, each with a matrix of its own, on Hopper's tensor cores: the experts of a mixture.

The kernel's form is in ``selected_products``.  How many rows a group has is known on the device alone: a kernel in front lists the groups' tiles, and blocks
walk over the list.
"""

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, fastest
from inferno.schedule.matmul.dual import Dual, DualTiling, Pair, divides, takes, tile_pair
from inferno.schedule.matmul.selected_products import SelectedProduct, parse_selected
from inferno.schedule.matmul.wgmma_schedule import Wgmma, fit, precision, supported
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.target import Target

MOST_ROWS = 1 << 14  # that one block lists
# Tiles with the columns of both chunks, and the share of the tensor core's rate that their inner loop reaches, as of other products.
CANDIDATES = (
    (Wgmma(128, 256, 4, 2), 0.96), (Wgmma(128, 192, 4, 2), 0.96), (Wgmma(128, 128, 6, 2), 0.95), (Wgmma(128, 64, 8, 2), 0.8),
    (Wgmma(64, 256, 5, 1), 0.85), (Wgmma(64, 192, 6, 1), 0.85), (Wgmma(64, 128, 8, 1), 0.82), (Wgmma(64, 64, 12, 1), 0.65),
)
# Microseconds of both kernels, clocks of a tile's list entry and of a copy's way, bytes a clock that a multiprocessor gets from L2 (estimates, and as of
# other products); the share of memory's time that it takes longer where multiprocessors read nothing, and of the shorter one of both that is not hidden.
_START, _ENTRY, _LATENCY, _COPY_RATE, _IDLE, _BOTH = 5.0, 1500, 1200, 70, 0.6, 0.2
# Bytes of all rows, of more than which L2 has none for the next column of tiles (see ``library_grouped``).
_KEPT, _LEAST = 32e6, 8  # and tiles that run together at least


@dataclass(frozen=True)
class Grouped(Wgmma):
    """As ``Wgmma``; of two chunks a tile has ``tile_n`` columns of each, as in ``Dual``.  ``group``: how many of the list run together, 0 for all."""

    generator: ClassVar[str] = "grouped"


def read(kernel: func.FuncOp, target: Target) -> SelectedProduct | None:
    """What ``kernel`` computes if that is of this form, and for Hopper's tensor cores."""
    p = parse_selected(kernel) if target.hopper else None
    if p is None or p.sizes[1] > MOST_ROWS or precision(kernel, p.contraction) not in ("bf16", "f16"):
        return None
    if p.second is not None:
        return p if takes(kernel, Pair(p.contraction, p.second)) else None
    return p if supported(p.contraction) else None


def tile(p: SelectedProduct) -> DualTiling | Tiling | None:
    """The tiling; None where an operand does not come to shared memory as it is."""
    if p.second is not None:
        found = tile_pair(Pair(p.contraction, p.second), True)
        return found if found is not None and _fits(p, found.tiling) else None
    found = tile_contraction(p.contraction, element_bytes(p.contraction.lhs.element), only_along_k=False, offset=True)
    return found if found is not None and _fits(p, found) else None


def _fits(p: SelectedProduct, t: Tiling) -> bool:
    """Whether tiles are of one matrix, and operands come to shared memory as they are."""
    of_one = len(t.grid) == 1 and tuple(a.dims for a in (*t.grid, t.m, t.n)) == tuple((d,) for d in p.loops)
    return of_one and not any(s.copied or s.raw is not None for s in (t.lhs, t.rhs))


def choose(kernel: func.FuncOp, target: Target) -> Grouped | None:
    """The schedule with the lowest estimate if ``kernel`` is of this form, else None."""
    p = read(kernel, target)
    found = candidates(p, target, takes_unmeasured(kernel.operation)) if p is not None else []
    return fastest(found)[1]


def candidates(p: SelectedProduct, target: Target, unmeasured: bool = False) -> list[tuple[float, Grouped]]:
    """Schedules with their estimates in microseconds; of rows that L2 does not keep those of ``unmeasured`` go over some at a time."""
    tiles, found = tile(p), []
    if tiles is None:
        return []
    wide = tiles.wide if p.second is not None else tiles
    line = p.contraction.K * element_bytes(p.contraction.lhs.element)
    for s, share in CANDIDATES:
        s = fit(s, p.contraction, wide, target)
        if s is None:
            continue
        group = max(_LEAST, int(_KEPT / 4 / (s.tile_m * line))) if unmeasured and p.sizes[1] * line > _KEPT else 0
        s = replace(s, group=group)
        made = Grouped(**{**asdict(s), "tile_n": s.tile_n // (1 if p.second is None else 2)})
        if p.second is None or divides(Dual(**asdict(made)), wide):
            found.append((_estimate(s, share, p, wide, target), made))
    return found


def _estimate(s: Wgmma, share: float, p: SelectedProduct, wide: Tiling, target: Target) -> float:
    """Microseconds, where all matrices have rows, as many each: the longer one of what memory takes and of rounds of tiles."""
    c, (every, rows, columns) = p.contraction, p.sizes
    groups, width = min(every, rows), element_bytes(c.lhs.element)
    parts = max(groups, rows / s.tile_m + groups / 2)
    tiles = parts * ceil(wide.n.size / s.tile_n)
    rounds = ceil(tiles / target.multiprocessors)
    step = max(s.tile_m * s.tile_n * 4 / 128 / share, (s.tile_m + s.tile_n) * s.row / _COPY_RATE, _LATENCY / (s.stages - 1))
    clocks = rounds * (wide.k_steps(s.row // width) * step + _ENTRY)
    again = ceil(wide.n.size / s.tile_n) if rows * c.K * width > _KEPT and not s.group else 1
    matrices = groups + (ceil(parts / s.group) - 1 if s.group else 0)  # of a group that is cut
    moved = matrices * c.K * wide.n.size * width + rows * (again * c.K * width + columns * sum(element_bytes(d.access.element) for d in c.destinations))
    memory = moved / MEMORY_RATE * (1 + _IDLE * (1 - tiles / (rounds * target.multiprocessors)))
    return _START + max(clocks / CLOCK, memory) + _BOTH * min(clocks / CLOCK, memory)

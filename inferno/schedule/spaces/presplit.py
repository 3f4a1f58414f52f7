"""Everything that the generator for float32 as products of bf16 takes where the rhs is split in front: tiles, slices, rings and parts."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.analysis.kept_operands import PARTS, kept
from inferno.schedule.matmul import simt
from inferno.schedule.matmul.bf16x6 import divides, has_room, splits
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.presplit import MOST_COLUMNS, Presplit, can_be_split, candidates, estimate, fit, raw_bytes, splitting_time, step_time, tile
from inferno.schedule.matmul.wgmma_schedule import precision, supported
from inferno.schedule.tiles.tiling import Tiling
from inferno.symbolic import hint
from inferno.target import Target

_COLUMNS = range(32, MOST_COLUMNS + 1, 16)


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Presplit]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    c = parse_contraction(kernel) if target.hopper else None
    tiling = _tile(kernel, c) if c is not None and not c.varies else None
    if tiling is None:
        return
    yield from candidates(kernel, c, target)
    ahead = 0.0 if kept(kernel, PARTS) else splitting_time(tiling)
    for (m, slices), n, split, buffers, group in itertools.product(((128, 1), (64, 2), (64, 1)), _COLUMNS, (1, 2, 4), (2, 1), (8, 4, 16)):
        several = split == 1 and tiling.tiles(m, n) > target.multiprocessors
        first = Presplit(m, n, 8, 8, split == 1, group, buffers, split, 1, slices)
        made = fit(first, c, tiling, target) if several or group == 8 else None
        if made is None or made.slices != slices or (split > 1 and not splits(made, tiling, target, hint)):
            continue
        for raw in dict.fromkeys((made.raw, max(2, made.raw // 2))):
            if _works(ready := replace(made, raw=raw), c, tiling, target):
                yield ahead + estimate(ready, step_time(ready), c, tiling, target), ready


def valid(kernel: func.FuncOp, schedule: Presplit, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_contraction(kernel) if target.hopper else None
    tiling = _tile(kernel, c) if c is not None and not c.varies else None
    return tiling is not None and _works(schedule, c, tiling, target)


def _tile(kernel: func.FuncOp, c: Contraction) -> Tiling | None:
    if precision(kernel, c) is not None or not supported(c) or c.is_reduction or min(c.M, c.N) <= simt.VECTOR:
        return None
    tiling = tile(c)
    return tiling if tiling is not None and (kept(kernel, PARTS) or can_be_split(c, tiling)) else None


def _works(s: Presplit, c: Contraction, tiling: Tiling, target: Target) -> bool:
    """Whether the generator's rules hold: registers, shared memory, and how rings and parts divide."""
    if (s.tile_m, s.slices) not in ((128, 1), (64, 2), (64, 1)) or s.tile_n not in _COLUMNS or s.groups != 1 or s.swapped or s.compensated:
        return False
    if s.tile_m == 64 and s.tile_n > 128:
        return False  # registers
    if min(s.stages, s.raw, s.buffers, s.group) < 1 or s.split not in (1, 2, 4, 8) or (s.split > 1 and s.persistent) or not divides(s, tiling):
        return False
    return has_room(s, s.shared(sum(raw_bytes(s, c, tiling))), target)

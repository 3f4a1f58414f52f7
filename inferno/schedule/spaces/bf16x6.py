"""Everything that the generator for float32 as products of bf16 takes: tiles, slices, groups of helpers, rings and parts."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.matmul import simt
from inferno.schedule.matmul.bf16x6 import (
    Bf16x6, CANDIDATES, candidates, divides, estimate, fit, has_room, raw_bytes, sources, splits, tile,
)
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import precision, supported
from inferno.schedule.tiles.tiling import Tiling
from inferno.symbolic import hint
from inferno.target import Target

# Microseconds of a step by (rows, columns, slices): measured for the candidates, guessed for the others.
_STEPS = {
    **{(s.tile_m, s.tile_n, s.slices): step for s, step in CANDIDATES},
    (128, 32, 1): 0.45, (64, 128, 1): 1.0, (64, 64, 1): 0.6, (64, 32, 1): 0.4,
}
_RAW = 12  # at most so many raw slots: more are as good as copies that are always there


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Bf16x6]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    c = parse_contraction(kernel) if target.hopper else None
    tiling = _tile(kernel, c) if c is not None and not c.varies else None
    if tiling is None:
        return
    yield from candidates(kernel, c, target)
    for (m, n, slices), groups, stages, split, buffers, group in itertools.product(_STEPS, (2, 3, 1), (2, 4, 6, 3), (1, 2, 4, 8), (2, 1), (8, 4, 16)):
        several = split == 1 and tiling.tiles(m, n) > target.multiprocessors
        s = Bf16x6(m, n, stages, _RAW, split == 1, group, buffers, split, groups, slices)
        made = fit(s, c, tiling, target) if several or group == 8 else None
        if made is None or (made.groups, made.slices) != (groups, slices) or (split > 1 and not splits(made, tiling, target, hint)):
            continue
        for raw in dict.fromkeys((made.raw, made.raw // 2)):
            if _works(ready := replace(made, raw=raw), c, tiling, target):
                yield estimate(ready, _STEPS[m, n, slices], c, tiling, target), ready


def valid(kernel: func.FuncOp, schedule: Bf16x6, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_contraction(kernel) if target.hopper else None
    tiling = _tile(kernel, c) if c is not None and not c.varies else None
    if tiling is not None and (schedule.swapped or schedule.tile_n < 32):  # one for few rows
        return any(s == schedule for _, s in candidates(kernel, c, target))
    return tiling is not None and _works(schedule, c, tiling, target)


def _tile(kernel: func.FuncOp, c: Contraction) -> Tiling | None:
    """Products with vectors are left to CUDA cores, as ``candidates`` leaves them."""
    if precision(kernel, c) is not None or not supported(c) or c.is_reduction or min(c.M, c.N) <= simt.VECTOR:
        return None
    return tile(c)


def _works(s: Bf16x6, c: Contraction, tiling: Tiling, target: Target) -> bool:
    """Whether the generator's rules hold: registers, shared memory, and how rings and parts divide."""
    if (s.tile_m, s.tile_n, s.slices) not in _STEPS or s.groups not in (1, 2, 3) or s.split not in (1, 2, 4, 8) or (s.split > 1 and s.persistent):
        return False
    if min(s.stages, s.raw, s.buffers, s.group) < 1 or not divides(s, tiling) or not s.fits_registers:
        return False
    if s.tile_n == 128 and s.groups > 1 and not sources(c, tiling)[0][1].raw_along_k:
        return False  # registers
    return has_room(s, s.shared(sum(raw_bytes(s, c, tiling))), target)

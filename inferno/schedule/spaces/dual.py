"""Everything that the generator for two contractions of one operand takes: what there is for the one contraction with the columns of both."""

from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.matmul.dual import Dual, DualTiling, Pair, candidates, divides, narrow, parse_pair, takes, tile_pair
from inferno.schedule.matmul.wgmma_cost import estimate
from inferno.schedule.spaces.wgmma import forms, is_regular, works
from inferno.symbolic import hint
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Dual]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    pair = parse_pair(kernel) if target.hopper else None
    if pair is None or pair.contraction.varies or not takes(kernel, pair):
        return
    yield from candidates(kernel, pair, target)
    for rewrite in (True, False):
        tiles = _tile(pair, rewrite)
        if tiles is not None:
            for share, s in forms(pair.contraction, tiles.wide, rewrite, target):
                if s.tile_n % 2 == 0 and divides(narrow(s), tiles.tiling):
                    yield estimate(s, share, pair.contraction, tiles.wide, target, hint, pair.second), narrow(s)


def valid(kernel: func.FuncOp, schedule: Dual, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    pair = parse_pair(kernel) if target.hopper else None
    if pair is None or pair.contraction.varies or not takes(kernel, pair):
        return False
    if not is_regular(schedule.wide):
        return any(s == schedule for _, s in candidates(kernel, pair, target))
    tiles = _tile(pair, schedule.rewrite)
    return tiles is not None and works(schedule.wide, pair.contraction, tiles.wide, target) and divides(schedule, tiles.tiling)


def _tile(pair: Pair, rewrite: bool) -> DualTiling | None:
    tiles = tile_pair(pair, rewrite)
    return tiles if tiles is not None and (rewrite or tiles.tiling.lhs.copied) else None

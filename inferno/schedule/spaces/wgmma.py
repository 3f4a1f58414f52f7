"""Everything that the generator for Hopper's tensor cores takes: other tiles, ping-pong, clusters, parts, runs of steps, orders and numbers of
slots."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.shared_terms import FORMS
from inferno.schedule.matmul.short_sums import fits_ends, with_few_terms
from inferno.schedule.matmul.wgmma import CANDIDATES, candidates, slots_to_bring
from inferno.schedule.matmul.wgmma_cost import estimate
from inferno.schedule.matmul.wgmma_schedule import Wgmma, fit, has_parts, lies_inside, precision, raw_bytes, splits, streams, supported, takes_shares
from inferno.schedule.tiles.shared_tiles import height, shares
from inferno.schedule.tiles.tiling import Tiling, shortest_part, tile_contraction
from inferno.settings import settings
from inferno.symbolic import hint
from inferno.target import Target

# The share of the tensor core's rate by (consumers, rows of one, columns): measured for the candidates, guessed for the others.
_SHARES = {
    **{(s.consumers, s.rows, s.tile_n): share for s, share in CANDIDATES},
    (2, 128, 64): 0.93, (2, 128, 32): 0.75, (2, 64, 32): 0.7, (1, 64, 256): 0.9, (1, 128, 128): 0.9, (1, 128, 64): 0.8,
    (1, 128, 32): 0.6,
}
_COLUMNS = {n for _, _, n in _SHARES}
_FORMS = (
    Wgmma(), Wgmma(pingpong=True), Wgmma(cluster=2), Wgmma(pingpong=True, cluster=2), Wgmma(cluster=4),
    Wgmma(cluster=2, across=True), Wgmma(cluster=4, across=True), Wgmma(stream=True),
    *(Wgmma(persistent=False, split=split) for split in (2, 4, 8)), *FORMS,
    *(Wgmma(persistent=False, split=split, spread=True, sends=sends) for split, sends in itertools.product(range(2, 9), (False, True))),
)


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Wgmma]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    c = parse_contraction(kernel) if target.hopper else None
    if c is not None and not c.varies:
        yield from space_of(kernel, c, target)


def space_of(kernel: func.FuncOp, c: Contraction, target: Target) -> Iterator[tuple[float, Wgmma]]:
    """As ``space``, of what the kernel computes."""
    yield from candidates(kernel, c, target)
    for rewrite in (True, False):
        tiling = _tile(kernel, c, rewrite)
        if tiling is not None:
            yield from ((estimate(s, share, c, tiling, target), s) for share, s in forms(c, tiling, rewrite, target))


def forms(c: Contraction, tiling: Tiling, rewrite: bool, target: Target) -> Iterator[tuple[float, Wgmma]]:
    """All schedules of regular tiles, each with the share of the tensor core's rate that they reach."""
    for ((consumers, rows, n), share), form in itertools.product(_SHARES.items(), _FORMS):
        m = rows if form.pingpong else rows * consumers
        first = replace(form, tile_m=m, tile_n=n, stages=12, consumers=consumers, rewrite=rewrite)
        first = with_few_terms(replace(first, inside=lies_inside(first, c, tiling)), c, tiling)
        if form.split == 1 or splits(first, tiling, element_bytes(c.lhs.element), target, hint):
            yield from ((share, s) for s in _variants(first, c, tiling, target))


def _variants(first: Wgmma, c: Contraction, tiling: Tiling, target: Target) -> Iterator[Wgmma]:
    """Orders of the tiles, where there are several rounds of them, and numbers of slots."""
    several = first.split == 1 and tiling.tiles(first.tile_m, first.tile_n) > target.multiprocessors
    for group, buffers, raw in itertools.product((8, 4, 16) if several else (8,), (2, 1), (2, 3) if _rewritten(tiling) else (2,)):
        s = fit(replace(first, group=group, buffers=buffers, raw=raw), c, tiling, target)
        for stages in dict.fromkeys((s.stages, max(2, s.stages // 2)) if s is not None else ()):
            if works(made := replace(s, stages=stages), c, tiling, target):
                yield made
                for bring in slots_to_bring(made, c, tiling) if settings().unmeasured else ():
                    if (more := fit(replace(made, bring=bring), c, tiling, target)) is not None and works(more, c, tiling, target):
                        yield more


def valid(kernel: func.FuncOp, schedule: Wgmma, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_contraction(kernel) if target.hopper else None
    return c is not None and not c.varies and valid_for(kernel, c, schedule, target)


def valid_for(kernel: func.FuncOp, c: Contraction, schedule: Wgmma, target: Target) -> bool:
    """As ``valid``, of what the kernel computes."""
    tiling = _tile(kernel, c, schedule.rewrite)
    if tiling is None:
        return False
    regular = is_regular(schedule) and works(schedule, c, tiling, target)
    return regular or any(s == schedule for _, s in candidates(kernel, c, target))


def is_regular(s: Wgmma) -> bool:
    """Whether it is not one for few rows or with the sides exchanged, whose tiles are cut to measure, or with two blocks a multiprocessor."""
    return not (s.lhs_rows or s.swapped or s.registers or s.resident > 1) and s.chunks == 1 and s.tile_n in _COLUMNS


def _tile(kernel: func.FuncOp, c: Contraction, rewrite: bool) -> Tiling | None:
    if precision(kernel, c) is None or not supported(c) or c.is_reduction:
        return None
    width = element_bytes(c.lhs.element)
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=rewrite, offset=True)
    # Without rewriting there is something that is done otherwise, or it is the same schedule again.
    return tiling if tiling is not None and (rewrite or tiling.lhs.copied or tiling.rhs.copied) else None


def _rewritten(tiling: Tiling) -> bool:
    return tiling.lhs.raw is not None or tiling.rhs.raw is not None


def _deals(s: Wgmma, c: Contraction, tiling: Tiling, target: Target) -> bool:
    if s.parts:
        return has_parts(s, tiling, element_bytes(c.lhs.element), target)
    return s.stream and s.lead == 0 and streams(s, tiling, target)


def works(s: Wgmma, c: Contraction, tiling: Tiling, target: Target) -> bool:
    """Whether the generator's rules hold: registers, shared memory, and how tiles, clusters and parts divide."""
    depth = s.row // element_bytes(c.lhs.element)
    if (s.consumers, s.rows, s.tile_n) not in _SHARES or s.tile_m != s.rows * (1 if s.pingpong else s.consumers):
        return False
    shared = s.shared(sum(raw_bytes(s, tiling, depth)), height(s.tile_n, tiling.rhs.along_k, s.panel)).total
    if s.stages < 2 or min(s.buffers, s.raw, s.group, s.cluster, s.split) < 1 or shared > target.shared or s.resident != 1:
        return False
    if s.inside and not lies_inside(s, c, tiling):
        return False
    if (s.line or s.by_threads or s.kept) and not fits_ends(s, c, tiling, tiling.k_steps(depth)):
        return False
    if s.bring and s.bring not in slots_to_bring(s, c, tiling):
        return False
    if (s.stream or s.parts or s.lead) and (s.pingpong or s.split > 1 or not s.persistent or not _deals(s, c, tiling, target)):
        return False
    if (s.spread or s.sends) and not (s.spread and takes_shares(s)):
        return False
    if s.pingpong and (s.consumers != 2 or not s.persistent or s.split > 1):
        return False
    if s.split > 1:
        # The other blocks' sums lie in the slots.
        if s.split > 8 or s.cluster > 1 or s.persistent or (not s.sends and s.tile_m * s.tile_n * 4 > s.stages * (s.tile_m + s.tile_n) * s.row):
            return False
        return shortest_part(tiling.k_steps(depth), s.split) > 0 and shares(s, tiling)
    return shares(s, tiling)

"""The schedules of attention that are compared."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from inferno.schedule.analysis.cost import At
from inferno.schedule.attention.cost import blocks_seen
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.masks import brought_masks, widths
from inferno.schedule.attention.resources import fits, held
from inferno.schedule.attention.schedule import FEW_ROWS, Attention, pieces_of
from inferno.schedule.attention.splitting_producer import can_cut
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.schedule.attention.warps import by_warps
from inferno.symbolic import hint
from inferno.target import Target, clusters_at_once

_ROOMY = 185  # numbers of a thread beyond which ptxas has too little room to overlap (4x32x4096x128 in blocks of 176 keys: 1804 us)
# Columns of keys and values from which on tiles of different lengths are begun as there is room for them, not by the counter (2x16x4096x256,
# causal: 395 and 456 us).
_WIDE = 256


def candidates(a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At = hint) -> list[Attention]:
    """Schedules that may be the best; where sizes vary, ``at`` says which ones."""
    found, pieces = [], pieces_of(a)
    masks = widths(brought_masks(a, tiling))
    cuts = (False, True) if pieces > 1 and can_cut(a) else (False,)
    for s in by_warps(a, tiling, target, at) if pieces > 1 else ():
        found += [s, *_shared_out(s, a, tiling, target, at)]
    for consumers, keys, brought, cut in itertools.product((2, 3, 1), range(192, 0, -16), dict.fromkeys(("", masks)), cuts):
        if consumers > ceil(at(tiling.queries.size) / 64):
            continue
        if keys < 64 < at(a.keys.size) and pieces == 1 and not a.pages and at(tiling.queries.size) <= FEW_ROWS:
            continue  # too little would be under way from memory: no fewer were timed
        if pieces == 1:
            forms = [
                Attention(consumers, keys, stages, "single", consumers > 1, apart=apart, masks=brought)
                for stages, apart in ((3 if consumers == 1 else 2, True), (2, True), (2, False))
            ]
        else:
            forms = [
                Attention(consumers, keys, stages, "single", False, False, apart, pieces=pieces, cut=cut)
                for stages, apart in ((2, True), (1, True), (2, False), (1, False))
            ]
        first = next((s for s in forms if fits(s, a, target)), None)
        if first is not None:
            found += [first, *_shared_out(first, a, tiling, target, at)]
        for stages in (2, 1):
            two = Attention(consumers, keys, stages, "single", False, False, pieces=pieces, cut=True, resident=2, masks=brought)
            if cut and fits(two, a, target):
                found += [two, *(s for s in _shared_out(two, a, tiling, target, at) if s.shares == 1)]
                break
    roomy = [s for s in found if held(s, a) <= _ROOMY or s.keys <= 64]
    return roomy or found


def _shared_out(s: Attention, a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At) -> Iterator[Attention]:
    """``s`` with more tiles than blocks, or with several blocks for a tile."""
    tiles = at(tiling.tiles(s))
    differ = a.blocks is not None or len(set(blocks_seen(s, a, at))) > 1
    if tiles > target.multiprocessors * s.resident and s.apart and (not differ or a.depth.size + a.width.size <= _WIDE):
        yield replace(s, order="dynamic" if differ and not s.cut else "static")
        if fits(even := replace(s, order="even"), a, target):
            yield even
    blocks = ceil(at(a.keys.size) / s.keys)
    for parts in range(1, 9):
        most = clusters_at_once(parts, target.multiprocessors) // tiles
        # As few clusters as give none more blocks of keys.
        wanted = {ceil(blocks / (parts * ceil(blocks / (parts * n)))) for n in (most, most * 3 // 4, most // 2, most // 4, 1) if 0 < n <= most}
        for splits in sorted(wanted):
            if parts * splits > 1 and fits(made := replace(s, parts=parts, splits=splits), a, target):
                yield made

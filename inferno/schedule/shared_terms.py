"""Schedules of ``wgmma`` for few tiles of many terms, where blocks that have other parts of the terms do not take those away that share a tile.

A cluster has both kinds of blocks (``cluster`` and ``split``), or all of one part, where the sums come through the workspace (``parts``): an H200 runs 30
clusters of four blocks at a time, 120 of its 132 multiprocessors, so that 32 tiles in four parts, or 64 that two blocks share in two, are one round of the
second kind alone.  In the first kind sums may also be sent to the block that adds them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from inferno.schedule.contraction import Contraction
from inferno.schedule.cost import bit_width
from inferno.schedule.shared_tiles import shares
from inferno.schedule.short_sums import with_few_terms
from inferno.schedule.tiling import tile_contraction
from inferno.schedule.wgmma_cost import estimate
from inferno.schedule.wgmma_schedule import FEW, Wgmma, fit, has_parts, splits, takes_shares
from inferno.symbolic import hint
from inferno.target import Target

_TOGETHER = ((1, False), (2, False), (2, True), (4, False), (4, True))  # blocks that share tiles, and whether those lie side by side
_LEAD = 8  # steps in which others' sums arrive, 4000 to 8000 clocks of tiles of 128x128 to 128x256 (an estimate)
FORMS = (
    *(Wgmma(cluster=n, across=across, split=split, spread=True, sends=sends, persistent=False)
      for (n, across), split, sends in itertools.product(_TOGETHER, range(2, 9), (True, False)) if n * split <= 8 and (n > 1 or sends)),
    *(Wgmma(cluster=n, across=across, parts=parts, lead=lead, stream=True)
      for (n, across), parts, lead in itertools.product(_TOGETHER, range(2, 7), (0, _LEAD))),
)


def sharing_terms(c: Contraction, target: Target, tiles: Sequence[tuple[Wgmma, float]]) -> Iterator[tuple[float, Wgmma]]:
    """Those with ``tiles``, of which each has its share of the tensor core's rate, and their estimates."""
    width = bit_width(c.lhs.element) // 8
    tiling = None if c.varies else tile_contraction(c, width, only_along_k=width == 4, offset=True)
    if tiling is None or tiling.m.size <= FEW or c.lhs.unfolded is not None or any(o.copied or o.raw is not None for o in (tiling.lhs, tiling.rhs)):
        return
    for (tile, share), form in itertools.product(tiles, FORMS):
        s = replace(form, tile_m=tile.tile_m, tile_n=tile.tile_n, stages=12, consumers=tile.consumers)
        dealt = has_parts(s, tiling, width, target) if s.parts else takes_shares(s) and splits(s, tiling, width, target, hint)
        if tile.consumers == 2 and dealt and shares(s, tiling) and (made := fit(with_few_terms(s, c, tiling), c, tiling, target)) is not None:
            yield estimate(made, share, c, tiling, target), made

"""Split-K schedules of ``wgmma``, for few tiles of many terms: how the blocks that have parts of a tile's terms combine their sums.

The blocks of a cluster send theirs to the one that adds them.  Or all of a cluster have the same part of neighbouring tiles, of which they share what they
read, and the sums come through the workspace (``parts``): an H200 runs 30 clusters of four blocks at a time, 120 of its 132 multiprocessors, so that 64
tiles that two blocks share, in two parts, are one round of this kind alone."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from inferno.schedule.matmul.wgmma_schedule import Wgmma, has_parts, takes_shares
from inferno.schedule.tiles.shared_tiles import shares
from inferno.schedule.tiles.tiling import Tiling
from inferno.target import Target

# Measured on an H100, bf16, with GELU, us, those of different schedules scaled by the root of what eager took beside each.  Three parts of 128x96 took 22.6
# for 512x8192x1024, and two of 128x64 23.0; more were not timed.  Without a lead two parts took 0.7 less twice, and 1.1 to 2.7 more four times.
_PARTS, _LEAD = (2, 3), 8  # steps in which others' sums arrive, 4000 to 8000 clocks of tiles of 128x128 to 128x256
# Columns from which on sharing is worth waiting for each other (1024x8192x1024 in 128x128 31.0, alone 33.2; 512x8192x1024 in 128x64 23.9, alone 23.0).
_WIDE, _MOST = 128, 128 * 192  # and a tile's results at most, of what was timed
FORMS = tuple(Wgmma(cluster=n, across=across, parts=parts, lead=_LEAD, stream=True) for parts in _PARTS for n, across in ((1, False), (2, False), (2, True)))


def sending(s: Wgmma) -> Wgmma:
    """``s``, whose blocks send their sums where each has one share of the columns and that needs no slots: 1024x8192x1024 with GELU takes 31.6 us so in
    two parts of 128x128, 34.2 if they read each other's, 512x8192x1024 in 128x64 23.4 and 24.9, 256x11008x4096 45.7 and 46.5."""
    made = replace(s, sends=True)
    return made if s.spread and takes_shares(made) and made.sent <= s.consumers * s.staging else s


def sharing_terms(tiling: Tiling, width: int, target: Target, tiles: Sequence[tuple[Wgmma, float]]) -> Iterator[tuple[Wgmma, float]]:
    """Those with ``tiles``, each with its share of the tensor core's rate.  The tiles that two blocks share are the longer factor's (2048x11008x512 in
    128x128 41.1 us, of the other one 43.5; 256x11008x4096 45.9 and 51.1), if others read them, too: what two blocks alone read comes from memory as fast
    to each (256x11008x4096 45.0)."""
    if not all(isinstance(x, int) for x in (tiling.m.size, tiling.n.size)):
        return
    for (tile, share), form in itertools.product(tiles, FORMS):
        s = replace(form, tile_m=tile.tile_m, tile_n=tile.tile_n, stages=12, consumers=tile.consumers)
        timed = s.consumers == 2 and s.tile_m * s.tile_n <= _MOST
        others = ceil(tiling.n.size / s.tile_n) if s.across else ceil(tiling.m.size / s.tile_m)
        worthwhile = s.cluster == 1 or (s.tile_n >= _WIDE and s.across == (tiling.m.size > tiling.n.size) and others > s.cluster)
        if timed and worthwhile and shares(s, tiling) and has_parts(s, tiling, width, target):
            yield s, share

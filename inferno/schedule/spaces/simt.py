"""Contractions on CUDA cores: the shapes of tiles and threads, with other depths, slices and stages."""

import itertools
from collections.abc import Iterator

from inferno.mlir import func
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.simt import SHAPES, Simt, chunked, estimate, fits, supported
from inferno.target import Target

# The best share of the peak rate by (rows and columns of a tile, and of a thread).
_SHARES: dict[tuple[int, int, int, int], float] = {}
for _s, _share in SHAPES:
    _key = _s.tile_m, _s.tile_n, _s.thread_m, _s.thread_n
    _SHARES[_key] = max(_share, _SHARES.get(_key, 0.0))
_OTHER = 0.97  # of that share where depth, slices or stages are others than the model's: a guess, which puts them behind


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Simt]]:
    """Schedules with their estimates; the model's own are in front of their variants."""
    c = _parse(kernel, target)
    if c is None:
        return
    usual = {s: share for s, share in SHAPES if fits(s, c, target)}
    for s, share in usual.items():
        yield estimate(s, share, c, target), chunked(s, c)
    for (m, n, thread_m, thread_n), share in _SHARES.items():
        for depth, slices, stages in itertools.product((16, 32, 8, 64, 128, 256), (1, 2, 4, 8), (2, 1)):
            s = Simt(m, n, depth, thread_m, thread_n, slices, stages)
            if s not in usual and _works(s, c, target):
                yield estimate(s, share * _OTHER, c, target), chunked(s, c)


def valid(kernel: func.FuncOp, schedule: Simt, target: Target) -> bool:
    """Whether the generator takes the kernel with it, and adds as exactly as the model's choice does."""
    c = _parse(kernel, target)
    return c is not None and _works(schedule, c, target) and chunked(schedule, c).chunk == schedule.chunk


def _parse(kernel: func.FuncOp, target: Target) -> Contraction | None:
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    return c if c is not None and not c.varies and supported(c) and not c.is_reduction else None


def _works(s: Simt, c: Contraction, target: Target) -> bool:
    """Whether the generator's rules hold: threads, shared memory, and how tiles divide among threads and slices."""
    if (s.tile_m, s.tile_n, s.thread_m, s.thread_n) not in _SHARES or s.stages not in (1, 2) or s.slices < 1:
        return False
    if not 32 <= s.threads <= 512 or s.threads % 32 or s.tile_k % s.slices or s.tile_k // s.slices < 4:
        return False
    tile, wide = s.tile_m * s.tile_n, min(4, s.thread_n)
    # In the end every thread adds up some vectors of the tile.
    divides = s.slices == 1 or tile % (s.threads * (wide if tile // wide >= s.threads else 1)) == 0
    return divides and tile >= s.threads and fits(s, c, target)

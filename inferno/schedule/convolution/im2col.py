"""The schedule of convolutions on Hopper's tensor cores: contractions of which the copy engine brings a factor window by window (implicit GEMM).

A tile's rows are neighbouring pixels of the result, of one image and the next, and its columns features; where the result has its features in front of the
places it is the other way round, with places of one image.  A step along k is a chunk of the channels of one tap of the filter.
All else is as in ``wgmma``, and so are the estimates: of a tap's last chunk the part that lies behind the channels is multiplied for nothing.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import ceil, inf
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func, isolated_copy, walk
from inferno.passes.contraction import pads_convolutions
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, At, fastest, tensor_bytes
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.matmul.contraction import Contraction, Group
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.short_sums import fits_ends
from inferno.schedule.matmul.wgmma import CANDIDATES, candidates
from inferno.schedule.matmul.wgmma_cost import estimate, row_clocks
from inferno.schedule.matmul.wgmma_schedule import Shared, Wgmma, fit, lies_inside, splits
from inferno.schedule.passes.split_padding import without_padding
from inferno.schedule.tiles.result_parts import ROW, store_maps
from inferno.schedule.tiles.shared_tiles import shares
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.settings import settings
from inferno.symbolic import hint, product
from inferno.target import Target, clusters_at_once

# For up to 64 features, with the shares of the tensor core's rate that are guessed.
_TALL = ((Wgmma(256, 64, 5, 2), 0.93), (Wgmma(256, 32, 5, 2), 0.75), (Wgmma(128, 32, 8, 2), 0.7))
# In groups, by bytes of a step's row, a part of a pixel: an H100 took 11.8 us for 8 groups of 64 at 14x14 (9.7 estimated), 24.8 for 2 of 32 at 56x56 (14.1),
# 29.8 for 4 of 112 at 14x14 (15.4).
_IN_GROUPS = {128: 1.2, 64: 1.6, 32: 1.8}
# Tiles that leave room for weights, slots that they have at least, and tiles of a multiprocessor from which on that pays (124 were timed): on an H200, 3x3 in
# bf16 without an epilogue, 64 channels of 32x256x256 to 64 384 us, in 256x64 453; of 128 910 and 992.
_KEEPING, _LEAST_STAGES, _MANY = tuple(Wgmma(128, 64, 8, 2, buffers=buffers, pingpong=True) for buffers in (2, 1)), 4, 16
_KEEPING_SHARE = 0.95  # of the tensor core's rate (a guess: memory takes longer)
# Tiles of few pixels of which blocks side by side share the windows, with the share of the tensor core's rate of such a tile, where all run at once (H200, us:
# 3x3 by 2, 512 channels of 32x14x14 to 512, TF32, 30.7 in clusters of 4, 30.6 of 2, 32.5 without; bf16 17.3, 17.3 and 19.0).
_SHARING, _SHARING_RATE = tuple(Wgmma(64, 128, 8, 1, cluster=cluster, across=True) for cluster in (4, 2)), 0.89
LAUNCH = 2.0  # microseconds of a kernel that only copies, beside what memory takes (as wgmma's estimates have it)


@dataclass(frozen=True)
class Im2col(Wgmma):
    """As ``Wgmma``; both factors have k innermost.  With a shorter ``row`` the last tile of a tap has so many zeros
    the less.
    ``patch``: if not 0, each of the ``stages`` slots of the lhs has so many pixels for ``span`` columns of taps (see ``halo``), and a tile consists of blocks
    of 64 pixels, ``width`` in a row, ``wide`` of them side by side.  The rhs has ``weights`` slots of its own, each of one tap, unless it is ``kept``."""

    generator: ClassVar[str] = "im2col"
    pads: ClassVar[bool] = True  # what lies outside of the image is zeros

    patch: int = 0
    span: int = 0
    wide: int = 1
    width: int = 8
    weights: int = 0

    def shared(self, raw_bytes: int = 0, rhs_height: int = 0) -> Shared:
        """As ``Wgmma``'s; the barriers of the slots of weights are in front of the last one."""
        if not self.patch:
            return super().shared(raw_bytes, rhs_height)
        laid = replace(self, patch=0, lhs_rows=self.patch, kept=self.kept or self.weights).shared(raw_bytes, rhs_height)
        return replace(laid, total=laid.total + 16 * self.weights)


def choose(kernel: func.FuncOp, target: Target) -> Im2col | None:
    """The schedule with the lowest estimate if ``kernel`` is a convolution for Hopper's tensor cores, and of so many channels, or with so few pixels in
    a row, that it is not faster as a contraction of windows that overlap in memory, with its padding there."""
    time, schedule = best(kernel, target)
    return schedule if schedule is not None and time <= _side_by_side(kernel, parse_unfolded(kernel, target), target) else None


@asked_once
def best(kernel: func.FuncOp, target: Target) -> tuple[float, Im2col | None]:
    """The schedule with the lowest estimate of those that the kernel can have at all, in microseconds."""
    c = parse_unfolded(kernel, target)
    return least(kernel, c, target) if c is not None else (inf, None)


def least(kernel: func.FuncOp, c: Contraction, target: Target) -> tuple[float, Im2col | None]:
    """The schedule with the lowest estimate, in microseconds."""
    return fastest(at_size(kernel, c, target) if not c.varies else [])


def _side_by_side(kernel: func.FuncOp, c: Contraction, target: Target) -> float:
    """Microseconds of the kernel where the terms along a row of its window are one loop, and of a kernel that pads the image first."""
    width, windows = element_bytes(c.lhs.element), c.lhs if c.lhs.has_windows else c.rhs
    if c.windows.shape[-1] * width >= ROW:
        return inf
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        plain, before = module.body.operations[0], 0.0
        if pads := walk(plain, "tensor.pad"):
            if not all(map(pads_convolutions, pads)):
                return inf
            padded = pads[0].results[0].type
            before = LAUNCH + (product(windows.access.shape) * width + tensor_bytes(padded)) / MEMORY_RATE
            plain = without_padding(plain, "plain")
        found = parse_contraction(plain)
        if found is None:
            return inf
        tiling = tile_contraction(found, width, only_along_k=width == 4, offset=True)
        return min((max(time, time_of_rows(s, tiling, width, target)) for time, s in candidates(plain, found, target)), default=inf) + before


def time_of_rows(s: Wgmma, tiling: Tiling | None, width: int, target: Target) -> float:
    """Microseconds that the copy engine takes for the rows of such tiles, which are as short as those of one tap."""
    if tiling is None:
        return 0
    each = row_clocks(tiling.k.size * width, s.row)
    return LAUNCH + tiling.tiles(s.tile_m, s.tile_n) / target.multiprocessors * tiling.k_steps(s.row // width) * (s.tile_m + s.tile_n) * each / CLOCK


def at_size(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Im2col]]:
    """Schedules with their estimates in microseconds; ``at`` and ``most`` are as ``wgmma``'s.  Where features are in front of the places of a result, the copy
    engine has to write that."""
    found = candidates(kernel, c, target, at, most)
    if c.rhs.has_windows:
        width = element_bytes(c.lhs.element)
        tiling = tile_contraction(c, width, only_along_k=width == 4)
        return [(time, s) for time, s in ((time, im2col(s)) for time, s in found) if len(store_maps(c, tiling, s)) == len(c.destinations)]
    made = [(time, im2col(s)) for time, s in found] + list(_others(c, target, at, [s for _, s in found])) if found else []
    if c.windows.group is None:
        return [*made, *_keeping(c, target, at), *_sharing_rows(c, target, at), *_with_halo(kernel, c, target, at)] if found else made
    return [(_IN_GROUPS[s.row] * time, s) for time, s in made if keeps_to_group(s, c) and (_is_timed(s, c) or settings().unmeasured)]


def _is_timed(s: Im2col, c: Contraction) -> bool:
    """Whether a GPU has run its like, in groups."""
    return s.split == s.cluster == s.chunks == 1 and not (s.stream or s.lhs_rows) and (set(c.windows.steps) == {1} or bit_width(c.lhs.element) == 32)


def keeps_to_group(s: Wgmma, c: Contraction) -> bool:
    """Whether no step reads channels behind those of its group, which are other groups' numbers and no zeros."""
    return c.windows.group is None or c.windows.shape[-1] * element_bytes(c.lhs.element) % s.row == 0


def _keeping(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Im2col]]:
    """Tiles of all features of which the weights, of all taps, stay in shared memory: each block would bring them from L2 for each of its tiles."""
    tiling = tile_contraction(c, 2, only_along_k=False) if bit_width(c.lhs.element) == 16 and c.lhs.has_windows and not c.varies else None
    for s in _KEEPING if tiling is not None else ():
        made = replace(im2col(s), kept=tiling.k_steps(ROW // 2), inside=lies_inside(s, c, tiling))
        if tiling.tiles(s.tile_m, s.tile_n) < _MANY * target.multiprocessors or not fits_ends(made, c, tiling, made.kept):
            continue
        if (made := fit(made, c, tiling, target)) is not None and made.stages >= _LEAST_STAGES:
            yield estimate(made, _KEEPING_SHARE, c, tiling, target, at), made


def _sharing_rows(c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Im2col]]:
    """Tiles of which a cluster's have the same rows, each of them one at most: what they read of the image comes from L2 once."""
    width = element_bytes(c.lhs.element)
    tiling = tile_contraction(c, width, only_along_k=width == 4) if not c.varies else None
    for s in _SHARING if tiling is not None and tiling.rhs.along_k and tiling.rhs.raw is None else ():
        few = tiling.tiles(s.tile_m, s.tile_n) <= s.cluster * clusters_at_once(s.cluster, target.multiprocessors)
        made = replace(im2col(s), inside=lies_inside(s, c, tiling))
        if few and shares(made, tiling) and (made := fit(made, c, tiling, target)) is not None:
            yield estimate(made, _SHARING_RATE, c, tiling, target, at), made


def _with_halo(kernel: func.FuncOp, c: Contraction, target: Target, at: At) -> Iterator[tuple[float, Im2col]]:
    """Tiles of which an image's part comes to shared memory once for many taps."""
    from inferno.schedule.convolution import halo
    return halo.candidates(c, target, at) if takes_unmeasured(kernel.operation) or halo.is_timed(c) else iter(())


def _others(c: Contraction, target: Target, at: At, found: list[Wgmma]) -> Iterator[tuple[float, Im2col]]:
    """Tiles of more rows for few features, and those like ``found`` with shorter rows where a tap's channels need fewer bytes of these."""
    width, known = element_bytes(c.lhs.element), {(s.tile_m, s.tile_n): share for s, share in (*CANDIDATES, *_TALL)}
    channels, tiling = c.windows.shape[-1] * width, tile_contraction(c, width, only_along_k=width == 4)
    if not tiling.rhs.along_k or tiling.rhs.raw is not None:
        return
    tall = [s for s, _ in _TALL] if c.N <= _TALL[0][0].tile_n else []
    rows = [row for row in (64, 32) if ceil(channels / row) * row < ceil(channels / (2 * row)) * 2 * row]
    for s, row in itertools.chain(((s, ROW) for s in tall), itertools.product([*found, *tall], rows)):
        if (s.tile_m, s.tile_n) not in known or s.chunks > 1 or s.lhs_rows:
            continue
        for chunks in dict.fromkeys((1, min(4, ceil(channels / row)) if row < ROW else 1)):
            made = replace(im2col(s), row=row, chunks=chunks, stages=min(24, s.stages * ROW // row // chunks), inside=lies_inside(s, c, tiling))
            if made.split > 1 and not splits(made, tiling, width, target, at):
                continue
            if (made := fit(made, c, tiling, target)) is not None:
                yield estimate(made, known[s.tile_m, s.tile_n], c, tiling, target, at), made


def parse_unfolded(kernel: func.FuncOp, target: Target) -> Contraction | None:
    """What ``kernel`` computes, if that is a contraction of windows of images, the lhs or, not in groups, the rhs, with more than one feature; only the
    number of images may vary."""
    c = parse_contraction(kernel, unfolded=True) if target.hopper else None
    if c is None or c.windows is None or not all(isinstance(x, int) for x in (c.K, _features(c).size)):
        return None
    return c if _features(c).dims and (c.lhs.has_windows or c.windows.group is None) else None


def _features(c: Contraction) -> Group:
    """The loops of the results that are no pixels'."""
    return c.n if c.lhs.unfolded is not None else c.m


def im2col(s: Wgmma) -> Im2col:
    """The schedule of a contraction as that of windows."""
    return Im2col(**asdict(s))

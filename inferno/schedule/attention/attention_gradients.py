"""The schedule of attention's gradients on Hopper's tensor cores: which rows and columns a block has at a time."""

import itertools
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.passes.programs import has_few_multiprocessors, takes_unmeasured
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.kept_scores import QuerySums, estimate_queries, estimate_rounding, heads_together, kept_line, query_sums
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.masks import widths, with_maps
from inferno.schedule.attention.schedule import LINE, Consumers, MaskSlot, lines
from inferno.schedule.attention.support import inlined, negative
from inferno.schedule.attention.tiling import Copied, one_axis
from inferno.schedule.maps.supported import supported_element
from inferno.schedule.tiles.result_parts import Brought
from inferno.schedule.tiles.tiling import Axis, axes, direct
from inferno.target import Target


@dataclass(frozen=True)
class Shared:
    """Where things lie in a block's dynamic shared memory, in bytes: both tiles of rows, slots for both tiles of columns, results where they lie apart,
    what is ``kept`` of two blocks, slots for ``masks``, for what is ``added`` up in memory, and for ``numbers`` of columns, barriers, the numbers of tiles,
    and ``more`` barriers."""

    second: int
    slots: int
    slot: int
    results: int
    kept: int
    masks: int
    added: int
    numbers: int
    barriers: int
    more: int
    total: int


@dataclass(frozen=True)
class AttentionGradients(Consumers):
    """One warpgroup starts copies; ``consumers`` warpgroups have 64 rows each, and walk together over blocks of ``columns`` columns, which come
    to ``stages`` slots.  ``order``: a block of threads takes every n-th tile, of n blocks (``static``), or whenever it
    has finished one the next of a counter (``dynamic``).  ``turns``: consumers start the first two products one after the other, so that one's
    exponentials lie under another's products.  ``apart``: results have shared memory of their own; otherwise they lie where the rows were, which the
    next ones wait for.  ``ahead``: the first product of a block is multiplied behind the last one of the block before.  ``masks``: the bytes of an element
    of each of the tensors that are read for scores and come to shared memory, as many slots of them as of columns.  ``adds``: the gradients of queries are
    added up in memory, of each block by way of so many slots of shared memory; where it is 0 they are another kernel's."""

    generator: ClassVar[str] = "attention_gradients"
    consumers: int = 2
    columns: int = 64
    stages: int = 2
    order: str = "static"
    turns: bool = False
    apart: bool = False
    ahead: bool = False
    masks: str = ""
    adds: int = 0

    @property
    def late(self) -> bool:
        """Whether the weights' products come behind the gradients of scores, whose registers they would need."""
        return self.adds > 0 and self.columns > 64

    @property
    def kept_bytes(self) -> int:
        """Of what a consumer keeps of a block: a line of 64 rows for each column."""
        return self.columns * LINE * 2

    def mask_slot(self, transposed: bool) -> MaskSlot:
        """Keys are rows if ``transposed``."""
        return MaskSlot(self.masks, self.rows, self.columns) if transposed else MaskSlot(self.masks, self.columns, self.rows)

    def shared(self, g: AttentionGradient) -> Shared:
        depth, width = g.depth.size, g.width.size
        second = self.rows * lines(depth) * LINE * 2
        slots = second + self.rows * lines(width) * LINE * 2
        slot = self.columns * (lines(depth) + lines(width)) * LINE * 2
        apart = slots + self.stages * slot
        kept = apart + (self.apart and (second if len(g.results) == 1 else slots))
        masks = kept + (g.queries is not None and 2 * self.consumers * self.kept_bytes)
        added = masks + self.stages * self.mask_slot(g.transposed).bytes
        numbers = added + self.adds * 4 * self.columns * depth
        barriers = numbers + (self.adds and self.stages * 4 * self.columns * len(brought_numbers(g, tile_gradient(g))))
        more = barriers + 16 * (self.stages + self.consumers) + 4 * self.consumers
        return Shared(second, slots, slot, apart, kept, masks, added, numbers, barriers, more, more + (self.adds and 16 * (1 + self.consumers * self.adds)))


@dataclass(frozen=True)
class GradientTiling:
    """The loops as axes that every tensor walks with one stride; ``grid`` those of the batch, ``outer`` those of columns that are walked one
    position at a time, outermost first."""

    grid: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    outer: tuple[Axis, ...]
    depth: Axis
    width: Axis
    results: tuple[Axis, ...]
    stationary: tuple[Copied, Copied]
    streamed: tuple[Copied, Copied]
    queries: "GradientTiling | None"

    @property
    def heads(self) -> int:
        return prod(a.size for a in self.grid)

    def tiles(self, s: AttentionGradients) -> int:
        return self.heads * ceil(self.rows.size / s.rows)


def tile_gradient(g: AttentionGradient) -> GradientTiling | None:
    """The axes of ``g``; None where the copy engine cannot bring an operand."""
    rows, columns, depth, width = (one_axis(x) for x in (g.rows, g.columns, g.depth, g.width))
    grid, outer = tuple(axes(g.batch)), tuple(axes(g.outer))
    found = [
        direct(o.access, (inner, tiled), others, 2, offset=True)
        for pair, tiled, others in ((g.stationary, rows, grid), (g.streamed, columns, (*grid, *outer)))
        for o, inner in zip(pair, (depth, width))
    ]
    if None in found:
        return None
    copied, results = [Copied(*f, False) for f in found], tuple(one_axis(r.columns) for r in g.results)
    queries = None if g.queries is None else tile_gradient(g.queries)
    if g.queries is not None and queries is None:
        return None
    return GradientTiling(grid, rows, columns, outer, depth, width, results, tuple(copied[:2]), tuple(copied[2:]), queries)


def brought_masks(g: AttentionGradient, t: GradientTiling) -> list[Brought]:
    """Of what is read for scores those tensors that can come to shared memory, keys innermost, then queries."""
    keys, queries = (t.rows, t.columns) if g.transposed else (t.columns, t.rows)
    return [] if g.blocks is not None else with_maps(sources(g.score), keys, queries, (*t.grid, *t.outer))


def brought_numbers(g: AttentionGradient, t: GradientTiling) -> list[Access]:
    """Of what is read for weights and the gradients of scores those float32 of columns that the copy engine can bring, one behind the other."""
    def comes(x: Access) -> bool:
        lies = str(x.element) == "f32" and t.rows.stride(x) == 0 and t.columns.stride(x) == 1
        return lies and not any(n % 4 for n in (x.offset, *(a.stride(x) for a in (*t.grid, *t.outer))))

    return [x for x in dict.fromkeys((g.totals, *sources(g.gradient))) if comes(x)]


def supported(g: AttentionGradient) -> bool:
    """Whether types and sizes are ones that the generator takes, and it can inline what is done to products and results."""
    operands = (*g.stationary, *g.streamed)
    if g.blocks is not None and g.dropout is not None:
        return False
    if any(o.prologue is not None for o in operands) or any(not isinstance(n, int) for n in g.sizes):
        return False
    kinds = {str(o.element) for o in operands}
    if len(kinds) != 1 or not kinds & {"bf16", "f16"} or any(n % 8 or n > 256 for n in (g.depth.size, g.width.size)) or g.scale <= 0:
        return False
    if g.queries is not None and (not supported(g.queries) or g.seen.high is not None or (g.seen.low or 0) > 0):
        return False
    if g.of_scores is not None and (g.band is not None or g.blocks is not None or kept_line(g) != g.rows.size):
        return False  # blocks that are skipped would hold anything, and the copy engine knows no other lines
    written = {r.destination.access.argument: r.destination.access for r in g.results}
    places = [*g.extras, *written.values()]
    if any(not supported_element(p.element) or prod(p.shape) >= 2**31 for p in places):
        return False
    if any(negative(p) for p in (*(o.access for o in operands), *places)):
        return False
    if len(written) != len(g.results) or any(p.argument in written for p in (*(o.access for o in operands), *g.extras)):
        return False
    # What is read beside lies in the grid, along rows, and along columns.
    if any(x.strides[d] for x in g.extras for d in (*g.depth.dims, *g.width.dims)) or not all(_is_flat(g, x) for x in g.extras):
        return False
    return all(inlined(m) for m in (g.score, g.blocks and g.blocks.whole.score, g.of_totals, g.gradient, *(r.epilogue for r in g.results)))


def _is_flat(g: AttentionGradient, access: Access) -> bool:
    return not any(access.strides[d] for r in g.results for d in r.columns.dims) or access in [s for r in g.results if r.epilogue for s in r.epilogue.sources]


def read(kernel: func.FuncOp, target: Target) -> tuple[AttentionGradient, GradientTiling] | None:
    """What ``kernel`` computes, if it is of a kind that can be generated."""
    g = parse_attention_gradient(kernel) if target.hopper else None
    tiling = tile_gradient(g) if g is not None and supported(g) else None
    return (g, tiling) if tiling is not None else None


# Numbers of 32 bits a thread that products, weights, sums and what is read for them may take together, by the number of consumers (of 240 registers,
# with three of 160; by ptxas: 64 columns of keys' and values' gradients of 128 columns each; with three 48 of 64 each).
_HELD = {1: 212, 2: 212, 3: 132}


def held(s: AttentionGradients, g: AttentionGradient) -> int:
    """Numbers of 32 bits that a thread has at a time."""
    # Of masked blocks of lists it is read where it is needed.
    score = sources(g.score if g.blocks is None or not g.blocks.whole.differs else g.blocks.whole.score)
    along = [x for x in score if any(x.strides[d] for d in g.columns.dims)]
    # Of a thread's two rows: those of keys have a query's numbers in common.
    both = [1 if g.transposed and not any(x.strides[d] for d in g.rows.dims) else 2 for x in along]
    read = sum(max(2, element_bytes(x.element)) * n for x, n in zip(along, both)) // 2
    # At 208 ptxas spills 96 columns of keys beside float32, and 64 of queries beside a mask of keys that heads share.
    more = 8 if (read >= 4 and not g.transposed) or (g.score is not None and g.outer.size > 1) else 0
    more += 24 if g.dropout is not None and not g.transposed else 0  # 128 columns of 128 each are spilt
    more += 12 if "1" in s.masks.split() and not g.transposed else 0  # addresses of bytes: 112 columns of 128 each are spilt
    return s.columns * (4 + (len(g.results) > 1 and not s.late) + read // 2) // 4 + sum(r.columns.size for r in g.results) // 2 + more


def reads_early(s: AttentionGradients, g: AttentionGradient) -> bool:
    """Whether there are registers for what the gradients of scores are made of beside, while exponentials are computed."""
    extras = (x for x in g.gradient.sources if x is not None)
    numbers = sum(max(2, element_bytes(x.element)) for x in extras if any(x.strides[d] for d in g.columns.dims)) * s.columns // 16
    return numbers > 0 and held(s, g) + numbers <= _HELD[s.consumers] - 8  # 96 columns of 64 each are spilt at 208 by ptxas


def fits(s: AttentionGradients, g: AttentionGradient, target: Target) -> bool:
    """Whether a block's shared memory and a thread's registers suffice."""
    if s.consumers not in _HELD or s.columns % 16 or not 16 <= s.columns <= 256 or s.stages < 2:
        return False
    if g.blocks is not None:
        rows, columns = (g.blocks.keys, g.blocks.queries) if g.transposed else (g.blocks.queries, g.blocks.keys)
        if s.ahead or rows % s.rows or columns % s.columns:
            return False
    if s.order not in ("static", "dynamic") or (s.turns and (s.consumers == 1 or s.ahead)):
        return False
    if s.masks and ((tiling := tile_gradient(g)) is None or s.masks != widths(brought_masks(g, tiling))):
        return False
    if s.adds:
        if not takes_turns(s, g, target) or replace(s, adds=0, turns=False) not in (AttentionGradients(), AttentionGradients(columns=128)):
            return False
    elif g.queries is not None and (heads_together(g) == 0 or s.rows % QuerySums.columns or query_sums(g.queries, target) is None):
        return False
    return held(s, g) <= _HELD[s.consumers] and s.shared(g).total <= target.shared


# Bytes of queries, the result's gradients and sums of the heads that run at a time: with 34 MB 4x32(8)x2048x64 took an H100 726 us, 973 otherwise, with
# 67 MB 4x32(8)x2048x128 1883 us, and 1542.
_L2 = 40 << 20


def takes_turns(s: AttentionGradients, g: AttentionGradient, target: Target) -> bool:
    """Whether blocks of threads can add up the gradients of queries in turns: those of all keys of a head run at a time, all that a block of threads
    multiplies is whole, and seen, and L2 has room for what all read and add to."""
    if g.queries is None or g.of_scores is not None or g.band is not None or g.blocks is not None or g.score is not None or g.dropout is not None:
        return False
    whole = not (g.rows.size % s.rows or g.queries.rows.size % s.columns or g.depth.size % LINE)
    t = tile_gradient(g)
    if not whole or t is None or g.rows.size // s.rows > target.multiprocessors:
        return False
    queries = heads_at_a_time(s, t, target) * prod(a.size for a in t.outer) * g.columns.size
    return queries * (2 * (g.depth.size + g.width.size) + 4 * g.depth.size) <= _L2


def heads_at_a_time(s: AttentionGradients, t: GradientTiling, target: Target) -> int:
    """Positions of the grid of which all tiles run together."""
    return min(t.heads, target.multiprocessors // ceil(t.rows.size / s.rows))


def choose(kernel: func.FuncOp, target: Target) -> AttentionGradients | None:
    """The schedule with the lowest estimate if ``kernel`` is a gradient of attention for Hopper's tensor cores, else None; so where two kernels in the
    place of one that keeps gradients of scores would take less time."""
    found = read(kernel, target)
    if found is not None and found[0].blocks is not None and not takes_unmeasured(kernel.operation):
        return None  # lists of blocks were not timed
    best = _best(kernel, target)
    if best is None or found[0].queries is None or found[0].of_scores is not None:
        return best and best[1]
    g, tiling = found
    apart = [_best_of(kernel, *each, target) for each in ((replace(g, queries=None), tiling), (g.queries, tiling.queries))]
    return None if None not in apart and sum(time for time, _ in apart) < best[0] else best[1]


def time(kernel: func.FuncOp, target: Target) -> float | None:
    """Microseconds of gradients by their best schedule; None where there is none."""
    best = _best(kernel, target)
    return best and best[0]


def runs(s: AttentionGradients, kernel: func.FuncOp) -> bool:
    """Whether blocks that wait for each other may: all of them fit the GPU at once."""
    return not (s.adds and has_few_multiprocessors(kernel.operation))


@asked_once
def _best(kernel: func.FuncOp, target: Target) -> tuple[float, AttentionGradients] | None:
    found = read(kernel, target)
    return _best_of(kernel, *found, target) if found is not None else None


def _best_of(kernel: func.FuncOp, g: AttentionGradient, tiling: GradientTiling, target: Target) -> tuple[float, AttentionGradients] | None:
    times = [(estimate(s, g, tiling, target), s) for s in candidates(g, tiling, target) if runs(s, kernel)]
    return min(times, key=lambda item: item[0], default=None)


def candidates(g: AttentionGradient, tiling: GradientTiling, target: Target) -> list[AttentionGradients]:
    """Schedules that may be the best: masks come to shared memory, where there is room.

    On an H200 at 4x16x2048x128, in microseconds with 20 of the sums beside: gradients of keys 516, apart 520, with turns 473, ahead 469; of queries 321,
    apart 327, with turns 331, ahead 336; at 64 columns of queries 193, apart 188; of keys apart 347 and ahead 319 with 96 columns, 307 and 358 with 64.
    Beside masks that threads read, and that come, on an H100, all kernels: 4x16x4096x64 of bf16 3448 and 2408, of bools 3006 and 2312; 16x16x1024x64 of
    float32 875 and 712; 8x16x2048x128 of bf16 2391 and 1893; 32x12x128x64 46.4 and 44.5.  With two slots, and queries' gradients apart, 4x16x4096x64 2371,
    16x16x1024x64 654 (with three, not apart, 672).
    Where queries' gradients are added up, on an H100: 1x16x8192x128 2404 with turns, 2490 without; 64 columns with blocks of 128 queries 1525 and 1487, of 64
    1732; one slot less takes 4% more.
    """
    adding = (AttentionGradients(columns=columns, turns=columns == 64, adds=2) for columns in (128, 64))
    others = _with_masks(widths(brought_masks(g, tiling)), g, tiling, target) or _with_masks("", g, tiling, target)
    return [*(s for s in adding if fits(s, g, target)), *others]


def _with_masks(masks: str, g: AttentionGradient, tiling: GradientTiling, target: Target) -> list[AttentionGradients]:
    found, both = [], len(g.results) > 1
    of_queries = masks != "" and not both
    for form in itertools.product((2, 1), (128, 96, 64, 48, 32), (3, 2)):
        s = AttentionGradients(*form, masks=masks)
        apart = tiling.tiles(s) > target.multiprocessors and (both or of_queries or s.stages > 2)
        s = replace(s, order=orders(s, g, tiling, target)[0], apart=apart, ahead=both and g.blocks is None and not reads_early(s, g))
        if s.ahead and g.queries is not None and g.band is None and s.consumers > 1:
            s = replace(s, turns=True, ahead=False)  # 4x16x2048x128 took an H200 681 us, and 745 ahead
        found += [x for x in (s, replace(s, apart=False)) if s.consumers <= ceil(tiling.rows.size / 64) and fits(x, g, target)][:1]
    return sorted(found, key=lambda s: not s.apart) if g.queries is not None or of_queries else found


def orders(s: AttentionGradients, g: AttentionGradient, tiling: GradientTiling, target: Target) -> tuple[str, ...]:
    """Orders of tiles that differ, the better one first: tiles of different lengths are counted."""
    if tiling.tiles(s) <= target.multiprocessors:
        return ("static",)
    return ("static", "dynamic") if g.band is None and g.blocks is None else ("dynamic", "static")


def estimate(s: AttentionGradients, g: AttentionGradient, tiling: GradientTiling, target: Target) -> float:
    """Microseconds: a block of columns after the other, and what a tile takes beside; where tiles are counted those of different lengths even
    each other out."""
    depth, width = g.depth.size, g.width.size
    queries = 0.0 if g.queries is None else estimate_rounding(g) if s.adds else estimate_queries(g)
    multiply = s.rows * s.columns * (depth + width + sum(r.columns.size for r in g.results) + (depth if s.adds else 0)) / 2048
    copy = (s.columns * (lines(depth) + lines(width)) * 128 + s.mask_slot(g.transposed).bytes) / _COPY_RATE
    block = max(multiply, copy) + _EACH_POINT * s.rows * s.columns / 128 / (2 if s.consumers > 1 else 1) + _EACH_BLOCK
    if g.queries is not None and not s.adds:
        block += _KEEP
    if s.adds:
        block += _ADD * s.columns
    elif len(g.results) > 1:
        block += _SECOND + (0 if reads_early(s, g) else max(0, _COVERING - multiply))
    blocks = prod(a.size for a in tiling.outer) * ceil(tiling.columns.size / s.columns)
    rounds, longest = tiling.tiles(s) / target.multiprocessors, blocks * block + _TILE
    if s.adds:
        rounds = tiling.heads / heads_at_a_time(s, tiling, target)
        longest += _ADDED * sum(r.columns.size for r in g.results)
    if g.band is None or s.order == "static":
        return queries + _START + (ceil(rounds) * longest + (s.order == "dynamic") * _COUNTED) / CLOCK
    return queries + _START + (rounds * (blocks * block / 2 + _TILE) + longest / 4 + _COUNTED) / CLOCK


# Clocks for each point of a thread beside products (exponential, products, rounding), for each block of columns, and for each tile; microseconds
# of a launch; bytes a clock; clocks of a block of two results more, and of products under which what is read late comes.  Fitted to an H200, whose
# times for 2048 rows of 64 heads, of 64 and 128 columns, they give within 5%, causal ones within 10%.
_EACH_POINT, _EACH_BLOCK, _TILE, _START, _COPY_RATE, _SECOND, _COVERING = 6.0, 300, 3500, 2.5, 60, 400, 2048
# Clocks of a block whose gradients of scores are kept: 4x16x2048 took 682 us of an H200 with 128 columns, in two kernels 781; with 64 columns 568 and 478.
_KEEP = 600
# Clocks for each column of a block and of results where gradients of queries are added up, so that what an H100 took, less the 3% that it takes more than
# an H200 where memory does not matter, is within 5% for 1024 to 8192 rows.
_ADD, _ADDED = 10, 40
_COUNTED = 1500  # clocks of the launch that makes the counter 0

"""The schedule of attention on Hopper's tensor cores: which queries and keys a block has at a time, and who gets which."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.attention_limits import is_timed
from inferno.mlir import func, ir, walk
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.accesses import Access
from inferno.schedule.attention_kernel import AttentionKernel, parse_attention, sources
from inferno.schedule.attention_writes import RowWrite, row_writes
from inferno.schedule.contraction import Map, Operand
from inferno.schedule.cost import CLOCK, At, bit_width, clusters_at_once
from inferno.schedule.elementwise import supported_body, supported_element
from inferno.schedule.pages import Pages
from inferno.schedule.tiling import MOST_AXES, Axis, axes, direct
from inferno.symbolic import Int, bounds, ceildiv, hint, product, quotient, reach
from inferno.target import Target

_MOST_ROWS = 256  # of a page that was timed
LINE = 64  # elements of 16 bits in a line of shared memory, 128 bytes: the span of the swizzle
ORDERS = ("single", "static", "dynamic")
PIECES = 3  # of bf16 that hold a float32
GAP = 8  # numbers behind a row of sums in shared memory, by which the next row is in other banks


@dataclass(frozen=True)
class Shared:
    """Where things lie in a block's dynamic shared memory, in bytes."""

    keys: int
    values: int
    results: int
    barriers: int
    total: int


class Consumers:
    """A block of threads whose first warpgroup starts copies; each of ``consumers`` others has 64 rows of a tile."""

    consumers: int

    @property
    def rows(self) -> int:
        return 64 * self.consumers

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)


@dataclass(frozen=True)
class Attention(Consumers):
    """One warpgroup starts copies; ``consumers`` warpgroups have 64 queries each, and walk together over blocks of ``keys`` keys (and of
    values), which come to ``stages`` slots of each.

    ``order``: a block of threads has a ``single`` tile of queries, or takes every so-manieth (``static``), or whenever it has finished one the
    next of a counter (``dynamic``).
    ``turns``: consumers start their products one after the other, so that one's exponentials lie under another's products.
    ``overlap``: the scores of the next keys are multiplied in front of the values of these ones, and the softmax lies under the latter.
    ``apart``: results have shared memory of their own; otherwise they lie where the queries were, which the next ones wait for.
    ``parts``: so many blocks, a cluster, share the keys of a tile, and one or all add up (``adders``).
    ``splits``: so many of these clusters share them, and the last one to arrive adds up what all have left in memory.
    ``bounded``: keys beyond those that the kernel reads to be the last ones, at the call, are not looked at.
    ``pieces``: float32 operands are sums of so many bf16 ones, which a launch in front makes: 3 hold all of their bits, 2 more than TF32 does.
    ``staged``: results are stored by the copy engine, by way of shared memory; otherwise by the threads that have them.
    """

    generator: ClassVar[str] = "attention"
    consumers: int = 2
    keys: int = 128
    stages: int = 2
    order: str = "single"
    turns: bool = True
    overlap: bool = True
    apart: bool = True
    parts: int = 1
    splits: int = 1
    bounded: bool = False
    pieces: int = 1
    staged: bool = True

    @property
    def queries(self) -> int:
        return self.rows

    @property
    def shares(self) -> int:
        """The blocks that share a tile's keys."""
        return self.parts * self.splits

    def shared(self, depth: int, width: int) -> Shared:
        """Queries, slots for keys and for values, results (two buffers of 64 lines a consumer), barriers, and the numbers of tiles."""
        keys = self.pieces * self.queries * lines(depth) * 128
        values = keys + self.pieces * self.stages * self.keys * lines(depth) * 128
        results = values + self.pieces * self.stages * self.keys * lines(width) * 128
        barriers = results + (self.consumers * min(2, lines(width)) * 64 * 128 if self.apart else 0)
        return Shared(keys, values, results, barriers, barriers + 32 * self.stages + 16 * self.consumers + 4 * self.consumers)


def lines(size: int) -> int:
    """Lines of shared memory that a head's row takes."""
    return ceil(size / LINE)


@dataclass(frozen=True)
class Copied:
    """The tensor map of an operand: ``axes`` innermost first, ``strides`` in elements.

    Of a float32 operand they are the tensor's; its pieces lie one behind the other without gaps.
    ``turned``: rows, queries or keys, are innermost.  ``pages``: the rows are a page's, and the last axis is that of pages.
    """

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]
    turned: bool = False
    pages: Pages | None = None

    @property
    def heads(self) -> Int:
        return product(a.size for a in self.axes[2:])


def turned_lines(copied: Copied) -> int:
    """Lines of a panel of 64 rows: one for each column, and for what products of 16 terms have more."""
    return ceil(copied.axes[1].size / 16) * 16


@dataclass(frozen=True)
class AttentionTiling:
    """The loops of attention as axes that every tensor walks with one stride; ``grid`` those of the batch, outermost first."""

    grid: tuple[Axis, ...]
    queries: Axis
    keys: Axis
    depth: Axis
    width: Axis
    q: Copied
    k: Copied
    v: Copied
    writes: tuple[RowWrite, ...] = ()

    @property
    def heads(self) -> Int:
        return product(a.size for a in self.grid)

    @property
    def rows(self) -> int:
        """Of a consumer's 64 those that are queries, at most."""
        return most_rows(self.queries.size)

    def tiles(self, s: Attention) -> Int:
        return self.heads * ceildiv(self.queries.size, s.queries)


def most_rows(queries: Int) -> int:
    return min(64, bounds(queries)[1])


def tile_attention(a: AttentionKernel) -> AttentionTiling | None:
    """The axes of ``a``; None where the copy engine cannot bring an operand."""
    if any(o.prologue is not None for o in (a.q, a.k, a.v)) or not all(g.flat for g in (a.queries, a.keys, a.depth, a.width)):
        return None
    queries, keys, depth, width = (one_axis(g) for g in (a.queries, a.keys, a.depth, a.width))
    grid = tuple(axes(a.batch))
    found = []
    for o, tiled, turned in zip((a.q, a.k, a.v), ((depth, queries), (depth, keys), (width, keys)), turned_operands(a)):
        if o.element.width != 16:
            axes_and_strides = _all_axes(o, tiled, grid)
        else:
            axes_and_strides = direct(o.access, tiled[::-1] if turned else tiled, grid, 2, offset=True)
        pages = o.pages if o.element.width == 16 else None
        if axes_and_strides is not None and pages is not None:
            axes_and_strides = _in_pages(*axes_and_strides, pages)
        if axes_and_strides is None:
            return None
        found.append(Copied(*axes_and_strides, turned, pages))
    writes = row_writes(a, grid, keys, depth, width)
    return AttentionTiling(grid, queries, keys, depth, width, *found, writes) if writes is not None else None


def turned_operands(a: AttentionKernel) -> tuple[bool, bool, bool]:
    """Whether rows are innermost in q, k and v, where they come to shared memory as they are."""
    return tuple(
        o.element.width == 16 and o.access is not None and bool(inner.dims) and inner.size != 1 and o.access.strides[inner.dims[-1]] != 1
        for o, inner in ((a.q, a.depth), (a.k, a.depth), (a.v, a.width))
    )


def _in_pages(found: tuple[Axis, ...], strides: tuple[Int, ...], pages: Pages) -> tuple[tuple[Axis, ...], tuple[Int, ...]] | None:
    """The axes of one page and that of pages; None where tensor maps have no room for it, or the pages are none of theirs."""
    depth, rows, *heads = found
    bytes_between = 2 * pages.of.step
    if len(found) == MOST_AXES or bytes_between % 16 or not 0 < bytes_between < 2**40 or pages.rows % 16:
        return None
    return (depth, replace(rows, size=pages.rows), *heads, Axis((), pages.of.count)), (*strides, pages.of.step)


def _all_axes(o: Operand, tiled: tuple[Axis, Axis], grid: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Int, ...]]:
    found = (*tiled, *(a for a in grid if any(a.stride(x) != 0 for x in o.reads)))
    return found, tuple(a.stride(o.access) for a in found)


def one_axis(group) -> Axis:
    return axes(group)[0] if group.runs else Axis((), 1)


def supported(a: AttentionKernel) -> bool:
    """Whether types and sizes are ones that the generator takes, and it can inline what is done to scores and results."""
    kinds = {str(x) for x in (a.q.element, a.k.element, a.v.element, a.weight)}
    if len(kinds) != 1 or not kinds & {"bf16", "f16", "f32"} or not _has_keys(a):
        return False
    if a.writes and (a.varies or a.blocks is not None or bounds(a.queries.size)[1] > 64 or kinds == {"f32"}):
        return False
    if a.pages and kinds != {"f32"} and (bounds(a.queries.size)[1] > 64 or any(turned_operands(a)[1:])):
        return False
    if not all(isinstance(size, int) for size in (a.depth.size, a.width.size)) or any(size % 8 or size > 256 for size in (a.depth.size, a.width.size)):
        return False
    if a.sink is not None and (not isinstance(a.sink.element, ir.FloatType) or a.scale <= 0):
        return False
    tiles = [*a.score_extras, *a.extras, *(d.access for d in a.destinations)]
    places = [*a.statistics, *(() if a.sink is None else (a.sink,)), *(p.table for p in a.pages)]
    if a.dropout is not None and (a.varies or a.pages or a.writes or a.blocks is not None or a.sink is not None):
        return False
    if kinds == {"f32"}:
        if a.logarithms is not None or a.dropout is not None or max(a.depth.size, a.width.size) > 128 or any(o.access is None for o in (a.q, a.k, a.v)):
            return False
        tiles += [o.access for o in (a.q, a.k, a.v)]
        counts = [reach(_elements(o, a)) for o in (a.q, a.k, a.v)]
        if any(n >= 2**32 if a.varies else PIECES * n >= 2**31 for n in counts):
            return False
    if any(not supported_element(p.element) for p in (*tiles, *places)):
        return False
    if any(reach(product(p.shape)) >= 2**31 for p in (*places, *(a.reach or ())[:1])) or any(_spanned(p, a) >= 2**31 for p in tiles):
        return False
    if any(not isinstance(p.strides[d], int) for p in (*a.extras, *(d.access for d in a.destinations)) for d in a.width.dims):
        return False
    written = {d.access.argument: d.access for d in a.destinations}
    read = [*(o.access for o in (a.q, a.k, a.v)), *a.score_extras, *(() if a.sink is None else (a.sink,)), *(p.table for p in a.pages)]
    if None in read or any(negative(p) and not _falls(p, a) for p in (*read, *tiles, *places)):
        return False
    if len(written) != len(a.destinations) or any(p.argument in written for p in read):
        return False
    if any(e.argument in written and e != written[e.argument] for e in a.extras):
        return False  # in place, an element may only be read by the thread that writes it
    return _has_blocks(a) and all(inlined(m) for m in (a.score, a.epilogue, a.of_logarithm, a.blocks and a.blocks.whole.score))


def _has_keys(a: AttentionKernel) -> bool:
    """Whether there is a key wherever there is a query."""
    return bounds(a.keys.size)[0] >= 1 or quotient(a.queries.size, a.keys.size) is not None


def _spanned(access: Access, a: AttentionKernel) -> int:
    """Elements from the first one to the last that offsets have to reach: of all, or where sizes vary at one place of the batch."""
    if not a.varies:
        return product(access.shape)
    return reach(sum((a.sizes[d] - 1) * s for d, s in enumerate(access.strides) if d not in a.batch.dims) + 1)


def _has_blocks(a: AttentionKernel) -> bool:
    """Whether the table of blocks, if there is one, is read as 32 bits, and sizes are known."""
    if a.blocks is None:
        return True
    table = a.blocks.table
    return not a.varies and not a.pages and not negative(table) and product(table.shape) < 2**31 and not any(
        d.access.argument == table.argument for d in a.destinations)


def negative(access: Access) -> bool:
    return any(bounds(s)[0] < 0 for s in (*access.strides, access.offset))


def _is_new(a: AttentionKernel) -> bool:
    """Whether no GPU has run such a kernel yet."""
    of_lists = a.blocks is not None and a.q.element.width != 16
    dropped = a.dropout is not None and not is_timed(a.depth.size, a.width.size, a.keys.size)
    return of_lists or dropped or (bool(a.pages) and not _timed(a))


def _timed(a: AttentionKernel) -> bool:
    """Whether keys and values in pages were timed beside the gather and what reads its copy (docs/attention.md): the gather took 1.7 to 3.2 times as
    long."""
    of_type = all(isinstance(o.element, ir.BF16Type) and o.pages is not None for o in (a.k, a.v)) and a.depth.size == a.width.size == 128
    return of_type and not a.varies and a.queries.size <= FEW_ROWS and all(p.rows <= _MOST_ROWS for p in a.pages)


def _falls(access: Access, a: AttentionKernel) -> bool:
    """Whether what is read for scores may lie the farther in front the later a key or query is, as a bias by their distance does: each offset as a
    whole is that of an element."""
    small = reach(product(access.shape)) < 2**31
    return access in a.score_extras and not a.varies and small and access.offset >= 0


def inlined(map_: Map | None) -> bool:
    return map_ is None or (supported_body(map_.generic) and not walk(map_.generic, "tensor.extract"))


def read(kernel: func.FuncOp, target: Target) -> tuple[AttentionKernel, AttentionTiling] | None:
    """What ``kernel`` computes, if it is attention of a kind that can be generated."""
    a = parse_attention(kernel) if target.hopper else None
    tiling = tile_attention(a) if a is not None and supported(a) else None
    return (a, tiling) if tiling is not None else None


# Numbers of 32 bits a thread that scores, weights, sums and what is read for scores may take together, by the number of consumers (ptxas: 176
# keys of 128 columns and 64 of 256 still have their place in 240 registers, 256 keys of 64 columns or 80 of 256 do not; 128 keys of 64 columns
# in 160 do).
_HELD = {1: 212, 2: 212, 3: 136}


_DRAWN = 8  # what random numbers are computed in: 128 keys of 64 columns are spilt with three consumers


def pieces_of(a: AttentionKernel) -> int:
    """Of how many pieces operands are."""
    return 1 if a.q.element.width == 16 else 2 if a.tf32 else PIECES


def fits(s: Attention, a: AttentionKernel, target: Target) -> bool:
    """Whether a block's shared memory and a thread's registers suffice."""
    of_q, *of_keys = turned_operands(a)
    if a.blocks is not None and (s.shares > 1 or a.blocks.queries % s.queries or a.blocks.keys % s.keys):
        return False
    if (s.bounded and a.reach is None) or (any(of_keys) and s.keys % LINE) or (of_q and not s.apart):
        return False
    if s.shares > 1:
        sums = 4 * most_rows(a.queries.size) * (a.width.size + GAP + 3)  # of a block, with what goes with a row, where its operands were
        if a.logarithms is not None or a.dropout is not None or s.splits > _MOST_SPLITS or sums > s.shared(a.depth.size, a.width.size).barriers:
            return False
        tiles = product(a.batch.sizes) * ceildiv(a.queries.size, 64)
        if s.splits > 1 and reach(tiles * s.splits * sums) >= 2**31:
            return False
    if a.pages and s.pieces == 1 and (s.consumers > 1 or any(p.rows % s.keys and s.keys % p.rows for p in a.pages)):
        return False
    if a.writes and s.order == "dynamic":
        return False  # a block of threads does not know its tiles when it begins
    if s.pieces != pieces_of(a) or (s.pieces > 1 and (s.overlap or s.turns or s.consumers > 2)):
        return False
    depth, width = a.depth.size, a.width.size
    blocks = ceildiv(a.keys.size, s.keys)
    if s.shares > 1 and (s.order != "single" or s.consumers != 1 or s.parts > 8):
        return False
    if isinstance(blocks, int) and (s.shares - 1) * ceil(blocks / s.shares) >= blocks:
        return False  # one of them would have none
    if s.consumers not in _HELD or s.keys % 16 or not 16 <= s.keys <= 256 or s.order not in ORDERS or (s.turns and s.consumers == 1):
        return False
    return held(s, a) <= _HELD[s.consumers] and s.stages >= (2 if s.pieces == 1 else 1) and s.shared(depth, width).total <= target.shared


def held(s: Attention, a: AttentionKernel) -> int:
    """Numbers of 32 bits that a thread has at a time."""
    # Of masked blocks of lists it is read where it is needed.
    of_blocks = a.score_extras if a.blocks is None or not a.blocks.whole.differs else sources(a.blocks.whole.score)
    read = sum(max(2, bit_width(x.element) // 8) for x in of_blocks if any(x.strides[d] for d in a.keys.dims))
    if s.pieces > 1:  # scores and what is read for them, or pieces of weights and a line of products
        return (a.width.size // 2 + max(s.keys * (2 + read // 2) // 4, s.keys * s.pieces // 4 + min(a.width.size, LINE) // 2))
    return s.keys * (3 + read // 2) // 4 + a.width.size * 5 // 8 + (_DRAWN if a.dropout is not None else 0)


def choose(kernel: func.FuncOp, target: Target) -> Attention | None:
    """The schedule with the lowest estimate if ``kernel`` is attention for Hopper's tensor cores, else None."""
    found = read(kernel, target)
    if found is not None and _is_new(found[0]) and not takes_unmeasured(kernel.operation):
        return None
    if found is not None and found[0].varies:
        from inferno.schedule.attention_by_size import for_sizes  # which is made of this module's

        return for_sizes(*found, target)
    made = candidates(*found, target) if found is not None else []
    times = [(estimate(s, *found, target), s) for s in made]
    if not times:
        return None
    best = min(times, key=lambda item: item[0])[1]
    return completed(best, found[0])


def completed(s: Attention, a: AttentionKernel) -> Attention:
    """The schedule with what is never worse."""
    return replace(s, bounded=a.reach is not None, staged=s.shares == 1 or most_rows(a.queries.size) > FEW_ROWS)


def stores_sums(s: Attention, a: AttentionKernel) -> bool:
    """Whether what shares add up to is stored by the threads that add; otherwise it goes back to those that multiply."""
    return s.shares > 1 and not s.staged and a.epilogue is None


def adders(s: Attention, a: AttentionKernel) -> int:
    """Blocks of a cluster, each of which adds up as many whole rows of the clusters' shares.  (One query, 4 heads of keys of 32: 32768 keys in
    2 parts and 16 splits 20.5 us, by one block 21.0; 2 heads 12.1 and 14.5.)"""
    return s.parts if stores_sums(s, a) and s.splits > 1 and most_rows(a.queries.size) % s.parts == 0 else 1


def candidates(a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At = hint) -> list[Attention]:
    """Schedules that may be the best; where sizes vary, ``at`` says which ones."""
    found, pieces = [], pieces_of(a)
    for consumers, keys in itertools.product((2, 3, 1), range(192, 0, -16)):
        if consumers > ceil(at(tiling.queries.size) / 64):
            continue
        if pieces == 1:
            forms = [
                Attention(consumers, keys, stages, "single", consumers > 1, apart=apart)
                for stages, apart in ((3 if consumers == 1 else 2, True), (2, True), (2, False))
            ]
        else:
            forms = [
                Attention(consumers, keys, stages, "single", False, False, apart, pieces=pieces)
                for stages, apart in ((2, True), (1, True), (2, False), (1, False))
            ]
        first = next((s for s in forms if fits(s, a, target)), None)
        if first is not None:
            found += [first, *_shared_out(first, a, tiling, target, at)]
    roomy = [s for s in found if held(s, a) <= _ROOMY or s.keys <= 64]
    return roomy or found


def _shared_out(s: Attention, a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At) -> Iterator[Attention]:
    """``s`` with more tiles than blocks, or with several blocks for a tile."""
    tiles = at(tiling.tiles(s))
    if tiles > target.multiprocessors and s.apart and (not a.uneven or a.depth.size + a.width.size <= _WIDE):
        yield replace(s, order="dynamic" if a.uneven else "static")
    blocks = ceil(at(a.keys.size) / s.keys)
    for parts in range(1, 9):
        most = clusters_at_once(parts, target.multiprocessors) // tiles
        # As few clusters as give none more blocks of keys.
        wanted = {ceil(blocks / (parts * ceil(blocks / (parts * n)))) for n in (most, most * 3 // 4, most // 2, most // 4, 1) if 0 < n <= most}
        for splits in sorted(wanted):
            if parts * splits > 1 and fits(made := replace(s, parts=parts, splits=splits), a, target):
                yield made


def estimate(s: Attention, a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At = hint) -> float:
    """Microseconds: a block of keys after the other, and what a tile takes beside.  Where tiles are equally long whole rounds of them."""
    depth, width = a.depth.size, a.width.size
    each_product, each_key, each_block = _CLOCKS[s.consumers]
    multiply = s.queries * s.keys * (depth + width) / 2048 * _PRODUCTS[s.pieces]
    copy = s.pieces * s.keys * (lines(depth) + lines(width)) * 128 / _COPY_RATE
    if s.pieces > 1:
        each_key, each_block = each_key + _SPLIT_KEY, each_block + (_ONE_SLOT if s.stages == 1 else 0)
    block, seen, rows = max(each_product * multiply + each_key * s.keys + each_block, copy), _seen(s, a, at), min(64, at(a.queries.size))
    few, single = rows <= FEW_ROWS, s.order == "single"
    beside = _FEW if few else _TILE if single else _NEXT_TILE
    tiles = [ceil(n / s.shares) * block + beside + (0 if s.apart else _IN_PLACE) for n in seen]
    rounds = at(tiling.tiles(s)) * s.shares / target.multiprocessors
    clocks = ceil(rounds) * max(tiles) if a.band is None or rounds <= 1 else rounds * sum(tiles) / len(tiles) + max(tiles) / 2
    moved = _moved(s, a, seen, at)
    busy = min(1.0, rounds)
    memory = moved / (_MEMORY_RATE * busy**_BUSY if moved > _L2 else _L2_RATE) / (_OF_CLUSTERS if s.parts > 2 else 1)
    time = ((clocks / CLOCK)**_SHARP + memory**_SHARP)**(1 / _SHARP)
    if few and single:
        time += _NEXT_BLOCK * (ceil(rounds) - 1)
    if s.parts > 1:
        time += _PARTS + _PARTS_EACH * s.parts
    if s.splits > 1:
        places = max(1, rows * width / _ADDED / adders(completed(s, a), a))
        time += _SPLITS + (_SPLITS_EACH + _SPLITS_PLACE * places) * s.splits + (_BOTH if s.parts > 1 else 0)
    if s.pieces > 1:
        time += _PIECES + sum(10 * at(_elements(o, a)) for o in (a.q, a.k, a.v)) / _MEMORY_RATE
    return _START + (_COUNTER if s.order == "dynamic" else 0) + time


def _moved(s: Attention, a: AttentionKernel, seen: Sequence[int], at: At) -> float:
    """Bytes: queries, as many results, and once the keys and values that are seen."""
    q, *others = (at(_elements(o, a)) * bit_width(o.element) // 8 for o in (a.q, a.k, a.v))
    return 2 * q + sum(others) * min(1.0, sum(seen) * s.keys / at(a.keys.size))


def _elements(o: Operand, a: AttentionKernel) -> Int:
    """Of an operand; of pages those that the tables say."""
    return product(o.access.shape) if o.pages is None else product(n for d, n in enumerate(a.sizes) if any(x.strides[d] for x in o.reads))


def _seen(s: Attention, a: AttentionKernel, at: At) -> list[int]:
    """Blocks of keys that the tiles of a head see."""
    keys, low, high = at(a.keys.size), *(None if end is None else at(end) for end in ((None, None) if a.band is None else (a.band.low, a.band.high)))
    found = []
    for first in range(0, at(a.queries.size), s.queries):
        end = keys if high is None else min(keys, max(1, first + s.queries + high))
        begin = 0 if low is None else min(end - 1, max(0, first + low))
        found.append(ceil(end / s.keys) - begin // s.keys)
    return found


# What a block of keys takes, by the number of consumers: this share of its products' clocks, clocks for each key, and others.  Fitted to 150 times
# of 17 shapes on an H200, as all that follows: 4x32x4096x128 in blocks of 128 keys 1549 us, of 144 1665, with three consumers and 64 keys 1716;
# 2x16x8192x64 with two consumers and 192 keys 1182, with three and 128 1047, and 96 1081; 2x16x4096x256 in blocks of 64 keys 736; 2x16x4096x80 with
# two consumers and 160 keys 353, with three and 112 335, and 96 352.
_CLOCKS = {1: (0.75, 2.7, 500), 2: (0.65, 6.0, 620), 3: (0.75, 7.1, 480)}
_ROOMY = 185  # numbers of a thread beyond which ptxas has too little room to overlap (4x32x4096x128 in blocks of 176 keys: 1804 us)
# Columns of keys and values from which on tiles of different lengths are begun as there is room for them, not by the counter (2x16x4096x256,
# causal: 395 and 456 us).
_WIDE = 256
# Clocks of a tile beside its blocks: where each has a block of threads of its own, or the next one's begin meanwhile (4x32x1024x128, causal: 84.3
# and 71.8 us; 8x12x197x64: 7.5 and 6.2); and where results take the place of queries (4x32x4096x128, causal: 905 and 938).
_TILE, _NEXT_TILE, _IN_PLACE = 3500, 1000, 1500
_START, _COUNTER = 2.5, 1.5  # microseconds (1x32x512x128: 8.6 in single tiles, 10.3 by the counter)
_COPY_RATE = 60  # bytes a clock (an estimate)
# One query's tile takes nearly nothing beside (1x32x512x128 of 8 heads of keys, a block of threads each: 6.7 us; 2048 keys: 18.9; 8192: 69.7).
_FEW, FEW_ROWS = 200, 16
# Microseconds of a block of threads that follows another one (64x32x512x128: 38.1, and 36.7 where tiles have none of their own).
_NEXT_BLOCK = 0.4
# Bytes a microsecond, of memory (64x32x4096x128: 257 us), and of L2 (1x32x8192x128 of 8 heads of keys in 16 splits: 9.9 us; from memory 12.9), where
# so many keys and values have room.
_MEMORY_RATE, _L2_RATE, _L2 = 4.15e6, 6.4e6, 48e6
# The share of it that clusters of more than two blocks have (8x32x8192x128 of 4 heads of keys: 42.2 us in clusters of 3, 37.2 of 2), and the exponent
# of the norm of its time and that of clocks, which is more than the larger where they are alike (8 heads of keys: 72.6 us where both are 65).
_OF_CLUSTERS, _SHARP = 0.85, 8
# The power of the share of multiprocessors that have something to do by which their number tells in memory's rate (32768 keys: 8 heads of keys by 96
# blocks 42.4 us, by 128 36.1; 4 heads 25.3 and 21.9; 8x32x4096x128 of 4 heads of keys 23.1 and 19.8).
_BUSY = 0.6
# Microseconds that sharing keys takes: by the blocks of a cluster, and for each; by memory, for each share, and for each of its places that a thread
# adds up; and by both.  Of one query, 32 heads of 128 columns: 8 heads of keys, 512 keys in 4 parts 3.8, in 4 splits 4.4; 4096 in 16 splits 6.3, in 2
# parts and 8 splits 6.7; 32768 34.8 and 34.8; 4 heads, 4096 keys in 16 splits 6.0, in 2 parts and 8 splits 5.9 (by one adder 6.4), and 16 splits 6.3 (6.7),
# in 4 and 4 6.1 (6.4); 32768 in 32 splits 22.1, in 2 parts and 16 splits 20.5 (21.0); 2 heads, 32768 in 2 parts and 32 splits 12.1 (14.5), in 7 and 7 12.2.
_PARTS, _PARTS_EACH, _SPLITS, _SPLITS_EACH, _SPLITS_PLACE, _BOTH = 0.1, 0.15, 0.8, 0.05, 0.035, 0.55
_ADDED = 512  # numbers that the threads of a block add up at a time
_MOST_SPLITS = 255  # that can be counted
# Of operands in pieces (estimates): products, clocks for each key that weights take, those of a block that waits for its only slot, and what the
# launch in front takes in microseconds.
_PRODUCTS = {1: 1, 2: 3, 3: 6}
_SPLIT_KEY, _ONE_SLOT, _PIECES = 6, 500, 2.0

"""The schedule of contractions on Hopper's tensor cores, bf16, f16 and TF32 products with sums in float32: what it says, what it needs of a GPU, and
which contractions it is for."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func, walk
from inferno.passes.programs import takes_tf32
from inferno.schedule.analysis.cost import At
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.shared_tiles import height
from inferno.schedule.tiles.tiling import Tiling, shortest_part
from inferno.symbolic import Int, bounds, product, reach
from inferno.target import Target, clusters_at_once

FEW = 64  # rows that are multiplied together, however few there are

@dataclass(frozen=True)
class Shared:
    """Where things lie in a block's dynamic shared memory, in bytes."""

    lhs: int
    rhs: int
    results: int
    raw: int
    barriers: int
    total: int
    brought: int = 0


@dataclass(frozen=True)
class Wgmma:
    """One warpgroup copies tiles of the operands into ``stages`` slots; ``consumers`` warpgroups multiply.

    A tile of ``tile_m`` x ``tile_n`` results belongs to all consumers, by rows, or with ``pingpong`` to one of them, while the
    other writes its own.  ``cluster`` blocks along m share the tiles of the rhs, or with ``across`` blocks along n those of the lhs.
    ``persistent`` blocks walk over tiles, down columns of ``group`` tiles, so that blocks that run together share operands in L2.
    ``buffers`` for results a consumer.
    ``split`` blocks, a cluster, share the terms of one tile and add up in the first one's registers: for few, long sums.  With ``spread`` each of them
    adds up and finishes ``share`` of the columns, in turn, which takes less time where a tile is large.
    With ``sends`` they do not read each other's sums when all are there, but write theirs to where the one that adds them waits.
    ``lhs_rows``: if not 0, only so many rows of the lhs come to shared memory, all that there are.  The tensor core takes what lies
    behind them for the others of its 64, whose sums are dropped.  A slot holds ``chunks`` tiles along k.
    ``stream``: the last tiles are dealt out to the blocks by their terms, evenly; who has a tile's first terms adds the others' sums, which
    come through the workspace.  With ``parts`` all tiles are dealt out, each to so many blocks, or clusters that share tiles; the first of them has
    ``lead`` steps more, while the others' sums are on their way.
    ``panel``: columns that a box of the rhs has where n is innermost.  ``inside``: the last tile's rows begin where they all lie in
    the tensor; some are computed twice, and written twice alike.
    ``swapped``: the sides of the contraction have each other's place: rows of the results are a tile's columns, of which there may be any
    multiple of 8 (of 64 its rows), and a tile is transposed on its way to memory.
    ``resident``: blocks that a multiprocessor has at a time, each with its share of the shared memory and of the registers.
    ``bring``: if not 0, tensors of the results' size that the end of a tile reads come to shared memory, by the copy engine while products run, to
    so many slots of 64 rows a consumer.
    ``registers``: the lhs, TF32 with its terms outermost, goes to the tensor core by registers.  ``rewrite``: prologues are applied to tiles in shared
    memory, by warps of the first ``helpers`` warpgroups, from ``raw`` slots; otherwise they are computed to temporaries first.
    ``row``: bytes along k of a tile's row, 32, 64 or 128, and the span of its swizzle.
    ``line``: if not 0, a tile has whole lines of the result, of so many bytes, which are neighbours in memory: what a consumer has of a tile is written
    as one piece.  ``by_threads``: threads write results, sectors of 32 bytes, without staging.
    ``kept``: if not 0, all tiles have the same columns, whose so many steps of the rhs are brought to shared memory once.
    """

    generator: ClassVar[str] = "wgmma"

    tile_m: int = 128
    tile_n: int = 256
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    pingpong: bool = False
    persistent: bool = True
    group: int = 8
    buffers: int = 2
    rewrite: bool = True
    raw: int = 2
    split: int = 1
    lhs_rows: int = 0
    chunks: int = 1
    spread: bool = False
    stream: bool = False
    across: bool = False
    helpers: int = 1
    panel: int = 64
    inside: bool = False
    swapped: bool = False
    resident: int = 1
    bring: int = 0
    registers: bool = False
    row: int = ROW
    line: int = 0
    by_threads: bool = False
    kept: int = 0
    parts: int = 0
    lead: int = 0
    sends: bool = False

    @property
    def rows(self) -> int:
        """Rows of a tile that one consumer multiplies."""
        return self.tile_m if self.pingpong else self.tile_m // self.consumers

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster * self.split

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + self.helpers)

    @property
    def sharing(self) -> tuple[int, int]:
        """Blocks that share a tile of the lhs, and of the rhs."""
        return (self.cluster, 1) if self.across else (1, self.cluster)

    @property
    def share(self) -> int:
        """Columns that a block of a cluster finishes at a time: an equal share, or as few as the copy engine writes."""
        return self.tile_n // self.split if self.tile_n % (32 * self.split) == 0 else 32

    @property
    def sent(self) -> int:
        """Bytes of the sums that the other blocks of a cluster send to one."""
        return (self.split - 1) * self.tile_m * self.share * 4 if self.sends else 0

    @property
    def lhs_height(self) -> int:
        """Rows of the lhs's tile in shared memory."""
        return self.lhs_rows or self.tile_m

    @property
    def staging(self) -> int:
        """Bytes of a consumer's buffers for results: 64 rows of up to 128 bytes, or all its rows."""
        return 0 if self.by_threads else self.buffers * (self.rows * self.line or 64 * ROW)

    def shared(self, raw_bytes: int = 0, rhs_height: int = 0) -> Shared:
        """Slots for the operands, staging for results (64 rows of up to 128 bytes each), as much for what is brought, ``raw`` slots of
        ``raw_bytes``, then barriers.  ``rhs_height``: rows of the rhs's tile, if they are more than ``tile_n``."""
        slots = self.stages * self.chunks * self.row
        rhs = _aligned(slots * self.lhs_height)
        results = rhs + _aligned((self.kept * self.row or slots) * (rhs_height or self.tile_n))
        brought = results + max(self.consumers * self.staging, self.sent)  # sums are sent to where results are staged later
        raw = brought + self.consumers * self.bring * 64 * ROW
        barriers = raw + self.raw * raw_bytes
        total = barriers + 16 * self.stages + 16 + 16 * self.raw + 16 * self.consumers * self.bring + (8 if self.kept or self.sends else 0)
        return Shared(0, rhs, results, raw, barriers, total, brought)


def _aligned(size: int) -> int:
    """Tiles begin where their swizzle does, whatever its span."""
    return ceil(size / (8 * ROW)) * 8 * ROW


def has_few_rows(c: Contraction, tiling: Tiling, at: At) -> bool:
    """Whether one tile's rows are more than there are, and the other factor is what takes the time; windows of images are no such factor."""
    return at(tiling.m.size) <= FEW and not c.rhs.has_windows


def precision(kernel: func.FuncOp, c: Contraction) -> str | None:
    """``bf16``, ``f16`` or ``tf32``: what the tensor core multiplies; None where it cannot."""
    kind = str(c.lhs.element)
    if str(c.accumulator) != "f32" or c.rhs.element != c.lhs.element:
        return None
    if kind in ("bf16", "f16"):
        return kind if c.lhs.extend == c.rhs.extend == "arith.extf" else None
    return "tf32" if kind == "f32" and (c.tf32 or takes_tf32(kernel)) else None


@kept_with
def supported(c: Contraction) -> bool:
    """Whether the epilogue's types and operations are ones that the generator can inline."""
    places = [*c.extras, *(d.access for d in c.destinations)]
    if any(not supported_element(p.element) or reach(product(p.shape)) >= 2**31 for p in places):
        return False
    written = {d.access.argument: d.access for d in c.destinations}
    if len(written) != len(c.destinations) or any(p.argument in written for p in (*c.lhs.reads, *c.rhs.reads)):
        return False
    # In place, an element may only be read by the thread that writes it.
    if any(e.argument in written and e != written[e.argument] for e in c.extras):
        return False
    return c.epilogue is None or (supported_body(c.epilogue.generic) and not walk(c.epilogue.generic, "tensor.extract"))


def raw_bytes(s: Wgmma, tiling: Tiling, depth: int) -> tuple[int, int]:
    """Bytes of a raw slot's parts: what the lhs and the rhs are made of, for those that are rewritten in shared memory."""
    return tuple(
        0 if o.raw is None else rows * depth * element_bytes(o.raw.element)
        for rows, o in ((s.lhs_height, tiling.lhs), (s.tile_n, tiling.rhs))
    )


def is_of_bytes(tiling: Tiling) -> bool:
    """Whether tiles are made of bytes, in shared memory."""
    return any(o.raw is not None and bit_width(o.raw.element) == 8 for o in (tiling.lhs, tiling.rhs))


def fit(s: Wgmma, c: Contraction, tiling: Tiling, target: Target) -> Wgmma | None:
    """``s`` with as many stages as shared memory holds beside raw slots, which are no more; None if that is less than 2, or too few for the
    sums that the blocks of a cluster leave in them."""
    raw = sum(raw_bytes(s, tiling, s.row // element_bytes(c.lhs.element)))
    rhs = height(s.tile_n, tiling.rhs.along_k, s.panel)
    for stages in range(s.stages, 1, -1):
        slots = min(s.raw, max(2, stages))
        made = s if (stages, slots) == (s.stages, s.raw) else replace(s, stages=stages, raw=slots)
        shared = made.shared(raw, rhs)
        if shared.total <= shared_of_block(s, target):
            return made if s.split == 1 or s.sends or s.tile_m * s.tile_n * 4 <= shared.results else None
    return None


def leaves_half(s: Wgmma, target: Target) -> bool:
    """Whether a block of it leaves half of a multiprocessor's shared memory; of tiles that are not rewritten, with k innermost."""
    return s.resident == 1 and s.shared(0, s.tile_n).total <= shared_of_block(replace(s, resident=2), target)


def shared_of_block(s: Wgmma, target: Target) -> int:
    """Bytes of shared memory that a block may have: a multiprocessor has 1 KB more than one may have at most, and each takes 1 KB beside."""
    return (target.shared + 1024) // s.resident // 128 * 128 - 1024


def rows_there_are(s: Wgmma, tiling: Tiling) -> int:
    """``lhs_rows`` where one tile of 128 rows has them all (72x5120x5120: 25.4 us without, 19.2 with them; 100x2048x5632: 13.6 and 9.9)."""
    rows = 8 * ceil(bounds(tiling.m.size)[1] / 8) if tiling.lhs.along_k and isinstance(tiling.m.size, int) else 0
    return rows if 64 < rows < s.tile_m == 128 else 0


def lies_inside(s: Wgmma, c: Contraction, tiling: Tiling) -> bool:
    """Whether the last tile may begin earlier, and has a reason to: rows outside of a tensor take the copy engine longer than those inside
    (200x6144x2048: 23.0 us, and 15.1; 136x3584x4608: 19.0 and 13.3; 300x1024x4096: 8.8 and 7.0)."""
    m, written = tiling.m.size, {d.access.argument for d in c.destinations}
    if not isinstance(m, int) or m < s.tile_m or m % s.tile_m == 0 or s.stream or s.cluster > 1:
        return False
    if not tiling.lhs.along_k or (tiling.lhs.raw is not None and not tiling.lhs.raw_along_k):
        return False  # along its lines the copy engine begins at any 16 bytes (99 rows, of which the last 64 begin at byte 70: an illegal instruction)
    return not any(e.argument in written for e in c.extras)  # computed again from what is there by then, it would be wrong


def splits(s: Wgmma, tiling: Tiling, width: int, target: Target, at: At) -> bool:
    """Whether all clusters run at once and every block has a few terms."""
    steps = tiling.k_steps(s.chunks * s.row // width)
    few = at(tiling.tiles(s.tile_m, s.tile_n)) <= clusters_at_once(s.split, target.multiprocessors)
    return few and ceil(at(steps) / s.split) >= 4 and shortest_part(steps, s.split) > 0


_RUNS = 3  # of a tile at most, beside the ones that lie in two tiles


def deals(tiles: Int, steps: Int, blocks: int) -> bool:
    """Whether the steps of so many tiles can be dealt out to so many blocks, or clusters: each has a tile's at least, or a third of one's."""
    return isinstance(tiles, int) and isinstance(steps, int) and (tiles >= blocks or (_RUNS * tiles >= blocks and steps >= 32))


def parts_run_at_once(s: Wgmma, tiles: Int, steps: Int, blocks: int) -> bool:
    """Whether so many blocks, or clusters, are enough for all parts of all tiles, of which each has steps."""
    known = s.parts > 1 and s.lead >= 0 and isinstance(tiles, int) and isinstance(steps, int)
    return known and s.parts * tiles <= blocks and s.lead + (s.parts - 1) * ceil((steps - s.lead) / s.parts) < steps


def streams(s: Wgmma, tiling: Tiling, target: Target) -> bool:
    """Whether each block has a tile's steps at least, of a number that is known, and whole rounds are not as good."""
    (lhs, rhs), at_once = s.sharing, clusters_at_once(s.cluster, target.multiprocessors)
    tiles, steps = tiling.tiles(s.tile_m * rhs, s.tile_n * lhs), tiling.k_steps(1)
    if not isinstance(tiles, int) or not isinstance(steps, int):
        return False
    return tiles > at_once and tiles % at_once != 0


def takes_shares(s: Wgmma) -> bool:
    """Whether the blocks of a cluster that have parts of the terms can each finish a share of the columns, of which each has one where it is sent to them."""
    return s.split > 1 and s.tile_n % s.share == 0 and (not s.sends or s.share * s.split == s.tile_n)


def has_parts(s: Wgmma, tiling: Tiling, width: int, target: Target) -> bool:
    """Whether ``parts`` of all tiles run at once, each is of a few terms, and a thread holds its sums beside those it reads (160 of 256x160 spill)."""
    (lhs, rhs), steps = s.sharing, tiling.k_steps(s.chunks * s.row // width)
    tiles, at_once = tiling.tiles(s.tile_m * rhs, s.tile_n * lhs), clusters_at_once(s.cluster, target.multiprocessors)
    return s.stream and s.rows * s.tile_n <= 128 * 128 and parts_run_at_once(s, tiles, steps, at_once) and steps >= s.lead + 4 * s.parts

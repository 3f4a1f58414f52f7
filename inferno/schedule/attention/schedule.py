"""The schedule of attention on Hopper's tensor cores: which queries and keys a block has at a time, and who gets which."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.schedule.attention.kernel import AttentionKernel
from inferno.symbolic import Int, bounds

LINE = 64  # elements of 16 bits in a line of shared memory, 128 bytes: the span of the swizzle
WIDE_LINE = 32  # the same of float32
WARPS = 4  # of a consumer
ORDERS = ("single", "static", "dynamic", "even")
PIECES = 3  # of bf16 that hold a float32
GAP = 8  # numbers behind a row of sums in shared memory, by which the next row is in other banks
FEW_ROWS = 16  # queries of a head that are few


@dataclass(frozen=True)
class Shared:
    """Where things lie in a block's dynamic shared memory, in bytes."""

    keys: int
    values: int
    factors: int
    results: int
    masks: int
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

    ``order``: a block of threads has a ``single`` tile of queries, or takes every n-th, of n blocks (``static``), or whenever it has finished one the
    next of a counter (``dynamic``); or all have equally many blocks of keys (``even``), some of them of a tile that two share (``even_shares``).
    ``turns``: consumers start their products one after the other, so that one's exponentials lie under another's products.
    ``overlap``: the scores of the next keys are multiplied in front of the values of these ones, and the softmax lies under the latter.
    ``apart``: results have shared memory of their own; otherwise they lie where the queries were, which the next ones wait for.
    ``parts``: so many blocks, a cluster, share the keys of a tile, and one or all add up (``adders``).
    ``splits``: so many of these clusters share them, and the last one to arrive adds up what all have left in memory.
    ``bounded``: keys beyond those that the kernel reads to be the last ones, at the call, are not looked at.
    ``pieces``: float32 operands are sums of so many bf16 ones, which a launch in front makes: 3 hold all of their bits, 2 more than TF32 does.
    ``cut``: the producer makes these itself, on their way to shared memory; ``resident`` such blocks share a multiprocessor.
    ``warp_rows``: a tile has so many queries, 8 or 16, of float32, which each warp multiplies with keys of its own (``warps``).
    ``masks``: the bytes of an element of each of the tensors that are read for scores and come to shared memory, as many slots of them as of keys.
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
    cut: bool = False
    resident: int = 1
    staged: bool = True
    warp_rows: int = 0
    masks: str = ""

    @property
    def queries(self) -> int:
        return self.warp_rows or self.rows

    @property
    def line(self) -> int:
        """Elements of an operand in a line of shared memory."""
        return WIDE_LINE if self.warp_rows else LINE

    @property
    def warp_keys(self) -> int:
        """Of a block's keys those that a warp multiplies."""
        return self.keys // WARPS if self.warp_rows else self.keys

    @property
    def shares(self) -> int:
        """The blocks that share a tile's keys."""
        return self.parts * self.splits

    def shared(self, depth: int, width: int) -> Shared:
        """Queries, slots for keys and for values, queries as factors, results (two buffers of 64 lines a consumer, or what warps have of a tile), slots for
        masks, barriers, and the numbers of tiles."""
        of_depth, of_width = (lines(size, self.line) * 128 for size in (depth, width))
        keys = self.pieces * self.queries * of_depth
        values = keys + self.pieces * self.stages * self.keys * of_depth
        factors = values + self.pieces * self.stages * self.keys * of_width
        results = factors + 2 * self.warp_rows * of_depth
        if self.warp_rows:
            masks = results + WARPS * sums_bytes(self.warp_rows, width)
        else:
            masks = results + (self.consumers * min(2, lines(width)) * 64 * 128 if self.apart else 0)
        barriers = masks + self.stages * self.mask_slot.bytes
        total = self.mask_barriers(barriers) + 16 * self.stages if self.masks else barriers + 32 * self.stages + 20 * self.consumers
        return Shared(keys, values, factors, results, masks, barriers, total)

    @property
    def mask_slot(self) -> "MaskSlot":
        return MaskSlot(self.masks, self.keys, self.queries)

    def mask_barriers(self, barriers: int) -> int:
        """Where those of masks are: behind the others, and the numbers of tiles."""
        return barriers + 32 * self.stages + 16 * self.consumers + 16


@dataclass(frozen=True)
class MaskSlot:
    """What comes to shared memory for the scores of a tile's block, of tensors whose elements have the bytes that a schedule's ``masks`` says: panels
    of 128 bytes of each of ``lines`` lines, which have ``inner`` numbers."""

    masks: str
    inner: int
    lines: int

    @property
    def panels(self) -> list[int]:
        """Of each tensor."""
        return [ceil(self.inner * int(size) / 128) for size in self.masks.split()]

    @property
    def bytes(self) -> int:
        return sum(self.panels) * self.lines * 128


def lines(size: int, line: int = LINE) -> int:
    """Lines of shared memory that a head's row takes."""
    return ceil(size / line)


def sums_bytes(rows: int, width: int) -> int:
    """What shared memory has of the sums of so many rows, with three numbers that go with each."""
    return 4 * rows * (width + GAP + 3)


def most_rows(queries: Int) -> int:
    """The most rows of a tile of queries."""
    return min(64, bounds(queries)[1])


def tile_rows(s: Attention, queries: Int) -> int:
    """Of a tile's rows those that are queries, at most; of a consumer's 64 where it has so many."""
    return min(most_rows(queries), s.queries)


def pieces_of(a: AttentionKernel) -> int:
    """Of how many pieces operands are that the tensor core multiplies as bf16."""
    return 1 if a.q.element.width == 16 else 2 if a.tf32 else PIECES


def completed(s: Attention, a: AttentionKernel) -> Attention:
    """The schedule with what is never worse."""
    staged = not s.warp_rows and (s.shares == 1 or most_rows(a.queries.size) > FEW_ROWS)
    return replace(s, bounded=a.reach is not None, staged=staged)


def stores_sums(s: Attention, a: AttentionKernel) -> bool:
    """Whether what shares add up to is stored by the threads that add; otherwise it goes back to those that multiply."""
    return (s.shares > 1 or s.warp_rows > 0) and not s.staged and a.epilogue is None


def adders(s: Attention, a: AttentionKernel) -> int:
    """Blocks of a cluster, each of which adds up as many whole rows of the clusters' shares.  (One query, 4 heads of keys of 32: 32768 keys in
    2 parts and 16 splits 20.5 us, by one block 21.0; 2 heads 12.1 and 14.5.)"""
    return s.parts if stores_sums(s, a) and s.splits > 1 and tile_rows(s, a.queries.size) % s.parts == 0 else 1

"""Gradients of scores that attention's backward writes to memory, for the product with keys that is the gradient of queries.

The kernel of keys and values leaves them there for some heads, and a second one reads them; then both go on with the next heads, in the same place.
"""

from dataclasses import dataclass, replace
from math import ceil

from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.schedule import LINE, Consumers, lines
from inferno.target import Target

# Bytes that are kept at a time: 64 heads of 2048 queries and keys.
KEPT = 1 << 29
# Bytes that come from memory in a microsecond, of an H200 (a copy's), and what a launch takes at least.
_MEMORY, _START = 4.2e6, 2.5


@dataclass(frozen=True)
class SharedSums:
    """Where things lie in a block's dynamic shared memory, in bytes: ``slots`` of ``slot`` bytes, of which the first ``keys`` are gradients of scores,
    results, barriers, and the numbers of tiles."""

    slot: int
    keys: int
    results: int
    barriers: int
    total: int


@dataclass(frozen=True)
class QuerySums(Consumers):
    """As ``AttentionGradients``: ``consumers`` warpgroups have 64 queries each, and multiply gradients of their scores with blocks of ``columns`` keys."""

    consumers: int = 2
    columns: int = LINE
    stages: int = 8

    def shared(self, depth: int) -> SharedSums:
        keys = self.rows * LINE * 2
        slot = keys + self.columns * lines(depth) * LINE * 2
        results = self.stages * slot
        barriers = results + self.rows * lines(depth) * LINE * 2
        return SharedSums(slot, keys, results, barriers, barriers + 16 * (self.stages + self.consumers) + 4 * self.consumers)


def query_sums(g: AttentionGradient, target: Target) -> QuerySums | None:
    """With as many slots as there is room for; None where that are too few."""
    found = QuerySums()
    while found.stages > 2 and found.shared(g.depth.size).total > target.shared:
        found = replace(found, stages=found.stages - 1)
    return found if found.shared(g.depth.size).total <= target.shared else None


def kept_line(g: AttentionGradient) -> int:
    """Numbers from one query's to the next one's, a multiple of 16 bytes."""
    return ceil(g.rows.size / 8) * 8


def lies_in_blocks(g: AttentionGradient, rows: int) -> bool:
    """Whether 64 keys of neighbouring queries lie together, and not each query's keys: where there are whole tiles of ``rows`` keys alone, of which
    none reaches into the next head's, and nothing else reads them."""
    return g.of_scores is None and g.rows.size % rows == 0


def heads_together(g: AttentionGradient) -> int:
    """Positions of the batch whose gradients of scores are kept at a time, of which there is a multiple; 0 if not even those of one can be.  All
    where they are a result."""
    if g.of_scores is not None:
        return g.batch.size
    each = g.outer.size * g.columns.size * kept_line(g) * 2
    return next((n for n in range(min(g.batch.size, KEPT // each), 0, -1) if g.batch.size % n == 0), 0)


def estimate_queries(g: AttentionGradient) -> float:
    """Microseconds of the launches for queries, which wait for memory, and of those of keys but one."""
    launches, seen = g.batch.size // heads_together(g), 1 if g.band is None else 0.5
    return (2 * launches - 1) * _START + seen * g.batch.size * g.outer.size * g.columns.size * kept_line(g) * 2 / _MEMORY


def estimate_rounding(g: AttentionGradient) -> float:
    """Microseconds of the launches beside the kernel of keys where that adds up gradients of queries: float32 is read, 16 bits are written."""
    return 2 * _START + g.batch.size * g.outer.size * g.columns.size * g.depth.size * 6 / _MEMORY

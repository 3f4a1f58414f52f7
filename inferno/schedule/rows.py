"""The schedule of kernels that go over rows: how many threads have a row, and whether it stays in their registers."""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from inferno.mlir import func, walk
from inferno.schedule.cost import bit_width, clusters_at_once
from inferno.schedule.elementwise import supported_body, supported_element
from inferno.schedule.row_kernel import RowKernel, parse_row_kernel
from inferno.target import Target

_THREADS = 1024
_MANY = 1024  # rows of as many points: sums of 8192x8192 in bf16 took 31.2 us, and 36.5 by blocks of their own, in float32 the same
_PORTABLE = 8  # blocks of a cluster that any GPU with clusters has
# Bits of points that a thread may hold; registers of a block of 512 threads are 128 each, of 1024 they are 64.
_HELD, _HELD_BY_MANY = 64 * 32, 32 * 32
# A thread, where rows are short enough.  On an H200 softmax of 16384x8192 in bf16 took 150 us with 32, 168 with 16 and 230 with 8; in float32
# the three took the same.
_POINTS = 32
_MUCH = 1 << 24  # elements; what was timed with 32 points a thread had 64M, and what was timed with 16 of it alone up to 1M
_ENOUGH = 128  # threads of a multiprocessor
_NEIGHBOURS = 8  # threads of a row at least, so that what a warp reads at once are whole lines
# Bytes a microsecond: of a multiprocessor, of a GPU's memory for each of its multiprocessors, and of its L2 cache.
_ONE, _SHARE, _CACHE = 6e4, 3e4, 5.5e6
_LAUNCH, _LEVEL = 1.0, 0.25  # microseconds, of a kernel and of a reduction that others wait for


@dataclass(frozen=True)
class Rows:
    """``across`` threads of a block of ``threads`` have a row, and each reads ``vector`` neighbours at once; with ``cluster`` > 1 a row is that many
    blocks'.  ``held``: what is read and computed of a point stays in registers until the row's reductions are known; otherwise it is read
    and computed again, ``unroll`` vectors at once.  ``reciprocals``: see ``codegen/row_divisions.py``; nothing chooses it until it was timed.
    """

    generator: ClassVar[str] = "rows"

    threads: int
    across: int
    vector: int
    cluster: int = 1
    held: bool = True
    unroll: int = 4
    reciprocals: bool = False

    def chunks(self, c: RowKernel) -> int:
        """Vectors of a thread."""
        return ceil(c.width / (self.vector * self.across * self.cluster))

    def blocks(self, c: RowKernel) -> int:
        return ceil(c.count / (self.threads // self.across)) * self.cluster


def choose(kernel: func.FuncOp, target: Target) -> Rows | None:
    """A schedule if ``kernel`` is several operations on rows of which one reduces them, or one that reduces many rows."""
    c = read(kernel, target)
    return pick(c, target) if c is not None and (len(c.steps) > 1 or (c.count >= _MANY and c.width >= _MANY)) else None


def read(kernel: func.FuncOp, target: Target) -> RowKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated."""
    c = parse_row_kernel(kernel) if target.kind == "nvptx" else None
    if c is None or c.width < 2 or len(c.sizes) - 1 in c.rows:
        return None  # neighbours are of different rows
    if any(not supported_body(s.generic) or walk(s.generic, "tensor.extract") for s in c.steps):
        return None
    elements = [v.element for v in c.values] + [a.element for s in c.steps for a in s.extras]
    return c if all(map(supported_element, elements)) else None


def pick(c: RowKernel, target: Target) -> Rows:
    """The schedule that the rows' length and their number ask for."""
    vector = lanes(c)
    vectors, held = c.width // vector, max(8, c.held_bits())
    most = _PORTABLE if target.capability >= 90 else 1
    points = max(vector, min(_POINTS if c.count * c.width >= _MUCH else _POINTS // 2, _HELD // held))
    across = max(_power(ceil(c.width / points)), min(_NEIGHBOURS, _power(vectors)))
    cluster = 1
    if across > 512:
        across, cluster = 512, _power(ceil(c.width / (points * 512)))
        if cluster > most or held * points > _HELD:
            across, cluster = _THREADS, min(most, _power(ceil(c.width / (min(points, _HELD_BY_MANY // held) * _THREADS))))
    # With few rows more threads have a part each, so that all multiprocessors have work.
    while c.count * across * cluster < _ENOUGH * target.multiprocessors and across < min(_THREADS, vectors):
        across *= 2
    while c.count * cluster * 2 <= target.multiprocessors and cluster < most and across * cluster * 2 * 4 <= vectors and across >= 256:
        cluster *= 2
    threads = across if cluster > 1 else max(across, min(256, _power(c.count) * across))
    while threads > max(across, 32) and ceil(c.count * across / threads) < 2 * target.multiprocessors:
        threads //= 2
    threads = max(threads, 32)
    s = Rows(threads, across, vector, cluster)
    if s.chunks(c) * vector * held <= (_HELD if threads <= 512 else _HELD_BY_MANY):
        return s
    across = min(_THREADS, _power(vectors))
    return Rows(max(32, across), across, vector, most if across == _THREADS else 1, held=False)


def lanes(c: RowKernel) -> int:
    """Neighbours that are read at once: 16 bytes of the narrowest tensor, if they divide a row."""
    places = [d.access for d in c.destinations] + [a for s in c.steps if not s.per_row for a in s.extras]
    wide = [bit_width(a.element) // 8 for a in places if c.wide(a)]
    vector = min(8, 16 // min(wide)) if wide else 1
    inner = c.run_sizes[-1] if len(c.runs) > 1 else c.width
    while inner % vector and not (c.width % vector == 0 and _contiguous(c)):
        vector //= 2
    return vector


def _contiguous(c: RowKernel) -> bool:
    """Whether the points of a row are neighbours in memory."""
    return max(c.rows, default=-1) < min(c.columns)


def _power(x: int) -> int:
    """The next power of two."""
    return 1 << max(0, x - 1).bit_length()


def estimate(s: Rows, c: RowKernel, target: Target) -> float:
    """Microseconds."""
    def size(access) -> int:
        each = c.count * (c.width if c.wide(access) else 1)
        return each * bit_width(access.element) // 8

    written = sum(size(d.access) for d in c.destinations)
    reads = {a for step in c.steps for a in step.extras}
    moved = written + sum(min(size(a), _bytes(a)) for a in reads)
    again = 0
    if not s.held:
        again = sum(size(a) for p in range(c.phases) for a in c.needed(p)[0]) - sum(size(a) for a in reads if c.wide(a))
    blocks = s.blocks(c)
    at_once = min(blocks, (clusters_at_once(s.cluster, target.multiprocessors) * s.cluster if s.cluster > 1 else target.multiprocessors))
    in_cache = again and c.width * 4 * at_once / s.cluster < 3e7
    rate = min(_SHARE * target.multiprocessors, _ONE * at_once)
    return _LAUNCH + _LEVEL * (c.phases - 1) * (2 if s.cluster > 1 else 1) + moved / rate + max(0, again) / (min(_CACHE, _ONE * at_once) if in_cache else rate)


def _bytes(access) -> int:
    found = bit_width(access.element) // 8
    for n in access.shape:
        found *= n
    return found

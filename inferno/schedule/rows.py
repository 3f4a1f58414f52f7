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
_PORTABLE = 8  # blocks of a cluster that any GPU with clusters has
# Bits of points that a thread may hold; registers of a block of 512 threads are 128 each, of 1024 they are 64.
_HELD, _HELD_BY_MANY = 64 * 32, 32 * 32
_POINTS = 16  # a thread, where rows are short enough
# Bytes a microsecond: of a multiprocessor, of a GPU's memory for each of its multiprocessors, and of its L2 cache.
_ONE, _SHARE, _CACHE = 6e4, 3e4, 5.5e6
_LAUNCH, _LEVEL = 1.5, 0.5  # microseconds, of a kernel and of a reduction that others wait for


@dataclass(frozen=True)
class Rows:
    """``across`` threads of a block of ``threads`` have a row, and each reads ``vector`` neighbours at once; with ``cluster`` > 1 a row is that many
    blocks'.  ``held``: what is read and computed of a point stays in registers until the row's reductions are known; otherwise it is read
    and computed again, ``unroll`` vectors at once.
    """

    generator: ClassVar[str] = "rows"

    threads: int
    across: int
    vector: int
    cluster: int = 1
    held: bool = True
    unroll: int = 4

    def chunks(self, c: RowKernel) -> int:
        """Vectors of a thread."""
        return ceil(c.width / (self.vector * self.across * self.cluster))

    def blocks(self, c: RowKernel) -> int:
        return ceil(c.count / (self.threads // self.across)) * self.cluster


def choose(kernel: func.FuncOp, target: Target) -> Rows | None:
    """A schedule if ``kernel`` is several operations on rows of which one reduces them; what is one operation has other generators."""
    c = read(kernel, target)
    return pick(c, target) if c is not None and len(c.steps) > 1 else None


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
    """The schedule that its row's length and the number of rows ask for."""
    vector = lanes(c)
    vectors, held = c.width // vector, max(8, c.held_bits())
    most = _PORTABLE if target.capability >= 90 else 1
    points = max(vector, min(_POINTS, _HELD // held))
    across = _power(ceil(c.width / points))
    cluster = 1
    if across > 512:
        # Twice as many points a thread before a row is several blocks'.
        across = 512 if 2 * points * held <= _HELD else across
        cluster = max(1, _power(ceil(c.width / (2 * points * 512)))) if across == 512 else 1
        if across > 512 or cluster > most:
            across, cluster = _THREADS, min(most, max(1, _power(ceil(c.width / (2 * points * _THREADS)))))
    # With few rows more threads have a part each, so that all multiprocessors have work.
    while c.count * across * cluster < 128 * target.multiprocessors and across < min(_THREADS, vectors):
        across *= 2
    while c.count * cluster * 2 <= target.multiprocessors and cluster < most and across * cluster * 2 * 4 <= vectors and across >= 256:
        cluster *= 2
    threads = across if cluster > 1 else max(across, min(256, _power(c.count) * across))
    while threads > max(across, 32) and ceil(c.count * across / threads) < 2 * target.multiprocessors:
        threads //= 2
    threads = max(threads, 32)
    s = Rows(threads, across, vector, cluster)
    fits = s.chunks(c) * vector * held <= (_HELD if threads <= 512 else _HELD_BY_MANY)
    return s if fits else Rows(_THREADS if across == _THREADS else threads, across, vector, cluster, held=False)


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

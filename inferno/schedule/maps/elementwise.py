"""The schedule of elementwise kernels: each thread computes ``unroll`` vectors of ``vector`` neighbouring points."""

import math
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import func, ir, walk
from inferno.passes.places import is_looked_up
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.maps.computed_places import groups_of, lane_by_lane, resizes_images, taps_of
from inferno.schedule.maps.gathers import channels_of, gathered
from inferno.schedule.maps.pieces import MOST_MIXED, across_pieces, by_pieces
from inferno.schedule.maps.pointwise import Pointwise, aligned, parse_pointwise
from inferno.schedule.maps.shared_reads import reused
from inferno.schedule.maps.supported import supported
from inferno.schedule.maps.transposed import LINE, WORD, tile_side, transposed, transposed_vector
from inferno.schedule.maps.transposed_gathers import brought_together, transposed_gathers
from inferno.schedule.maps.turned_results import is_turned, turned, turning
from inferno.symbolic import Int, hint, is_multiple
from inferno.target import Target

# Iterations that a thread does of a loop along which it reads or computes the same.  On an H200, with 1 and with 2: bilinear interpolation in bf16 129
# and 95 us, gelu(x + row) 79 and 73, rotary embeddings 72.5 and 72.7.  In float32, where a copy takes twice as long, these took 128.1 and 131.6.
ACROSS = 2
# Of what is read at places that are computed: bilinear interpolation in float32 by 1, 2 and 4 takes 112, 81 and 77 us, in bf16 100, 80 and 76.  Of
# bicubic's 16 elements, the columns of which neighbours share, 8 points are in registers, in 16 bits of two images, or of four where there are many points:
# of 16x64x112x112 1 and 2 take 119 and 123 us in float32, of 4x64x128x128 39.7 and 41.2; in bf16 2 and 4 take 80.6 and 74.0, and 25.0 and 25.6.
# So are pairs of 4x32x4096x128 that are rotated by the same angles: in bf16 2 and 4 take 72.3 and 68.7 us, in float32 1 and 4 130.2 and 134.2.
ACROSS_TAPS, _MOST_TAPS = 4, 8
_MANY = 1 << 25
# Threads of a block that reads where whole numbers say, and such numbers of each: a block's own are then read in the L1 cache.  gather of 8192x8192 in
# bf16 took 229 us by 256 threads with 8, in float32 370 with 4, and by 512 with 8 201 and 266, with 16 187 and 253.
_LOOKING_UP, _LOOKED_UP = 512, 16
_TAPPED = 4  # vectors of a thread where rows have an odd length, so that what is looked up for one point does not wait for another
# Bytes that memory moves at least: one column of 4M rows of 16 took an H200 47.5 us in bf16 by vectors of 8, 82 in float32 by 4 (torch's kernels 35 and 68).
_SECTOR = 32
# Bytes that a thread moves at least, where points are many: blocks of 256 begin at 0.8 a nanosecond, so that 134 MB of float32 that are only written took an
# H200 41 us by one vector of each thread, torch.compile's kernel 31.
_LITTLE = 32
# Lanes of a vector of windows that are read one by one: max_pool1d of 3 of 64x256x4096 in bf16 took an H200 52.0 us with 8, 46.9 with 4 and 46.1 with 2, of
# which a thread has so many more; in float32 83.6 with 4 and 81.9.
_APART = 2
_STORED = 4  # bytes of neighbours that a thread stores of each channel: a warp's are a line of memory
_ROUNDS = 4  # blocks a multiprocessor that there are at least then
_FULL = 4  # blocks a multiprocessor, below which 8 points a thread are too many: sigmoid(x * y + z) of 256x4096 in bf16 took 3.04 us, and 2.40 with 4
_KEPT = 64  # values that are stored together, of one thread: registers


@dataclass(frozen=True)
class Elementwise:
    """``threads`` a block; the vectors of one thread are a whole block's vectors apart.

    ``across`` > 1: each thread does so many iterations of one loop, along which inputs are broadcast, and reads these once.

    ``tile`` > 0: inputs that are contiguous along another dimension than the result go through shared memory in square
    tiles of that many points, or results, in tiles of that many along the result (``turned_results.py``).  With ``vector`` > 1
    inputs are read and written by vectors, and a block has ``across`` tiles along that dimension and ``unroll`` along the
    result's, as one.

    ``windows``: of a table that is read at places which are kept inside of it, neighbours come by vectors, those near its edges alone.

    ``backwards``: the first blocks have the last points (``turn_back.py``).
    """

    generator: ClassVar[str] = "elementwise"

    threads: int = 256
    vector: int = 4
    unroll: int = 1
    tile: int = 0
    across: int = 1
    windows: bool = False
    backwards: bool = False

    @property
    def sides(self) -> tuple[int, int]:
        """Points of a block's tile along the dimension in which inputs are contiguous, and along that in which the result is."""
        return self.tile * self.across, self.tile * self.unroll


def choose(kernel: func.FuncOp, target: Target) -> Elementwise | None:
    """A schedule if ``kernel`` is elementwise on types that the GPU has; None otherwise."""
    if target.kind != "nvptx":
        return None
    point = parse_pointwise(kernel, views=True, parts=True)
    if point is None or not supported(point):
        return None
    if (found := _transposing(point, target)) is not None:
        return found
    threads, vector = _by_points(point, target)
    while vector > 1 and point.parts and vector * len(point.destinations) > _KEPT:
        vector //= 2
    full, vector = by_pieces(point, vector)
    if (by_channels := _by_channels(point, target)) is not None:
        return by_channels
    if _looks_up(point):
        if isinstance(point.points, int) and point.points >= _FULL * target.multiprocessors * _LOOKING_UP * _LOOKED_UP:
            together = max(1, 16 // max(element_bytes(s.element) for s in point.sources if s is not None and point.flat(s)))
            return Elementwise(threads=_LOOKING_UP, vector=together, unroll=max(1, _LOOKED_UP // together))
    elif gathers := gathered(point):
        return _gathering(point, channels_of(gathers), vector, target)
    taps, step = taps_of(point)
    if step > 1:  # what a vector's lanes are computed of is at most two vectors
        while vector > 2 and vector * step * max(bit_width(t.results[0].type) for t in taps) > 128:
            vector //= 2
    if (together := _stored_together(point, vector)) < vector:
        return Elementwise(threads=threads, vector=together, unroll=vector // together)
    if vector > _APART and step == 1 and lane_by_lane(point, vector):
        return Elementwise(threads=threads, vector=_APART, unroll=vector // _APART)
    return _by_shared_reads(point, threads, vector, full, len(taps), takes_unmeasured(kernel.operation), target)


def _transposing(point: Pointwise, target: Target) -> Elementwise | None:
    """The schedule by tiles in shared memory, if an input, what is gathered in branches, or all that is read lies in another order than the result; else
    None."""
    if (found := transposed(point)) is not None:
        if (by_vectors := _by_vectors(point, *found, target)) is not None:
            return by_vectors
        return Elementwise(threads=256, vector=1, tile=tile_side([point.sources[n].element for n in found[1]]))
    if (tiled := transposed_gathers(point)) is None:
        if not is_turned(point):
            return None
        threads, tile = turning(point, turned(point), target.multiprocessors)
        return Elementwise(threads=threads, vector=1, tile=tile)
    elements = [point.sources[n].element for n in tiled.numbers] + [p.access.element for p in tiled.gathers]
    tile, sides = tile_side(elements), (point.run_sizes[tiled.across], point.run_sizes[-1])
    if point.points // math.prod(sides) * math.prod(math.ceil(n / tile) for n in sides) < _ROUNDS * target.multiprocessors:
        tile = 32
    return Elementwise(threads=256, vector=brought_together(point, tiled) if tile == 64 else 1, tile=tile)


def _by_points(point: Pointwise, target: Target) -> tuple[int, int]:
    """Threads of a block, and points of a thread's vector: fewer where there are not enough points for all multiprocessors."""
    # One vector of 16 bytes a thread, and no more than that of a result (bf16 to f32 by 32 took 108 us where torch.compile's kernel takes 99),
    # 256 threads: at the rate of a copy for every case measured (H200: f32 and bf16 multiply-add-sigmoid 100 to 104% of a copy, unrolling gained nothing).
    vector = max(1, min(8, 16 // _narrowest(point), 16 // max(element_bytes(d.element) for d in point.destinations)))
    threads = 256
    points = hint(point.points)
    while threads > 64 and points < target.multiprocessors * threads * vector:
        threads //= 2
    if vector == 8 and points < _FULL * target.multiprocessors * threads * vector:
        vector = 4
    while vector > 1 and points < target.multiprocessors * threads * vector:
        vector //= 2
    inner = _innermost(point)
    if inner == 8 and across_pieces(point, 4) > MOST_MIXED and points >= target.multiprocessors * threads * 8:
        vector = 8
    if inner in (2, 4) and not point.tables and walk(point.generic, "linalg.index"):
        vector = min(vector, inner)  # a body that counts in groups: what the lanes of one have in common is computed once
    if not isinstance(point.points, int):
        # Other calls may have many more points.  A vector whose lanes are known to be in one row costs the small ones nothing.
        threads, vector = 256, max(vector, 4 if _in_rows(point) else 1)
    return threads, vector


def _innermost(point: Pointwise) -> Int:
    """The size of the innermost loop."""
    return point.sizes[point.runs[-1][-1]] if point.runs else 1


def _by_shared_reads(point: Pointwise, threads: int, vector: int, full: int, taps: int, unmeasured: bool, target: Target) -> Elementwise:
    """The schedule for points that read neighbours, of ``taps`` elements each: what several vectors of a thread read in common is read once.  A thread has
    ``full`` points if there are enough."""
    points = hint(point.points)
    resizes = resizes_images(point) and isinstance(point.points, int)
    each = _beside(point, taps, points) if resizes else 1
    if resizes and taps > _MOST_TAPS and points >= _ROUNDS * target.multiprocessors * threads * 8 * min(ACROSS, each):
        vector = 8 if reused(point, ACROSS, 8, near=False) is not None else vector
    whole = max(vector, full)
    if resizes:
        while vector > 1 and _innermost(point) % vector:
            vector //= 2  # lanes in one row share what is computed of its number
    while vector > 1 and _of_many_lines(point, vector):
        vector //= 2
    near = unmeasured and not resizes
    across = (ACROSS_TAPS if point.tables and groups_of(point) else ACROSS) if _narrowest(point) <= 2 or near else 1
    if resizes:
        across = each
    while across > 1 and (not isinstance(point.points, int) or points < _ROUNDS * target.multiprocessors * threads * vector * across
                          or reused(point, across, vector, near) is None):
        across //= 2
    if across == 1 and (narrow := _in_one_row(point, vector)) < vector:
        return Elementwise(threads=threads, vector=narrow, unroll=vector // narrow)
    if across == 1 and vector == 8 and threads == 256 and (_computes(point) or _narrows(point)) and isinstance(point.points, int):
        return Elementwise(threads=128, vector=vector, unroll=2)
    unroll = min(_TAPPED, max(whole // vector, _LITTLE // _moved(point, vector))) if across == 1 else 1
    while unroll > 1 and points < _ROUNDS * target.multiprocessors * threads * vector * unroll:
        unroll //= 2
    return Elementwise(threads=threads, vector=vector, unroll=unroll, across=across, windows=resizes)


def _by_channels(point: Pointwise, target: Target) -> Elementwise | None:
    """All channels of one point a thread, or of as many neighbours as are stored together, where these are few and lie side by side in what is gathered, and
    there are enough points."""
    run = point.channels
    if run is None or not isinstance(point.points, int):
        return None
    channels, vector = point.run_sizes[run], max(1, _STORED // max(element_bytes(d.element) for d in point.destinations))
    places, threads = point.points // channels, 256
    while vector > 1 and (point.run_sizes[-1] % vector or places < _ROUNDS * target.multiprocessors * threads * vector):
        vector //= 2
    while threads > 64 and places < target.multiprocessors * threads * vector:
        threads //= 2
    return Elementwise(threads=threads, vector=vector, across=channels) if places >= target.multiprocessors * threads * vector else None


def _stored_together(point: Pointwise, vector: int) -> int:
    """Lanes of a vector that is stored at once where results go to parts of tensors: one by one, those of a warp would be as far apart as its vectors."""
    last = len(point.runs) - 1
    for d in point.destinations if point.parts and point.runs else ():
        vector = gcd(aligned(point, d, last, vector), point.run_sizes[last] if last else 0) if point.run_strides(d)[last] == 1 else 1
    return vector


def _gathering(point: Pointwise, channels: int, points: int, target: Target) -> Elementwise:
    """One point a thread, of as many iterations of another loop as have its place in common, up to ``channels``; otherwise up to ``points`` points, each a
    block apart."""
    threads, count = 256, hint(point.points)
    while threads > 64 and count < target.multiprocessors * threads:
        threads //= 2
    known = isinstance(point.points, int)
    while channels > 1 and not (count >= _ROUNDS * target.multiprocessors * threads * channels and reused(point, channels, 1) is not None):
        channels //= 2
    unroll = min(_TAPPED, points) if channels == 1 and known else 1
    while unroll > 1 and count < _ROUNDS * target.multiprocessors * threads * unroll:
        unroll //= 2
    return Elementwise(threads=threads, vector=1, unroll=unroll, across=channels)


def _of_many_lines(point: Pointwise, vector: int) -> bool:
    """Whether what a warp's lanes read for vectors lies in many lines of memory, all of which the L1 cache has to look for at each access, and for single
    points in a few that nothing else is read of, as a column of a matrix of few."""
    far = [(point.run_strides(s)[-1], element_bytes(s.element)) for s in point.sources if s is not None and len(point.runs) == 1 and not point.flat(s)]
    return any(isinstance(step, int) and 1 < step < LINE // width and step * width * vector > _SECTOR for step, width in far)


def _moved(point: Pointwise, vector: int) -> int:
    """Bytes of a vector that memory moves: what several points read caches have."""
    moved = sum(bit_width(a.element) for a in (*point.destinations, *point.sources) if a is not None and all(s != 0 for s in point.run_strides(a)))
    tables: dict[ir.Value, float] = {}
    for gather in walk(point.generic, "tensor.extract"):
        table = gather.operands[0]
        share = 1.0 if is_looked_up(gather) or not table.type.has_static_shape else math.prod(table.type.shape) / max(1, hint(point.points))
        tables[table] = max(tables.get(table, 0.0), min(1.0, share) * bit_width(table.type.element_type))
    return max(1, round(vector * (moved + sum(tables.values())) / 8))


def _in_one_row(point: Pointwise, vector: int) -> int:
    """Lanes of a vector that is in one row, where one of ``vector`` is not and several rows are read, or one of longer elements, beside what lies as the points
    are counted: those would be read lane by lane, from places a vector apart, by eight times as many accesses of the L1 cache.  (The last map of a softmax of
    74850x222 in float16 along its first dimension took an H100 39 us so, where a kernel of vectors of two that takes another softmax of it, too, took 33;
    with the mean, in float32, of 8192x8194 in bf16 from each row an H200 127 and 104, of 20000x1026 43 and 33.)"""
    inner = point.run_sizes[-1] if point.runs else 1
    if not isinstance(point.points, int) or inner % vector == 0 or point.tables or walk(point.generic, "scf.if"):
        return vector
    read = {s for s in point.sources if s is not None}
    steps = [point.run_strides(s) for s in read]
    rows = sum(element_bytes(s.element) for s, n in zip(read, steps) if n[-1] == 1 and len(n) > 1 and all(x == 0 for x in n[:-1]))
    plain = all(point.flat(s) or all(x == 0 for x in point.run_strides(s)[:-1]) or point.run_strides(s)[-1] == 0 for s in read)
    return gcd(vector, inner) if rows > _narrowest(point) and plain and all(point.flat(d) for d in point.destinations) else vector


def _computes(point: Pointwise) -> bool:
    """Whether functions are computed between one load and one store of 16 bits: two vectors a thread overlap them (gelu 72 us, then 65)."""
    places = [*(s for s in point.sources if s is not None), *point.destinations]
    if len(places) != 2 or point.tables or not all(point.flat(p) and bit_width(p.element) == 16 for p in places):
        return False
    return any(op.name.startswith("math.") for op in walk(point.generic))


def _narrows(point: Pointwise) -> bool:
    """Whether 16 bits become 8, of which a vector is half a store: two a thread (bf16 of 8192x8192 to float8 took an H200 53.7 us, and takes 49.2)."""
    read = [s for s in point.sources if s is not None]
    return len(read) == len(point.destinations) == 1 and not point.tables and all(
        point.flat(p) and bit_width(p.element) == bits for p, bits in ((read[0], 16), (point.destinations[0], 8))
    )


def _looks_up(point: Pointwise) -> bool:
    """Whether each point reads a table where its own number, of another tensor, says."""
    numbers = [s for s in point.sources if s is not None and str(s.element) in ("i32", "i64") and point.flat(s)]
    narrow = bool(numbers) and all(bit_width(d.element) <= bit_width(numbers[0].element) for d in point.destinations)
    return narrow and len(walk(point.generic, "tensor.extract")) == 1


def _beside(point: Pointwise, taps: int, points: int) -> int:
    """Images of which a thread has the same points, where so many elements are read for each."""
    if taps <= _MOST_TAPS:
        return ACROSS_TAPS
    if _narrowest(point) > 2:
        return 1
    return ACROSS_TAPS if points >= _MANY else ACROSS


def _by_vectors(point: Pointwise, across: int, numbers: tuple[int, ...], target: Target) -> Elementwise | None:
    """Tiles whose sides are 256 bytes, where these are enough blocks and fit, and 128 otherwise; None where vectors are not whole.

    Of 8192x8192 an H200 took in bf16 83.1 us an element at a time, 69.3 in tiles of 64x64 and 67.3 in tiles of 128x128, with 512 threads 68.3; in float32
    135.8, 136.3 in tiles of 32x32, 134.1 in tiles of 64x64 and 130.4 with 512 threads for them, with 1024 147.7.  By what is aligned of vectors 8196x8196 in
    bf16 75.1 (an element at a time 91.3), 8462x3882 40.2 (54.6), 8192x8194 69.1 (76.1), in float32 136.8 (142.3).
    """
    vector = transposed_vector(point, across, numbers)
    if vector == 1:
        return None
    whole = 16 // element_bytes(point.sources[numbers[0]].element)
    sides = [min(hint(point.run_sizes[r]), 16 * whole) for r in (across, -1)]
    moves = len(list(point.block.operations)) == 1  # 1024 threads have 64 registers each, which is little for arithmetic on vectors
    threads = 128 * whole if whole < 8 or moves else 512
    large = Elementwise(threads=threads, vector=vector, unroll=2, tile=8 * whole, across=2)
    small = Elementwise(threads=256 if whole > 2 else 128, vector=vector, tile=8 * whole)
    many = whole <= 8 and hint(point.points) >= _ROUNDS * target.multiprocessors * math.prod(sides)
    return next((s for s in ([large, small] if many else [small]) if transposes_by_vectors(point, s, across, numbers)), None)


def transposes_by_vectors(point: Pointwise, schedule: Elementwise, across: int, numbers: tuple[int, ...]) -> bool:
    """Whether the generator takes a schedule with vectors for transposed inputs: whole lines, and as much of the tile for each warp."""
    vector, warps, (width, height) = schedule.vector, schedule.threads // 32, schedule.sides
    size = element_bytes(point.sources[numbers[0]].element)
    if vector == 1 or vector != transposed_vector(point, across, numbers) or schedule.tile != LINE // size:
        return False
    if warps % schedule.across or warps % schedule.unroll:
        return False
    words, rows = width // max(1, WORD // size), 32 * vector * size // LINE
    held = words * height * max(WORD, size) * len(numbers)
    return held <= 40 * 1024 and height // rows % (warps // schedule.across) == 0 and words // rows % (warps // schedule.unroll) == 0


def _in_rows(point: Pointwise) -> bool:
    """Whether the four lanes of a vector lie in one row of every tensor for any size."""
    sizes = point.run_sizes
    return bool(sizes) and (len(sizes) == 1 or is_multiple(sizes[-1], 4))


def _narrowest(point: Pointwise) -> int:
    """Bytes of the narrowest element that is stored or read once a point."""
    elements = [d.element for d in point.destinations]
    elements += [s.element for s in point.sources if s is not None and point.flat(s)]
    return min(map(element_bytes, elements))

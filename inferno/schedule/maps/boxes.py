"""The schedule of elementwise kernels whose inputs lie in another order, in pieces that are too short for tiles of two dimensions: a block takes a box of
as many dimensions as make lines of both sides, through shared memory.

Of a transposed convolution's weight, ``[in, out, 2, 2]``, taps go outermost: who writes lines of ``in`` reads one element of each sector of 32 bytes.
On an H200 that of 1024x512x2x2 in bf16 takes 2.4 us (10.2 by ``elementwise``), 2048x4096x8 transposed in float16 79 (640).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, walk
from inferno.passes.generics import maps
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.pointwise import Pointwise, aligned, parse_pointwise
from inferno.schedule.maps.supported import supported
from inferno.schedule.maps.transposed import LINE, tile_side, transposed
from inferno.target import Target

_LINE, _SECTOR = 64, 32  # bytes, at least, of what is read or written side by side, and that memory moves
# Bytes of neighbours of a result for which sectors are in the L1 cache together, those of a block of ``elementwise``: with twice as many 1024x512x3x3 in
# float32, taps outermost, would not pay, which took an H100 27.5 us by ``elementwise`` where torch.compile's kernel takes 11.4.  Of tensors of so many bytes,
# which the L2 cache does not keep for others, an eighth: 16384 matrices of 128x8 transposed took an H200 71 us in float32 and 37 in bf16, torch.compile 34
# and 18.
_NEAR, _NEAR_IN_LARGE, _LARGE = 4096, 512, 3e7
# Of the sectors that are read for them, below which a box pays; as much is as much where who reads the other half comes so many bytes later, when caches have
# it no more: 8M pairs of float32 transposed took an H200 48.2 us by ``elementwise``, a copy 33.
_USED, _LATER = 0.5, 8e6
_FULL = 0.6  # of a tile, up to which a box pays: rows of 18 fill 0.28 of tiles of 64
_LEAST = 1 << 15  # points, below which a kernel takes as long as its launch
_MOST_INPUTS = 4  # that go through shared memory, each with a box of its own; others are read where they lie
# Lines of the L1 cache, of so many bytes, that an H200 looks up a microsecond: one a cycle of each multiprocessor; and microseconds of these from which a box
# pays that holds what is made of several inputs.  Sums of 4x4 pixels of 12x64x64x16 in bf16, given back with channels first, took 6.7 us by ``elementwise``
# (torch.compile 3.0), which reads 786432 elements of a line each.
_LOOKED_UP, _MUCH = 2.2e5, 1.0
_OWN = 8  # neighbours of a result that a thread of ``elementwise`` has
_WIDEST = 16  # bytes of a vector
_NARROWEST = 2  # bytes of an element: on an H200 bytes of 32x1024x1024x3 to channels in float32 took 174 us by boxes, 135 by ``elementwise``


@dataclass(frozen=True)
class Boxes:
    """``points`` of a box, at most."""

    generator: ClassVar[str] = "boxes"

    threads: int = 256
    points: int = 2048


@dataclass(frozen=True)
class Box:
    """``extents`` along each run of loops; ``inputs`` lie in the order of ``reading``, the outermost run first, and are read ``lanes`` neighbours at once.
    They go through shared memory, or with ``results`` what is computed of them.  ``vector`` neighbours of a result are stored at once."""

    inputs: tuple[int, ...]
    reading: tuple[int, ...]
    extents: tuple[int, ...]
    vector: int
    lanes: int = 1
    results: bool = False

    @property
    def points(self) -> int:
        return prod(self.extents)


def choose(kernel: func.FuncOp, target: Target) -> Boxes | None:
    """A schedule if an input of ``kernel`` would be read with more than it needs, and does not fill tiles of two dimensions; None otherwise."""
    if target.kind != "nvptx" or not _permutes(kernel):
        return None
    point = parse_pointwise(kernel)
    if point is None or not supported(point) or not isinstance(point.points, int) or point.points < _LEAST or _fills_tiles(point):
        return None
    made = [s for s in (Boxes(points=n) for n in (2048, 1024, 512)) if (box := box_of(point, s)) is not None and _narrowest(point, box.inputs) >= _NARROWEST]
    return next((s for s in made if point.points >= target.multiprocessors * s.points), made[-1] if made else None)


def _fills_tiles(point: Pointwise) -> bool:
    """Whether inputs are transposed by tiles of two dimensions, of which most is used."""
    found = transposed(point)
    if found is None:
        return False
    side = tile_side([point.sources[n].element for n in found[1]])
    return prod(point.run_sizes[r] / (side * ceil(point.run_sizes[r] / side)) for r in (found[0], -1)) > _FULL


def _permutes(kernel: func.FuncOp) -> bool:
    """Whether a tensor is walked in another order than its own: cheaper to ask than what is computed."""
    def permuted(map_: ir.AffineMap) -> bool:
        found = [ir.AffineDimExpr(e).position for e in map_.results if isinstance(e, ir.AffineDimExpr)]
        return found != sorted(found)

    return any(permuted(m) for op in walk(kernel, "linalg.generic") for m in maps(op)) or bool(walk(kernel, "linalg.transpose", "tensor.extract"))


def box_of(point: Pointwise, schedule: Boxes) -> Box | None:
    """The box of a block; None where no input is read uncoalesced, or lines of both sides make too large a box."""
    if point.tables or any(not isinstance(s, int) for s in point.run_sizes) or not point.runs:
        return None
    uncoalesced = [n for n, s in enumerate(point.sources) if s is not None and _is_uncoalesced(point, s)] or _looked_up(point)
    if not uncoalesced:
        return None
    strides = point.run_strides(point.sources[uncoalesced[0]])
    inputs = tuple(n for n in uncoalesced if point.run_strides(point.sources[n]) == strides)
    results = _makes_less(point, inputs)
    inputs = inputs if results else inputs[:_MOST_INPUTS]
    inward = sorted(range(len(strides)), key=lambda r: abs(strides[r]))
    extents = _extents(point.run_sizes, inward, tuple(map(abs, strides)), max(32, _LINE // _narrowest(point, inputs)), schedule.points)
    if extents is None:
        return None
    last, vector = len(extents) - 1, max(1, 4 // min(element_bytes(d.element) for d in point.destinations))
    while extents[-1] % vector or point.run_sizes[-1] % vector or any(aligned(point, d, last, vector) < vector for d in point.destinations):
        vector //= 2
    first, lanes = inward[0], max(1, _WIDEST // max(element_bytes(point.sources[n].element) for n in inputs)) if strides[inward[0]] == 1 else 1
    while lanes > 1 and (prod(extents) < lanes * schedule.threads or extents[first] % lanes or point.run_sizes[first] % lanes or any(
        aligned(point, point.sources[n], first, lanes) < lanes for n in inputs
    )):
        lanes //= 2
    return Box(inputs, tuple(reversed(inward)), extents, vector, lanes, results)


def _makes_less(point: Pointwise, inputs: tuple[int, ...]) -> bool:
    """Whether what is computed of inputs that lie alike is less than these are, and everything else that it is computed of is little."""
    others = [s for n, s in enumerate(point.sources) if s is not None and n not in inputs]
    return len(inputs) > len(point.destinations) <= _MOST_INPUTS and all(0 in point.run_strides(s) for s in others) and sum(
        element_bytes(d.element) for d in point.destinations
    ) < sum(element_bytes(point.sources[n].element) for n in inputs)


def _looked_up(point: Pointwise) -> list[int]:
    """Inputs that lie alike, of which the lines that a warp's neighbours are in take long to look up, though all of these are used soon."""
    wide = [n for n, s in enumerate(point.sources) if s is not None and 0 not in point.run_strides(s)]
    if not wide or not all(isinstance(s, int) for n in wide for s in point.run_strides(point.sources[n])):
        return []
    if {point.run_strides(point.sources[n]) for n in wide} != {strides := point.run_strides(point.sources[wide[0]])} or 1 not in strides:
        return []
    if point.run_sizes[-1] <= _OWN:
        return []  # a thread has all of these, and its neighbours read what is beside
    lines = min(1.0, abs(strides[-1]) * _narrowest(point, wide) / LINE) * len(wide) * prod(point.run_sizes)
    return wide if _makes_less(point, tuple(wide)) and lines > _MUCH * _LOOKED_UP else []


def _narrowest(point: Pointwise, inputs: Sequence[int]) -> int:
    """Bytes of an element of the narrowest input."""
    return min(element_bytes(point.sources[n].element) for n in inputs)


def _is_uncoalesced(point: Pointwise, source: Access) -> bool:
    """Whether most of what is read of ``source`` for neighbours of the result is not for them."""
    sizes, width = point.run_sizes, element_bytes(source.element)
    strides = [abs(s) for s in point.run_strides(source) if isinstance(s, int) and s]  # backwards or not
    if len(strides) < len(sizes):
        return False
    near, left = [1] * len(sizes), (_NEAR if prod(sizes) * width < _LARGE else _NEAR_IN_LARGE) // width
    for r in reversed(range(len(sizes))):
        near[r] = min(sizes[r], max(1, left))
        left //= sizes[r]
    piece, whole, inside = 1, True, set()
    for r in sorted(range(len(sizes)), key=strides.__getitem__):
        if not whole or strides[r] != piece:
            break
        piece, whole = piece * near[r], near[r] == sizes[r]
        inside.add(r)
    gap = min((strides[r] for r in range(len(sizes)) if r not in inside and near[r] > 1), default=piece)
    used = max(piece * width / (_SECTOR * ceil(piece * width / _SECTOR)), piece / gap)
    return used < _USED or (used == _USED and 1 in strides and prod(sizes[strides.index(1) + 1:]) * width >= _LATER)


def _extents(sizes: tuple[int, ...], inward: list[int], strides: tuple[int, ...], line: int, most: int) -> tuple[int, ...] | None:
    """Of ``line`` elements at least that are neighbours in the input, and in the result, where there are so many; then as many as ``most``."""
    extents, have = [1] * len(sizes), 1
    for r in inward:
        if strides[r] != have or have >= line:
            break
        extents[r] = _even(sizes[r], ceil(line / have))
        have *= extents[r]
        if extents[r] < sizes[r]:
            break
    have = 1
    for r in reversed(range(len(sizes))):
        extents[r] = max(extents[r], _even(sizes[r], ceil(line / have)))
        have *= extents[r]
        if extents[r] < sizes[r] or have >= line:
            break
    if prod(extents) > most:
        return None
    for r in reversed(range(len(sizes))):
        while extents[r] < sizes[r] and prod(extents) // extents[r] * _even(sizes[r], 2 * extents[r]) <= most:
            extents[r] = _even(sizes[r], 2 * extents[r])
    return tuple(extents)


def _even(size: int, extent: int) -> int:
    """``extent`` if as many boxes need so much; all of a size that it is more than half of."""
    return size if 2 * extent > size else extent

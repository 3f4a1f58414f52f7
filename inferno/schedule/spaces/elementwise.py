"""Elementwise kernels: threads a block, points a thread, and sizes of the tiles of transposed inputs."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import log2

from inferno.element_sizes import element_bytes
from inferno.mlir import func, walk
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.maps.elementwise import Elementwise, choose, transposes_by_vectors
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.maps.shared_reads import reused
from inferno.schedule.maps.transposed import transposed
from inferno.schedule.maps.uncoalesced_arguments import uncoalesced_time
from inferno.schedule.passes.split_pieces import generic_of
from inferno.target import STATIC_SHARED, Target

_START = 1.5  # microseconds of a kernel that does next to nothing
_RATE = 4.3e6  # bytes a microsecond that an H200's memory moves
_STEP = 0.01  # how much worse a schedule is taken to be for each doubling that it is away from the model's choice: it only sorts them
# What is tried.
_THREADS, _VECTORS = (64, 128, 256, 512, 1024), (1, 2, 4, 8, 16)
_REPEATS = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (1, 16))  # vectors a block apart, or iterations of another loop


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Elementwise]]:
    """Schedules, those that are like the model's choice first: it is all memory's rate to the model."""
    own = choose(kernel, target)
    if own is None:
        return
    point = parse_pointwise(kernel, views=True, parts=True)
    if not isinstance(point.points, int):
        return
    least = _START + max(count_bytes(kernel) / _RATE, _uncoalesced(kernel))
    tiles = (16, 32, 64, 128) if own.tile else (0,)
    for threads, vector, (unroll, across), tile in itertools.product(_THREADS, _VECTORS, (*_REPEATS, (2, 2)), tiles):
        s = Elementwise(threads, vector, unroll, tile, across, own.windows)
        if (not tile or vector > 1 or unroll == across == 1) and valid(kernel, s, target):
            knobs = ((threads, own.threads), (vector, own.vector), (unroll, own.unroll), (tile or 1, own.tile or 1), (across, own.across))
            away = sum(abs(log2(a / b)) for a, b in knobs)
            yield least * (1 + _STEP * away), s


def _uncoalesced(kernel: func.FuncOp) -> float:
    """Microseconds of reads of a sector for an element each, where places are computed: tiles of shared memory are for the others."""
    generic = generic_of(kernel)
    return uncoalesced_time(kernel, generic) if generic is not None and walk(generic, "tensor.extract") else 0.0


def valid(kernel: func.FuncOp, schedule: Elementwise, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    own, s = choose(kernel, target), schedule
    if own is not None and s == own:
        return True
    if own is None or bool(own.tile) != bool(s.tile) or s.threads not in _THREADS or s.vector not in _VECTORS:
        return False
    if not (s.tile and s.vector > 1) and ((s.unroll, s.across) not in _REPEATS or s.threads > 512 or s.vector > 8):
        return False
    point = parse_pointwise(kernel, views=True, parts=True)
    if not isinstance(point.points, int) or (not s.tile and s.across > 1 and reused(point, s.across, s.vector) is None):
        return False
    if not s.tile:
        widest = max(element_bytes(d.element) for d in point.destinations)
        return s == replace(own, threads=s.threads, unroll=s.unroll, across=s.across) or s.vector * widest <= 16
    if transposed(point) is None:
        return False
    if s.vector > 1:
        return own.vector > 1 and transposes_by_vectors(point, s, *transposed(point))
    if s.tile not in (32, 64) or s.unroll * s.across > 1:
        return False
    held = sum((s.tile + 4) * s.tile * element_bytes(point.sources[n].element) for n in transposed(point)[1])
    return held <= STATIC_SHARED and s.tile % (s.threads // 32) == 0

"""The universal generator: threads a block, and from which lengths and numbers on sums are shared by threads."""

import itertools
from collections.abc import Iterator
from math import prod

from inferno.mlir import func, ir, walk
from inferno.schedule.analysis.accesses import has_known_sizes
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.universal.universal import Universal
from inferno.target import Target

_START, _RATE, _STEP = 3.0, 3e6, 0.02  # microseconds, bytes a microsecond, and how much worse each step away from the usual is: guesses that only sort
# Microseconds of an element that is added to another one: 200000 rows of 128 in float32 to 20000 others took an H100 58.6 us, whose bytes alone are 41.
_MEETING = 8e-7
# What is tried, the usual first.
_THREADS, _LONG, _FEW = (256, 128, 512, 64, 1024), (1024, 256, 4096), (16384, 4096, 65536)


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Universal]]:
    """Schedules, the usual one first: the model knows nothing about them but the bytes that the kernel moves, and what meets in memory."""
    if target.kind != "nvptx" or not has_known_sizes(kernel):
        return
    least = _START + count_bytes(kernel) / _RATE + _MEETING * _met(kernel)
    for (i, threads), (j, long), (k, few) in itertools.product(enumerate(_THREADS), enumerate(_LONG), enumerate(_FEW)):
        yield least * (1 + _STEP * (i + j + k)), Universal(threads, long, few)


def valid(kernel: func.FuncOp, schedule: Universal, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    return target.kind == "nvptx" and has_known_sizes(kernel) and schedule.threads in _THREADS and schedule.long > 0 and schedule.few > 0


def _met(kernel: func.FuncOp) -> int:
    """Elements that are added to others, or the like, where several may come to one place."""
    scatters = [op for op in walk(kernel, "tm_tensor.scatter") if not ir.BoolAttr(op.attributes["unique_indices"]).value]
    return sum(prod(op.operands[0].type.shape) for op in scatters if op.operands[0].type.has_static_shape)

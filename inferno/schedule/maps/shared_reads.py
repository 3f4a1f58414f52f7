"""What the iterations of a loop have in common: what a map reads that is broadcast along it, and computes of that."""

import math

from inferno.element_sizes import element_bytes
from inferno.mlir import dim_of, walk
from inferno.schedule.maps.computed_places import resizes_images
from inferno.schedule.maps.gathers import gathered
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import hint, is_multiple

_OPERATION = 0.15  # bytes that a copy moves while a lane does one operation: 4.2 TB/s beside 28 T operations a second
_FAR = 8192  # points between two that read the same: four blocks' own
_NEAR_SHARE = 2  # of what a point does so much (a half) has to be the same where neighbouring blocks read that anyway


def reused(point: Pointwise, across: int, vector: int, near: bool = True) -> int | None:
    """The run of which a thread had best do ``across`` iterations: that along which most of what a point reads is broadcast, and of what it
    computes is the same.

    None where that is less than a sixth of all, or a 24th where places are computed.  Where neighbouring blocks read the same anyway, which the L1 cache
    has then, only if there is no other, half of all is saved, and ``near``; of what is read where other tensors say, arithmetic is most of what is the same.
    Channels that lie side by side go before all others, if there are as many.
    """
    sizes, found = point.run_sizes, []
    if len(sizes) < 2 or not is_multiple(sizes[-1], vector):
        return None
    if (channels := point.channels) is not None and sizes[channels] == across:
        return channels
    work, share = _work(point), 24 if resizes_images(point) else 6
    beside = share if near and gathered(point) else _NEAR_SHARE
    for run in range(len(sizes) - 1):
        saved, far = sum(cost for cost, runs in work if run not in runs), hint(math.prod(sizes[run + 1:])) >= _FAR
        enough = (share if far else beside) * saved >= sum(cost for cost, _ in work)
        whole = isinstance(sizes[run], int) and point.sizes[point.runs[run][0]] % across == 0
        if whole and (far or near) and enough:
            found.append((far, saved, -run))
    return -max(found)[2] if found else None


def _work(point: Pointwise) -> list[tuple[float, set[int]]]:
    """What a point takes, in bytes: each access and each operation, with the runs that it depends on; without what a vector's lanes share."""
    last = len(point.runs) - 1
    moved = [(d.element, set(range(last + 1))) for d in point.destinations]
    moved += [(s.element, {r for r, stride in enumerate(point.run_strides(s)) if stride != 0}) for s in point.sources if s is not None]
    found = [(element_bytes(e), runs) for e, runs in moved]
    known = {a: {r for r, stride in enumerate(point.run_strides(s)) if stride != 0} for a, s in zip(point.block.arguments, point.sources) if s}
    for op in walk(point.generic):
        if op == point.generic or len(op.regions):
            continue
        if op.name == "linalg.index":
            loop = dim_of(op)
            runs = {r for r, run in enumerate(point.runs) if loop in run}
        else:
            runs = {r for v in op.operands for r in known.get(v, ())}
        known.update({r: runs for r in op.results})
        if op.name == "tensor.extract":
            found.append((element_bytes(op.results[0].type), runs))
        elif op.name.startswith(("arith.", "math.")) and op.name != "arith.constant":
            found.append((_OPERATION, runs))
    return [(cost, runs) for cost, runs in found if last in runs]

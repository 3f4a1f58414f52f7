"""Maps that read tensors where other tensors say, of each point: an image that is warped by a flow, deformable attention.

Neighbouring points read near each other, as far as anybody knows, and a warp's threads should have neighbouring points: by vectors of 8 points the lanes of a
load are 8 points apart and touch as many more sectors.  What the place is computed of is the same for all channels, so a thread does several of them.  (An
H200 took 46.5 us to sample 4x64x128x160 in bf16 by a flow with vectors of 8 and 4 channels a thread, ATen's kernel, of one point a thread, 17.)
"""

from inferno.mlir import dim_of, ir, owner, walk
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.schedule.maps.channels import SMALL
from inferno.schedule.maps.pointwise import Pointwise

# Iterations of a thread, at most.  4x64x128x160 in bf16 on an H200, us, of 1, 2, 4, 8, 16 and 32 channels: by a flow 27.8, 13.8, 9.7, 8.7, 9.1, 9.4 (eager
# 16.5), at random places 60.9, 54.3, 58.8, 96, 116, 120 (56.9), where what neighbouring threads read of a channel is elsewhere when they come to it.
_CHANNELS = 4
_HELD = 64  # elements that a thread has in registers at once


def gathered(point: Pointwise) -> list[ir.Operation]:
    """The extracts whose places follow from what is read along the innermost run of loops, in tensors that are not small."""
    last = set(point.runs[-1]) if point.runs else set()
    return [op for op in walk(point.generic, "tensor.extract") if _is_large(op) and any(_is_read(v, point, last) for v in list(op.operands)[1:])]


def channels_of(gathers: list[ir.Operation]) -> int:
    """Iterations that a thread best does where it has so many gathers for each: of branches, one is taken."""
    beside: dict[ir.Block, int] = {}
    for op in gathers:
        beside[op.operation.block] = beside.get(op.operation.block, 0) + 1
    most, found = max(beside.values()), _CHANNELS
    while found > 1 and found * most > _HELD:
        found //= 2
    return found


def _is_large(gather: ir.Operation) -> bool:
    table = ir.RankedTensorType(gather.operands[0].type)
    return not table.has_static_shape or tensor_bytes(table) > SMALL


def _is_read(value: ir.Value, point: Pointwise, last: set[int]) -> bool:
    """Whether a value follows from what is read at places that differ along the loops ``last``: of operands, or of tables at those loops' numbers."""
    sources = dict(zip(point.block.arguments, point.sources))
    left, seen = [(value, False)], set()
    while left:
        value, inside = left.pop()  # ``inside``: of a place that is read at
        if (value, inside) in seen or isinstance(value.type, ir.RankedTensorType):
            continue
        seen.add((value, inside))
        op = owner(value)
        if op is None:
            source = sources.get(value)
            if source is not None and any(source.strides[d] != 0 for d in last):
                return True
        elif op.name == "linalg.index":
            if inside and dim_of(op) in last:
                return True
        else:
            read = inside or op.name == "tensor.extract"
            left += [(v, read) for o in walk(op) for v in o.operands]
    return False

"""Maps that gather elements of which a few channels lie side by side, and write each channel by itself, as the resizing of an image with channels last whose
result has them first.

A warp that has neighbours of one channel reads one element of each sector of memory, and others read the same sectors again for other channels.  A thread that
has all channels of a point reads them by vectors, once, and computes the place and the weights once; each store of a warp's is still of neighbours.
"""

from collections.abc import Sequence

from inferno.element_sizes import element_bytes
from inferno.mlir import backward_slice, dim_of, ir, owner, walk
from inferno.passes.generics import loop_of
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.symbolic import Int

SMALL = 1 << 16  # bytes of a table that the L1 cache has whole, wherever it is read
_MOST = 16  # channels that a thread has: what it reads for them is in registers
_HELD = 64  # registers of 32 bits that a thread reads for a point


def channel_loop(generic: ir.Operation, sizes: Sequence[Int], sources: Sequence[Access | None]) -> int | None:
    """The loop that is the last place of all that a map gathers of tensors that are not small, and goes over all of it, where nothing else of their places
    depends on it; None where there is none, or it is long."""
    gathers = [g for g in walk(generic, "tensor.extract") if not g.operands[0].type.has_static_shape or tensor_bytes(g.operands[0].type) > SMALL]
    loops = {loop_of(g.operands[len(g.operands) - 1]) for g in gathers}
    if len(loops) != 1 or None in loops:
        return None
    (loop,) = loops
    size = sizes[loop]
    if not isinstance(size, int) or not 1 < size <= _MOST:
        return None
    words = sum(-(-size * element_bytes(g.results[0].type) // 4) for g in gathers)
    types = [g.operands[0].type for g in gathers]
    tables = all(g.parent == generic for g in gathers) and all(t.has_static_shape and t.shape[-1] == size for t in types)
    places = [v for g in gathers for v in list(g.operands)[1:-1]]
    return loop if tables and words <= _HELD and places and not any(_depends(v, generic, loop, sources) for v in places) else None


def _depends(place: ir.Value, generic: ir.Operation, loop: int, sources: Sequence[Access | None]) -> bool:
    """Whether a place that a body computes is another one in other iterations of a loop."""
    read = {a: s for a, s in zip(generic.regions[0].blocks[0].arguments, sources) if s is not None}
    for value in backward_slice([place]):
        made = owner(value)
        if (made is not None and made.name == "linalg.index" and dim_of(made) == loop) or (value in read and read[value].strides[loop] != 0):
            return True
    return False

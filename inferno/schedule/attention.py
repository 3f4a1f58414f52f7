"""Choose the schedule of attention on Hopper's tensor cores."""

from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.attention_by_size import for_sizes
from inferno.schedule.attention_candidates import candidates
from inferno.schedule.attention_cost import estimate
from inferno.schedule.attention_schedule import Attention, completed
from inferno.schedule.attention_support import is_new, read
from inferno.schedule.cost import fastest
from inferno.target import Target


def choose(kernel: func.FuncOp, target: Target) -> Attention | None:
    """The schedule with the lowest estimate if ``kernel`` is attention for Hopper's tensor cores, else None."""
    found = read(kernel, target)
    if found is not None and is_new(found[0]) and not takes_unmeasured(kernel.operation):
        return None
    if found is not None and found[0].varies:
        return for_sizes(*found, target)
    made = candidates(*found, target) if found is not None else []
    times = [(estimate(s, *found, target), s) for s in made]
    if not times:
        return None
    best = fastest(times)[1]
    return completed(best, found[0])

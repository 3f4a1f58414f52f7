"""Choose the schedule of attention on Hopper's tensor cores."""

from math import inf

from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.attention.by_size import for_sizes
from inferno.schedule.attention.candidates import candidates
from inferno.schedule.attention.cost import estimate
from inferno.schedule.attention.schedule import Attention, completed
from inferno.schedule.attention.support import is_new, read
from inferno.schedule.composite.size_ranges import BySize
from inferno.target import Target


def choose(kernel: func.FuncOp, target: Target) -> Attention | BySize | None:
    """The schedule with the lowest estimate if ``kernel`` is attention for Hopper's tensor cores, else None."""
    found = read(kernel, target)
    if found is not None and is_new(found[0]) and not takes_unmeasured(kernel.operation):
        return None
    if found is not None and found[0].varies:
        return for_sizes(*found, target)
    best = _best(kernel, target)[1]
    return completed(best, found[0]) if best is not None else None


def time(kernel: func.FuncOp, target: Target) -> float | None:
    """Microseconds of attention by its best schedule; None where there is none, or it depends on sizes that vary."""
    found, best = _best(kernel, target)
    return found if best is not None else None


@asked_once
def _best(kernel: func.FuncOp, target: Target) -> tuple[float, Attention | None]:
    """Of sizes that are known."""
    found = read(kernel, target)
    if found is None or found[0].varies:
        return inf, None
    return fastest((estimate(s, *found, target), s) for s in candidates(*found, target))

"""Choose the schedule of attention on Hopper's tensor cores."""

from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.attention_by_size import for_sizes
from inferno.schedule.attention_candidates import candidates
from inferno.schedule.attention_cost import estimate
from inferno.schedule.attention_kernel import AttentionKernel
from inferno.schedule.attention_schedule import Attention, completed
from inferno.schedule.attention_support import is_new, read
from inferno.schedule.attention_tiling import AttentionTiling
from inferno.schedule.by_size import BySize
from inferno.target import Target


def choose(kernel: func.FuncOp, target: Target) -> Attention | BySize | None:
    """The schedule with the lowest estimate if ``kernel`` is attention for Hopper's tensor cores, else None."""
    found = read(kernel, target)
    if found is not None and is_new(found[0]) and not takes_unmeasured(kernel.operation):
        return None
    if found is not None and found[0].varies:
        return for_sizes(*found, target)
    best = _best(*found, target) if found is not None else None
    return completed(best[1], found[0]) if best is not None else None


def time(kernel: func.FuncOp, target: Target) -> float | None:
    """Microseconds of attention by its best schedule; None where there is none, or it depends on sizes that vary."""
    found = read(kernel, target)
    best = None if found is None or found[0].varies else _best(*found, target)
    return best and best[0]


def _best(a: AttentionKernel, tiling: AttentionTiling, target: Target) -> tuple[float, Attention] | None:
    return min(((estimate(s, a, tiling, target), s) for s in candidates(a, tiling, target)), key=lambda item: item[0], default=None)

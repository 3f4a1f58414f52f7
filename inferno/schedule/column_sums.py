"""Products with one vector that are sums of scaled rows, ``(x * s[:, None]).sum(0)``: reductions of columns, of which tiles would be mostly empty."""

from inferno.mlir import func
from inferno.schedule import reductions
from inferno.schedule.contraction import Contraction
from inferno.schedule.cost import bit_width
from inferno.target import Target


def sums_columns(kernel: func.FuncOp, c: Contraction, target: Target, time: float) -> bool:
    """Whether ``reductions`` takes a product of 16 bits with one vector, whose results lie side by side, and is estimated to take less than ``time``, in
    microseconds."""
    if c.varies or c.B != 1 or 1 not in (c.M, c.N) or any(bit_width(a.element) != 16 for x in (c.lhs, c.rhs) for a in x.reads):
        return False
    found = reductions.read(kernel, target)
    return found is not None and not found.along and reductions.estimate(reductions.pick(found, target), found, target) < time

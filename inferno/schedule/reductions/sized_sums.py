"""The schedule of products of a vector with a matrix, one a batch, whose terms vary in number: they are sums of products, as means of a batch's unmasked rows.

A tile of a product has many rows, of which such a kernel uses one, and ``vectors`` asks for a known number of terms.
"""

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.target import Target


def choose(kernel: func.FuncOp, target: Target) -> Reductions | None:
    """A schedule if ``kernel`` is such products, which read the matrix once."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None or isinstance(c.K, int) or 1 not in (c.M, c.N):
        return None
    found = reductions.read_sized(kernel, target)
    return None if found is None else reductions.pick_sized(found, target)

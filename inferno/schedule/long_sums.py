"""Products of a matrix and a vector with few results, whose terms many blocks have to share, are sums of products: the schedule of a reduction."""

from inferno.mlir import func
from inferno.schedule import reductions, vectors
from inferno.schedule.contraction import parse_contraction
from inferno.target import Target

# How many times the reduction's estimate the others' are at least.  Theirs begin with 1.7 us, what a reduction that is cut has as two launches.
_CLEARLY = 1.3


def choose(kernel: func.FuncOp, target: Target) -> reductions.Reductions | None:
    """The reduction's schedule, of a product with one vector whose sums it cuts, where every other generator is estimated to take clearly longer; else None."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None or c.varies or c.is_reduction or 1 not in (c.M, c.N) or c.K < c.M * c.N:
        return None
    found = reductions.choose(kernel, target)
    if found is None or found.chunks == 1:
        return None
    others = [time for time, _ in vectors.candidates(c, target)] + [time for time, _ in vectors.tiles(kernel, c, target, is_narrow=False)]
    time = reductions.estimate(found, reductions.read(kernel, target), target)
    return found if all(time * _CLEARLY < other for other in others) else None

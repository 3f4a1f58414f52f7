"""Products of a batch with one row or column each, whose larger factor has the batch innermost, as sums of products: the schedule of a reduction.

Its neighbours in memory belong to different sums, of one term each, which is what reductions read by whole vectors; tiles of results would turn or copy it.
"""

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.matmul import vectors
from inferno.schedule.matmul.contraction import Contraction, Group, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.rows.row_work import body_instructions, busy
from inferno.target import Target

_LINE = 128  # bytes of a line of L1, of which a load of a warp takes one a clock


def choose(kernel: func.FuncOp, target: Target) -> reductions.Reductions | None:
    """The reduction's schedule where tiles are estimated to take longer; else None."""
    found = candidate(kernel, target)
    if found is None:
        return None
    time, schedule = found
    return schedule if all(time < other for other, _ in vectors.tiles(kernel, parse_contraction(kernel), target, is_narrow=False)) else None


def candidate(kernel: func.FuncOp, target: Target) -> tuple[float, reductions.Reductions] | None:
    """The schedule with its estimate in microseconds; None where it is no such product."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None or c.varies or c.is_reduction or 1 not in (c.M, c.N) or not is_uncoalesced(c):
        return None
    read = reductions.read(kernel, target)
    if read is None or read.along:
        return None
    schedule = reductions.pick(read, target)
    return estimate(schedule, read, target), schedule


def is_uncoalesced(c: Contraction) -> bool:
    """Whether what is read of the larger factor has neighbours in the batch alone."""
    exchanged = oriented(c, c.N < c.M)
    return all(_step(a, exchanged.batch) == 1 and 1 not in (_step(a, exchanged.k), _step(a, exchanged.n)) for a in exchanged.rhs.reads)


def _step(access: Access, group: Group) -> int:
    return min((abs(s) for s in group.strides(access) if s), default=0)


def estimate(s: reductions.Reductions, c: ReductionKernel, target: Target) -> float:
    """Microseconds: what memory takes, or the arithmetic, or the lines of L1 that loads touch, where the smaller factor's neighbours are apart."""
    inner = c.points[-1][-1]
    sources = {a for a in c.sources if a is not None}
    lines = sum(min(1.0, max(abs(a.strides[inner]), 1 / (s.vector * 32)) * element_bytes(a.element) / _LINE) for a in sources)
    terms = c.count * c.length
    touched = terms * lines / (target.multiprocessors * CLOCK)
    return max(reductions.estimate(s, c, target), touched, busy(terms * body_instructions(c.generic), target))

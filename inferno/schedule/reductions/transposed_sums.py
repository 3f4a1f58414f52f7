"""Sums that read several tensors of different layouts: one is contiguous along rows, another one along columns.

By threads whose neighbours lie in one of them each element of the other is in a sector of its own, and a multiprocessor looks up one line of its cache at a
time.  So a warp's threads are as many sums, which are neighbours there, as terms, which are neighbours here: of both it reads some lines, and what else these
hold its block reads soon.  Where what are neighbours there are terms as well, a block adds up what its threads have side by side (``parts``).

An H200 took, before and so, for sums of z * w of 16x256x56x56 in bf16, of which one has its channels last, 85 us and 17 over all but channels (torch.compile
23), 65 and 17 over images (27); for their mean squared error 78 and 15 (83), of each image 80 and 16 (83), in float32 91 and 29 (94); for sums of
where(x.t() > 0, x.t(), y) of 4096x4096 in bf16 78 and 24 (23), in float32 126 and 36 (35), of 8000x1000 in bf16 36 and 10 (17).
"""

from dataclasses import replace

from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.parser import walks_all
from inferno.schedule.reductions.uncoalesced_terms import is_uncoalesced
from inferno.symbolic import hint

# Lanes of a thread and sums side by side, which 4 threads of 256 go along each: with 8 and 2 threads most of what was timed took as long or longer.
LANES, ACROSS = 8, 64
BLOCKS = 8  # of a multiprocessor: sums are cut into chunks for as many
FEW = 16  # neighbours, of fewer of which pieces are less than a sector


def transposed_run(c: ReductionKernel) -> tuple[int, ...] | None:
    """The loops along which neighbours lie in a tensor whose elements are far apart in memory along ``c``'s innermost one; None without one, for products of
    matrices, and where places or exponentials are looked for or maps are given back, which go another way."""
    if not c.along or c.stored or c.tables or c.reads or c.extremum is not None or c.exponentials is not None or not isinstance(c.count * c.length, int):
        return None
    if not walks_all(c.sizes, c.sources):
        return None
    inner = c.terms[-1][-1]
    uncoalesced = [a for a in c.sources if a is not None and is_uncoalesced(c.sizes, a, inner)]
    last = {next(d for d, x in enumerate(a.strides) if x == 1 and hint(c.sizes[d]) > 1) for a in uncoalesced}
    runs = [run for run in (*c.points, *c.terms[:-1]) if run[-1] in last]
    return runs[0] if len(last) == 1 and len(runs) == 1 and c.size(runs[0]) >= FEW else None


def transposed(c: ReductionKernel) -> ReductionKernel:
    """The sums that threads side by side have: of ``c``, or parts of these, each of which has one of each neighbour's."""
    run = transposed_run(c)
    points, terms = (tuple(x for x in runs if x != run) for runs in (c.points, c.terms))
    return c if run is None else replace(c, points=(*points, run), terms=terms)


def parts(c: ReductionKernel, across: int) -> int:
    """Parts of each sum that blocks of ``across`` neighbours leave, which are none of the next sum's; 0 where they would be."""
    run = transposed_run(c)
    if run is None or run in c.points:
        return 1
    size = c.size(run)
    return -(-size // across) if c.count == 1 or size % across == 0 else 0

"""How the points of rows lie in vectors: how many are contiguous, in which tensors, and whether rows begin aligned."""

from math import gcd

from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.chosen_terms import chosen_together
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.rows.kernel import Part, RowKernel
from inferno.schedule.rows.row_schedule import narrowest
from inferno.schedule.rows.row_sectors import is_in_pieces
from inferno.schedule.rows.row_steps import RowStep
from inferno.symbolic import hint


def leading(c: RowKernel) -> Access:
    """What differs most between rows, by which vectors of rows that begin anywhere lie."""
    places = [a for step in c.steps for a in step.extras if c.wide(a)] + [d.access for d in c.destinations if c.wide(d.access)]
    return max(places, key=lambda a: hint(sum(a.strides[d] for d in c.rows)))


def stored_alike(c: RowKernel) -> bool:
    """Whether rows lie in every tensor that is written as in the one that vectors go by, as far as vectors go."""
    wide = [d.access for d in c.destinations if c.wide(d.access)]
    lead = leading(c)
    return all((a.strides[d] - lead.strides[d]) % 8 == 0 for a in wide for d in c.rows)


@kept_with
def lanes(c: RowKernel) -> int:
    """Neighbours that are read at once: 16 bytes of the narrowest tensor, if they divide a row."""
    vector = 1 if reads_pieces_apart(c) else most_lanes(c)
    while any(begin % vector for a in c.joined for begin, _ in a.pieces) or any(_chosen_together(c, s) % vector for s in c.choosing):
        vector //= 2
    while any(begin % vector for d in c.parts for begin in _begins(c, d)):
        vector //= 2
    inner = c.run_sizes[-1] if len(c.runs) > 1 else c.width
    cut = any(d in c.columns and d not in c.runs[-1] for part in c.parts for d, _, _ in part.inside)  # no vector is partly in a part
    while inner % vector and (cut or not (c.width % vector == 0 and _contiguous(c))):
        vector //= 2
    return vector


def _begins(c: RowKernel, part: Part) -> list[int]:
    """Places where a part begins, or ends, in a row or in memory, as far as vectors go: of what lies in none, elements are written by themselves."""
    ends = [x * c.in_run(d)[2] for d, begin, end in part.inside if d in c.runs[-1] for x in (begin, end)]
    return [part.access.offset, *(part.access.strides[d] for d in (*c.rows, *(run[-1] for run in c.runs[:-1]))), *ends]


def _chosen_together(c: RowKernel, step: RowStep) -> int:
    """Of how many neighbours as many as a divisor of this number lie on the same side of all that a step chooses by."""
    inner = c.columns[-1]
    along = [(d, loop) for d, loop in enumerate(step.indices) if loop in c.columns]
    return gcd(*(chosen_together(step.generic, d, c.sizes[inner]) if loop == inner else c.sizes[inner] for d, loop in along))


def reads_pieces_apart(c: RowKernel) -> bool:
    """Whether a row's points are read one by one, and others of the row lie beside them: what a warp reads at once then lies in as few places as can be
    where its threads have neighbours."""
    return any(is_in_pieces(c, a) for s in c.steps for a in s.extras)


def most_lanes(c: RowKernel) -> int:
    """Neighbours of 16 bytes of the narrowest tensor."""
    return min(8, 16 // narrowest(c))


def can_be_ragged(c: RowKernel, vector: int) -> bool:
    """Whether rows can be read in whole vectors that lie as memory does, though rows do not begin with one: where all points of a row are neighbours,
    and so in every tensor."""
    places = [d.access for d in c.destinations if c.wide(d.access)] + [a for s in c.steps for a in s.extras if c.wide(a)]
    together = bool(places) and all(a.strides[c.runs[0][-1]] in (0, 1) for a in places)
    return vector > 1 and len(c.runs) == 1 and not c.in_pieces and not c.parts and _contiguous(c) and together


def _contiguous(c: RowKernel) -> bool:
    """Whether the points of a row are neighbours in memory."""
    return max(c.rows, default=-1) < min(c.columns)

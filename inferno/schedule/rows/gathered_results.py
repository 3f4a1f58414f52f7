"""Results whose neighbours in memory belong to other rows, which a block of several rows puts together in shared memory before they are written."""

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_schedule import Rows

GATHERED_APART = 4  # elements between the parts of two points, so that neighbouring points of a warp's rows are in other banks
GATHERED_BYTES = 44 << 10  # of the 48 KB that a kernel has without asking for more


def written_apart(c: RowKernel) -> list[Access]:
    """What is written of which a row's points lie apart."""
    return [d.access for d in c.destinations if c.wide(d.access) and d.access.strides[-1] != 1]


def gathered_bytes(c: RowKernel, count: int) -> int:
    """Shared memory for what so many rows write apart."""
    return sum(c.width * (count + GATHERED_APART) * element_bytes(a.element) for a in written_apart(c))


def can_gather(s: Rows, c: RowKernel) -> bool:
    """Whether blocks can put together in shared memory what their rows write apart."""
    return s.held and s.cluster == 1 and not (s.persistent or s.ragged or c.varies) and gathered_bytes(c, s.threads // s.across) <= GATHERED_BYTES

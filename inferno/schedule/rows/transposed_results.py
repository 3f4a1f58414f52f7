"""How a block of ``columns`` writes its result with rows contiguous that it reads side by side (transposed): a thread has a run of neighbouring points, so that
it writes whole vectors of a row, and so few rows are side by side that a warp's points of each are whole sectors."""

from math import gcd, prod

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.packed_rows import row_runs
from inferno.symbolic import is_multiple
from inferno.target import SECTOR

SIDE = 4  # threads side by side: 64 bytes of a line
# On an H200 an instance norm of 64x256x64x64 with channels last took 118 us in bf16 by single points, by runs of 2, 4 and 8 110, 108 and 113, of 8x320x64x64
# 24.2, by 4 21.7; in float32 227, by 4 220, and 195 with 8 vectors side by side, as a copy does.  A group norm of 64x256x64x64 took 134, 127 (4) and 96 (8) in
# bf16, in float32 219, 214 (4), and 191 with 8 vectors.
_RUN, _GROUPED_RUN, _WIDE = 4, 8, 8


def apart(c: RowKernel) -> list[Access]:
    """What is written with rows one behind the other."""
    return [d.access for d in c.destinations if c.wide(d.access) and d.access.strides[c.rows[-1]] != 1]


def run_of(c: RowKernel) -> int:
    """Neighbouring points of a thread."""
    widths = {element_bytes(a.element) for a in apart(c)}
    if not widths or not widths <= {2, 4} or any(a.strides[c.runs[-1][-1]] != 1 for a in apart(c)) or not isinstance(c.run_sizes[-1], int):
        return 1
    return gcd(c.run_sizes[-1], _GROUPED_RUN if c.together > 1 and min(widths) == 2 else _RUN)


def most_beside(c: RowKernel) -> int:
    """Threads side by side."""
    widths = [element_bytes(a.element) for a in apart(c)]
    if widths and min(widths) == 4 and run_of(c) == _RUN:
        return _WIDE
    return min([SIDE, *(32 * n // SECTOR for n in widths)])


def transposes(c: RowKernel) -> bool:
    """Whether rows are side by side where they are read, by whole sectors, and one behind the other where they are written: an instance norm of images
    with channels last."""
    inner, point = c.rows[-1], c.runs[-1][-1]
    read = {a for s in c.steps for a in s.extras if c.wide(a) and any(a.strides[d] for d in c.rows)}
    side = all(a.strides[inner] == 1 and a.strides[point] not in (0, 1) for a in read)
    return bool(read) and side and inner < point and lanes(c) > 1 and all(most_beside(c) * lanes(c) * a.element.width >= 8 * SECTOR for a in read)


def lanes(c: RowKernel) -> int:
    """Rows of a vector: 16 bytes of the narrowest tensor, if they divide the rows that are neighbours."""
    wide = [element_bytes(d.access.element) for d in c.destinations if c.wide(d.access)]
    wide += [element_bytes(a.element) for s in c.steps for a in s.extras if c.wide(a) and a.strides[c.rows[-1]]]
    vector = min(8, 16 // min(wide)) if wide else 1
    size = prod(c.sizes[d] for d in row_runs(c)[-1])
    while not is_multiple(size, vector):
        vector //= 2
    return vector

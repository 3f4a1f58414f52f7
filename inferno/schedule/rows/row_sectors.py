"""How many sectors of memory a row occupies whose points are not contiguous: other points of the row may use the rest of a sector.

An instance norm with channels last uses one number of each sector.  A patch of an image, of which the colours of a pixel are neighbours in its row, has
some neighbouring pixels of each plane: the row uses whole sectors, though each of its points lies in another one than the next.  A warp, whose threads read
neighbours, reads a few pieces of a plane's line at once then; of a group norm with channels last it would read one number of each of 32 lines.
"""

from math import gcd, prod
from statistics import fmean

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.kernel import RowKernel
from inferno.target import SECTOR

_KEPT = 1 << 15  # bytes of a row whose sectors the L1 cache keeps until all of the row's points are read
_PIECES = 8  # points of a row between two that lie beside each other: from as many places, or fewer, does a warp read at once
_SHARE = 0.7  # of sectors that are read in part: what others need of the rest is in the L2 cache


def spread(c: RowKernel, access: Access) -> float:
    """How many times its bytes an access moves whose neighbours lie apart: an instance norm of 64x256x64x64 with channels last took 394 us in bf16 and 424 in
    float32 where it read them so, and 66 and 132 where it did not."""
    inner = access.strides[c.runs[-1][-1]] if c.wide(access) and not (c.rows and c.rows[-1] == len(c.sizes) - 1) else 1
    if inner in (0, 1):
        return 1.0
    each = element_bytes(access.element)
    count, bytes_ = piece(c, access)
    if count > 1:
        return max(1.0, _SHARE * _sectors(c, access, bytes_) * SECTOR / (count * each))
    return max(1.0, _SHARE * min(SECTOR, inner * each) / each)


def is_in_pieces(c: RowKernel, access: Access) -> bool:
    """Whether a row's neighbours lie apart and others of its points are beside them."""
    return c.wide(access) and access.strides[c.runs[-1][-1]] not in (0, 1) and piece(c, access)[0] > 1


def piece(c: RowKernel, access: Access) -> tuple[int, int]:
    """How many points of a row lie beside each other, those that are read soon after among them, and the bytes from the first to the last; one point of rows
    that are longer than caches keep, and of those whose points beside each other are far from each other in the row."""
    each = element_bytes(access.element)
    count, bytes_ = 1, each
    if c.width * each > _KEPT or not all(isinstance(access.strides[d], int) for d in c.columns):
        return count, bytes_
    for stride, d in sorted((access.strides[d], d) for d in c.columns if access.strides[d] > 0):
        between = prod(c.sizes[n] for n in c.columns if n > d)
        if stride * each > bytes_ or (count == 1 and between > _PIECES):
            break
        count, bytes_ = count * c.sizes[d], bytes_ + (c.sizes[d] - 1) * stride * each
    return count, bytes_


def _sectors(c: RowKernel, access: Access, bytes_: int) -> float:
    """Those that a piece of so many bytes lies in, on average of where pieces begin."""
    each = element_bytes(access.element)
    begins = [access.offset, *(access.strides[d] for d in range(len(c.sizes)) if not isinstance(access.strides[d], int) or access.strides[d] * each >= bytes_)]
    step = gcd(SECTOR, *(x * each if isinstance(x, int) else each for x in begins))
    return fmean(-(-(first + bytes_) // SECTOR) for first in range(0, SECTOR, step))

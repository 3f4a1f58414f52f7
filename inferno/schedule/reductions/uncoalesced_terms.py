"""What a reduction reads or writes uncoalesced: neighbouring threads' elements are in sectors of their own, as that tensor has another layout.

A kernel of sums has no tiles: what such elements cost says whether a map that transposes a tensor becomes part of it, and which tensor's order its threads
follow.
"""

from collections.abc import Iterable, Sequence

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.symbolic import hint, product
from inferno.target import SECTOR

_SHORT = 4  # neighbours, up to which other loops read what else is in a sector soon
# Elements a µs, each of a sector.  An H200 wrote, beside sums in channels last, 32x144x56x56 in channels first at 54e3 in float32 and 50e3 in bf16,
# 32x240x28x28 at 67e3, and three tensors of 128x128x256 at 57e3; it read four of 32x144x56x56 at 270e3 to 480e3, four of 32x240x28x28 at 280e3 and
# 325e3, and one of 144x8x56x56 at 128e3.
_READ, _WRITTEN = 250e3, 55e3


def uncoalesced_time(sizes: Sequence[int], inner: int, read: Iterable[Access | None], written: Iterable[Access | None]) -> float:
    """Microseconds that uncoalesced elements take more than others, where the loop ``inner`` goes over neighbours."""
    every = [(a, _READ) for a in set(read)] + [(a, _WRITTEN) for a in set(written)]
    return sum(elements(sizes, a) / rate for a, rate in every if a is not None and is_uncoalesced(sizes, a, inner))


def elements(sizes: Sequence[int], access: Access) -> int:
    """Elements that loops of these sizes reach."""
    return hint(product(s for s, stride in zip(sizes, access.strides) if stride != 0))


def is_uncoalesced(sizes: Sequence[int], access: Access, inner: int) -> bool:
    """Whether neighbours along a loop are in different sectors, and another loop goes over what else these hold."""
    step, width = access.strides[inner], element_bytes(access.element)
    between = [d for d, stride in enumerate(access.strides) if stride == 1 and hint(sizes[d]) > _SHORT]
    return isinstance(step, int) and abs(step) * width >= SECTOR and hint(sizes[inner]) > _SHORT and bool(between)

"""Masks and biases of attention that the copy engine (TMA) brings to shared memory together with the keys that they are for.

A thread's scores are pairs of neighbours in eight rows of a warp, so that it reads 4 bytes at a time of a mask in memory and a warp eight lines; in
shared memory matrices of 16 bits lie as scores do, and pairs of others in different banks.  (4x16x4096x64 with a mask of 4096x4096: 1146 us on an H200,
so 759, without it 601.)
"""

from collections.abc import Sequence

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.support import negative
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.schedule.tiles.result_parts import Brought
from inferno.schedule.tiles.tiling import Axis, direct

_ELEMENTS = ("bf16", "f16", "f32", "i1")


def brought_masks(a: AttentionKernel, t: AttentionTiling) -> list[Brought]:
    """Of what is read for scores those tensors that have an element for each, with their maps: keys innermost, then queries."""
    if a.varies or a.pages or a.blocks is not None or a.q.element.width != 16 or t.rows < 64:
        return []
    return with_maps([x for x in a.score_extras if x not in a.broken], t.keys, t.queries, t.grid)


def with_maps(read: Sequence[Access], keys: Axis, queries: Axis, grid: tuple[Axis, ...]) -> list[Brought]:
    """Those of the tensors that are ``read`` for scores."""
    found = []
    for access in read:
        size, own = element_bytes(access.element), keys.stride(access) != 0 and queries.stride(access) != 0
        if own and str(access.element) in _ELEMENTS and not negative(access) and (map_ := direct(access, (keys, queries), grid, size)) is not None:
            found.append(Brought(access, *map_))
    return found


def widths(brought: Sequence[Brought]) -> str:
    """A schedule's ``masks``."""
    return " ".join(str(b.bytes) for b in brought)

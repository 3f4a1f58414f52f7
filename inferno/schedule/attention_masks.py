"""Masks and biases of attention that the copy engine brings to shared memory, beside the keys that they are for.

A thread's scores are pairs of neighbours in eight rows of a warp, so that it reads 4 bytes at a time of a mask in memory and a warp eight lines; matrices of
a tile in shared memory lie as scores do.  (4x16x4096x64 with a mask of 4096x4096: 1146 us on an H200, so 759, without it 601.)
"""

from inferno.schedule.attention_kernel import AttentionKernel
from inferno.schedule.attention_support import negative
from inferno.schedule.attention_tiling import AttentionTiling
from inferno.schedule.result_parts import Brought
from inferno.schedule.tiling import direct


def brought_masks(a: AttentionKernel, t: AttentionTiling) -> list[Brought]:
    """Of what is read for scores those tensors of 16 bits that have an element for each, with their maps: keys innermost, then queries."""
    if a.varies or a.pages or a.blocks is not None or a.q.element.width != 16 or t.rows < 64:
        return []
    found = []
    for access in a.score_extras:
        if str(access.element) in ("bf16", "f16") and not negative(access) and (map_ := direct(access, (t.keys, t.queries), t.grid, 2)) is not None:
            found.append(Brought(access, *map_))
    return found

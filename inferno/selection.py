"""What the GPU's kernels for sorts are for; ``capture`` asks before kernels are made, ``schedule`` when they are."""

MOST = 2048  # elements, which are sorted in one block's shared memory
HELD = 512 * 32  # of a row that one block holds


def can_select(length: int, begin: int, count: int, bits: int) -> bool:
    """Whether elements ``begin`` to ``begin + count`` of a sorted row of ``length``, of ``bits`` each, are found so, and it is less work than sorting."""
    if bits > 32 or 4 * count > 3 * length:
        return False
    if begin:
        return count == 1 and length <= HELD
    return count <= (MOST if length <= HELD else MOST // 2)

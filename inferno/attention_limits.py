"""For which attention kernels of its gradients are chosen without being asked for: what was timed."""

# An H200's times of cuDNN's kernels by ours, for lengths of 512, 1024, 2048, 4096 and 8192, 8192 queries of 16 heads in all.  128 columns, causal: 1.19,
# 1.15, 1.11, 1.07, 1.04 (8 heads of keys for 32, 2048 long: 1.10); all keys: 1.10, 1.02, 0.98, 0.98, 0.94; 64 columns, causal: 1.19, 1.14, 1.10, 1.06,
# 1.01 (8 heads of keys for 32, 8192 long: 0.97); all keys: 1.02, 0.94, 0.88, 0.86, 0.83.  What stands in their place where they are not chosen is no
# kernel of cuDNN's but the products, with scores in memory.
# Dropout, forward and backward by eager's: 128 columns 1.25 to 1.43, 64 columns 1.04 to 1.34, 4x16x2048 without a mask 0.99.
_COLUMNS = (64, 128)
# Written by hand, without a mask, beside products with scores in memory: 2x8x256x64 15 and 20 us, 32x12x197x64 106 and 434; with padding 32x12x128x64 47
# and 80.
_SHORTEST, _LONGEST = 128, 8192
# Shorter ones, all keys or causal and nothing dropped, in a training step of a block with its projections, beside one with products: 16x8x77x64 89 and 133 us,
# 64x4x49x32 74 and 109.
_SHORT = {64: 64, 32: 48}  # the fewest queries and keys, by columns
# Beside masks, forward and backward together by eager's, which is the efficient kernel: windows of 512 of 4096 keys 9.5 with 128 columns, 8.4 with 64 (17 of
# 8192 keys); causal and padding 3.4 (8192 long), 3.0 (2048), 2.0 (512, 64 columns); slopes of heads 7.9; masks that are read (an H100's times), of 128 columns
# 1.4, of 64 columns 1.15 to 1.25 (32 x 12 x 128 1.4 to 1.5).  8 heads of keys for 32: padding 2.6, windows 10.1, masks that are read 1.25 with 64 columns.
# The backward of 2x16x2048x96 beside a mask that is read took 420 us, eager's 594, the products 1870.


def is_timed(depth: int, width: int, length: int, masked: bool = False, dropped: bool = False) -> bool:
    """Whether gradients of attention of so many queries and as many keys were timed beside torch's; ``masked``: beside a mask or a bias, nothing dropped;
    ``dropped``: weights are, with or without one."""
    if not (masked or dropped) and isinstance(length, int) and length < _SHORTEST:
        return depth == width and length >= _SHORT.get(depth, _SHORTEST)
    columns = min(_COLUMNS) <= depth <= max(_COLUMNS) if masked else depth in _COLUMNS
    return depth == width and columns and _SHORTEST <= length <= _LONGEST

"""For which attention kernels of its gradients are chosen without being asked for: what was timed."""

# An H200's times of cuDNN's kernels by ours, for lengths of 512, 1024, 2048, 4096 and 8192, 8192 queries of 16 heads in all.  128 columns, causal: 1.19,
# 1.15, 1.11, 1.07, 1.04 (8 heads of keys for 32, 2048 long: 1.10); all keys: 1.10, 1.02, 0.98, 0.98, 0.94; 64 columns, causal: 1.19, 1.14, 1.10, 1.06,
# 1.01 (8 heads of keys for 32, 8192 long: 0.97); all keys: 1.02, 0.94, 0.88, 0.86, 0.83.  What stands in their place where they are not chosen is no
# kernel of cuDNN's but the products, with scores in memory.
_COLUMNS = (64, 128)
_SHORTEST, _LONGEST = 512, 8192


def is_timed(depth: int, width: int, length: int) -> bool:
    """Whether gradients of attention of so many queries and as many keys, without a mask of its own, were timed beside cuDNN's."""
    return depth == width and depth in _COLUMNS and _SHORTEST <= length <= _LONGEST

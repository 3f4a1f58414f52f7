"""For which attention kernels of its gradients are chosen without being asked for: what was timed."""

# An H200's times of cuDNN's kernels by ours, for lengths of 512, 1024, 2048, 4096 and 8192, 8192 queries of 16 heads in all.  128 columns, causal: 1.19,
# 1.15, 1.11, 1.07, 1.04 (8 heads of keys for 32, 2048 long: 1.10); all keys: 1.10, 1.02, 0.98, 0.98, 0.94; 64 columns, causal: 1.19, 1.14, 1.10, 1.06,
# 1.01 (8 heads of keys for 32, 8192 long: 0.97); all keys: 1.02, 0.94, 0.88, 0.86, 0.83.  What stands in their place where they are not chosen is no
# kernel of cuDNN's but the products, with scores in memory.
_COLUMNS = (64, 128)
_SHORTEST, _LONGEST = 512, 8192
# Beside masks, forward and backward together by eager's: windows of 512 of 4096 keys 9.5 with 128 columns, 8.4 with 64; causal and padding 3.0 (2048 long)
# and 2.0 (512); slopes of heads 7.9; read from memory, of 128 columns bools of keys 1.4, of queries and keys 1.2, numbers 1.1; of 64 columns 1.0, 1.0 and 0.9.
_LONGEST_MASKED = 4096


def is_timed(depth: int, width: int, length: int, masked: bool = False) -> bool:
    """Whether gradients of attention of so many queries and as many keys were timed beside torch's; ``masked``: with another mask than a causal one."""
    return depth == width and depth in _COLUMNS and _SHORTEST <= length <= (_LONGEST_MASKED if masked else _LONGEST)

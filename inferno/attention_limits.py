"""For which attention kernels of its gradients are chosen without being asked for, by what was timed."""

# By columns, and whether attention is causal: the greatest number of queries that took no longer than cuDNN on an H200, of the lengths from 512 to 8192,
# 8192 queries of 16 heads in all.  Times of cuDNN's by ours, 128 columns, causal: 1.19, 1.15, 1.11, 1.07, 1.04 (8 heads of keys for 32, 2048 long: 1.10);
# all keys: 1.10, 1.02, 0.98, 0.98, 0.94; 64 columns, causal: 1.19, 1.14, 1.10, 1.06, 1.01 (8 heads of keys for 32, 8192 long: 0.97); all keys: 1.02, 0.94,
# 0.88, 0.86, 0.83.
_LONGEST = {(128, True): 8192, (128, False): 1024, (64, True): 4096, (64, False): 512}
_SHORTEST = 512


def is_timed(depth: int, width: int, length: int, causal: bool) -> bool:
    """Whether gradients of attention of so many queries and as many keys, without a mask of its own, were found to take no longer than cuDNN's."""
    return depth == width and _SHORTEST <= length <= _LONGEST.get((depth, causal), 0)

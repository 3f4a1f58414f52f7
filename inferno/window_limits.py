"""Which windows are read as they are, on CUDA cores (generator ``windows``); ``capture`` asks before kernels are made, passes and schedules after."""

# Windows of so many terms - the weights that a thread can keep - over images of so few channels, or in groups of their own: with more the tensor cores'
# generators are better.
MOST_TERMS, FEW_CHANNELS = 128, 4


def window_count(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Places of a window along a dimension; less than 1 where it does not fit."""
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1

"""Powers of two that are near a whole number: threads, vectors and tiles are such."""


def next_power_of_two(x: int) -> int:
    """The least power of two that is not below ``x``; 1 for what is not positive."""
    return 1 << max(0, x - 1).bit_length()


def last_power_of_two(x: int) -> int:
    """The largest power of two that is not above ``x``; 1 for what is not positive."""
    return 1 << max(0, x.bit_length() - 1)

"""What Hopper's copy engine can do in its im2col mode (cuTensorMapEncodeIm2col, and the PTX ISA's tensors in im2col mode)."""

BITS = {1: 16, 2: 8, 3: 5}
"""By spatial dimensions: of each coordinate of a box's corners, which are signed, and of each offset of a tap."""
MOST_STEP, MOST_CHANNELS, MOST_PIXELS = 8, 256, 1024
"""Of the distance of pixels along a dimension; of one copy."""


def fits_corner(place: int, dimensions: int) -> bool:
    """Whether a corner of a box of so many spatial dimensions may have this coordinate, a distance from the image's corner."""
    most = 1 << BITS[dimensions] - 1
    return -most <= place < most

"""Inputs of maps that are contiguous along another dimension than the result, and the vectors by which they can be read through tiles in shared memory."""

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import ir
from inferno.schedule.maps.pointwise import Pointwise, aligned
from inferno.symbolic import hint, is_multiple

LINE = 128  # bytes of a line of the L1 cache
WORD = 4  # bytes of a bank of shared memory


def transposed(point: Pointwise) -> tuple[int, tuple[int, ...]] | None:
    """The run along which inputs are contiguous that are not so along the last one, and the numbers of those inputs.

    None if there are none, if either run is too short for tiles, or if the body reads tables.
    """
    sizes, last = point.run_sizes, len(point.runs) - 1
    if last < 1 or point.tables or hint(sizes[last]) < 16 or point.run_strides(point.destinations[0])[last] != 1:
        return None
    for across in range(last):
        numbers = tuple(
            n for n, s in enumerate(point.sources)
            if s is not None and point.run_strides(s)[across] == 1 and hint(point.run_strides(s)[last]) > 1
        )
        if numbers and hint(sizes[across]) >= 16 and len(numbers) <= 4:
            return across, numbers
    return None


def tile_side(elements: list[ir.Type]) -> int:
    """Points along each side of a tile of such inputs: 4 of 4 bytes or 16 narrower ones for each of 256 threads."""
    return 64 if max(map(bit_width, elements)) <= 16 else 32


def transposed_vector(point: Pointwise, across: int, numbers: tuple[int, ...]) -> int:
    """Elements of the vectors of 16 bytes by which the inputs ``numbers`` can be read along the run ``across``, and written along the last one, or of what is
    aligned of them, two elements and 4 bytes at least; 1 where they cannot."""
    last = len(point.runs) - 1
    width = {element_bytes(point.sources[n].element) for n in numbers}
    vector = 16 // max(width)
    least = max(2, WORD // max(width))
    tile = LINE // max(width)
    if len(width) != 1 or any(2 * hint(point.run_sizes[r]) < tile for r in (across, last)):
        return 1
    while vector >= least:
        lie = [aligned(point, point.sources[n], across, vector) for n in numbers] + [aligned(point, d, last, vector) for d in point.destinations]
        if min(lie) == vector and all(is_multiple(point.run_sizes[r], vector) for r in (across, last)):
            return vector
        vector //= 2
    return 1

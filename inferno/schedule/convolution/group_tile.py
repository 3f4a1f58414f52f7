"""The layout of an image's tile in shared memory, for tensor cores that read a window's taps there without bank conflicts.

A place has a slot of an odd number of 16 bytes.  Neighbouring outputs read neighbouring slots: with a stride, the places that are a multiple of it away
from each other lie side by side.  What is between rows, and between images, is so long that this is so modulo 8 also where a row of outputs ends.
"""

from dataclasses import dataclass
from math import ceil

BYTES = 16
"""Of what a lane gives the address of; eight of them are all banks."""


@dataclass(frozen=True)
class Side:
    """Along one dimension: so many outputs, and the window that each reads."""

    outputs: int
    stride: int = 1
    taps: int = 1
    dilation: int = 1

    @property
    def places(self) -> int:
        """Of the image."""
        return (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    @property
    def slots(self) -> int:
        return self.stride * ceil(self.places / self.stride)


@dataclass(frozen=True)
class GroupTile:
    """Of ``images`` images, with ``pieces`` of 16 bytes a place.  All distances are in bytes, but for those in slots."""

    images: int
    down: Side
    along: Side
    pieces: int

    @property
    def outputs(self) -> int:
        return self.images * self.down.outputs * self.along.outputs

    @property
    def pitch(self) -> int:
        return odd(self.pieces) * BYTES

    @property
    def row(self) -> int:
        """Slots from one row to the next."""
        return _congruent(self.along.slots, self.along.outputs)

    @property
    def image(self) -> int:
        """Slots from one image to the next."""
        return _congruent(self.down.slots * self.row, self.down.outputs * self.along.outputs)

    @property
    def bytes(self) -> int:
        return self.images * self.image * self.pitch

    def tap(self, r: int, s: int) -> int:
        """From an output's first tap to this one."""
        at = [k * side.dilation % side.stride * (side.slots // side.stride) + k * side.dilation // side.stride for k, side in ((r, self.down), (s, self.along))]
        return (at[0] * self.row + at[1]) * self.pitch


def odd(count: int) -> int:
    """The least odd number that is not less."""
    return count | 1


def _congruent(least: int, to: int) -> int:
    return least + (to - least) % 8

"""What a block that sums over taps has of a tensor in shared memory."""

from dataclasses import dataclass

WHOLE = 16
"""Bytes of a copy, at most."""


@dataclass(frozen=True)
class Region:
    """What a block has of a tensor in shared memory: ``images``, ``rows``, ``columns``, of which the first ``lead`` are for alignment, ``channels``, which are
    neighbours there if they are in memory, and else have rows of their own, with ``apart`` elements behind them, so that neighbouring channels' elements are
    not in one bank.  A copy brings ``vector`` neighbours, along the channels or the columns, of which a thread's piece has ``run``."""

    images: int
    rows: int
    columns: int
    channels: int
    lead: int
    vector: int
    along_channels: bool
    width: int
    run: int = 1
    apart: int = 0

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """Elements from one image, row, column and channel to the next."""
        if self.along_channels:
            return self.rows * self.columns * self.channels, self.columns * self.channels, self.channels, 1
        channel = self.rows * self.columns + self.apart
        return self.channels * channel, self.columns, 1, channel

    @property
    def bytes(self) -> int:
        return -(-self.images * self.strides[0] * self.width // WHOLE) * WHOLE

    @property
    def pieces(self) -> int:
        return self.images * self.rows * self.columns * self.channels // (self.vector * self.run)


def together(width: int, numbers: tuple[int, ...], most: int = WHOLE) -> int:
    """The most neighbours, of up to so many bytes, that all of these are multiples of."""
    found = 1
    while 2 * found * width <= most and all(n % (2 * found) == 0 for n in numbers):
        found *= 2
    return found

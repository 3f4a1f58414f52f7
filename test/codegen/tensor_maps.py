"""What a tensor map tells the copy engine (TMA): which elements of a buffer one copy moves, in the order in which they lie in shared memory."""

import numpy as np
from simulated_memory import Mapped

from inferno.runtime.plan.plan import PixelMap


def swizzled(at: np.ndarray, span: int) -> np.ndarray:
    """Where what is at these addresses lies under a swizzle."""
    return at ^ (at >> 3 & {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}[span])


def moved(map_: Mapped, where: list[int], offsets: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Which elements of a copy lie inside of the tensor, and where in the buffer, outermost dimension first."""
    m, size = map_.map, map_.memory.data.dtype.itemsize
    assert len(where) == len(m.sizes) and m.strides[0] == size
    inside, places = _pixels(m, where, offsets, size) if isinstance(m, PixelMap) else _box(m, where, size)
    assert (places[inside] < map_.memory.data.size).all(), "a tensor map that goes beyond its buffer"
    return inside, np.where(inside, places, 0)


def copied(map_: Mapped, where: list[int], offsets: list[int]) -> np.ndarray:
    """The elements of a copy, zeros for what lies outside; rounded where the map says so."""
    inside, places = moved(map_, where, offsets)
    data = np.where(inside, map_.memory.data.reshape(-1)[places], 0).astype(map_.memory.data.dtype)
    if map_.map.element == "tf32":
        bits = data.view(np.uint32)
        data = np.where(np.isfinite(data), (bits + 0x1000) & np.uint32(0xFFFFE000), bits).astype(np.uint32).view(np.float32)
    return np.ascontiguousarray(data)


def _box(m, where: list[int], size: int) -> tuple[np.ndarray, np.ndarray]:
    assert where[0] * size % 16 == 0, "an illegal instruction: a copy that begins between multiples of 16 bytes"
    inside, places = np.ones((), bool), np.zeros((), np.int64)
    for d in reversed(range(len(where))):
        number = where[d] + np.arange(m.box[d])
        inside = inside[..., None] & ((number >= 0) & (number < m.sizes[d]))
        places = places[..., None] + number * (m.strides[d] // size)
    return inside, places


def _pixels(m: PixelMap, where: list[int], offsets: list[int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """From a place on through the box of all windows' beginnings, from one image to the next, each place then moved by the tap's offsets."""
    channel, *at, image = where
    first, last = list(m.lower), [n - 1 + c for n, c in zip(m.sizes[1:], m.upper)]
    assert len(offsets) == len(at) and min(offsets) >= 0
    assert all(low <= a <= high and (a - low) % s == 0 for a, low, high, s in zip(at, first, last, m.steps)), "a pixel that is no window's"
    found = []
    for _ in range(m.box[1]):
        found.append([*(a + o for a, o in zip(at, offsets)), image])
        for d in range(len(at)):
            at[d] += m.steps[d]
            if at[d] <= last[d]:
                break
            at[d] = first[d]
        else:
            image += 1
    pixels, channels = np.array(found), channel + np.arange(m.box[0])
    inside = ((pixels >= 0) & (pixels < np.array(m.sizes[1:]))).all(1)
    places = pixels @ (np.array(m.strides[1:]) // size)
    return inside[:, None] & (channels >= 0) & (channels < m.sizes[0]), places[:, None] + channels

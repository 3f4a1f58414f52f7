"""What a call of cuBLASLt is estimated to take on Hopper, and the kernel behind it."""

from dataclasses import dataclass
from math import ceil, inf

from inferno.schedule.contraction import Contraction, Operand
from inferno.schedule.cost import CLOCK, accessed_bytes, bit_width, moved_bytes
from inferno.schedule.cublaslt import Found
from inferno.schedule.shared_tiles import SECTOR
from inferno.symbolic import hint

SIXTEEN_BITS = ("bf16", "f16")


@dataclass(frozen=True)
class Rates:
    """Of the library's kernels for one type: microseconds until the first products, and ``joined`` to add up shared terms; ``products``, which are
    multiply-adds, and bytes ``copied`` and ``stored``, a clock and multiprocessor; ``hidden`` is left of the shorter one of products' time and
    memory's.  ``tiles``: rows, columns and the share of ``products`` that they reach.  A factor whose rows begin inside of a sector takes ``inside`` times as
    long.  Terms are shared by one of ``parts`` blocks, each of ``long`` bytes of a row at least."""

    start: float
    joined: float
    products: float
    copied: float
    stored: float
    hidden: float
    tiles: tuple[tuple[int, int, float], ...]
    inside: float = 1.0
    parts: tuple[int, ...] = (1, 2, 4, 8)
    long: int = 1024


_MULTIPROCESSORS = 132  # of an H200
# What a call takes of 16-bit products: the library has kernels of nearly any tile, which share out the terms where tiles are few, so it takes the time of
# the tiles that fill the multiprocessors best, and of what memory takes what that does not hide.  Fitted to 234 times of F.linear on an H200, bf16, of 96
# to 8192 rows and the layers of Llama, Qwen2.5, BERT and GPT-2 (7% off in the mean; the rates alone 12%).  ``inside``: times longer a factor takes whose rows
# begin inside of a sector (128x4104x4096 17.6 us, 512x4104x4096 31.5; 35 products).
_HALF = Rates(3.05, 3.5, 0.924 * 2048, 77, 24, 0.205, tuple(sorted({
    (*tile, 1.0) for m in (64, 128, 192, 256, 320) for n in range(32, 257, 8) if m * n <= 320 * 128 and (m <= 128 or n >= 64) for tile in ((m, n), (n, m))
})), 1.55)
_MEMORY_RATE, _L2_RATE = 4.2e6, 8e6  # bytes a microsecond
_LINE = 128  # bytes of the terms of a step
# A kernel behind the call: besides, and bytes a microsecond, half of which L2 has, until what it reads and writes is more than L2 keeps (GELU behind
# 8192x3584x3584 40 us, behind 2048x4096x4096 12.6, as much as a kernel of torch's takes).
_AFTER, _AFTER_RATE, _KEPT = 2.2, 8.8e6, 2e7


def estimate(c: Contraction, found: Found) -> float:
    """Microseconds of the call that a contraction is, and of the kernel of ours behind it."""
    if found.after is None:
        return call_time(c)
    sums = hint(c.B * c.M * c.N) * bit_width(c.destinations[0].access.element) // 8
    others = moved_bytes(c) - sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads))
    return call_time(c) + _AFTER + (sums + others) / _AFTER_RATE + max(0, sums + others - _KEPT) / _MEMORY_RATE


def call_time(c: Contraction) -> float:
    """Of the call alone."""
    rates = _HALF
    times = _products(c, rates), moved_bytes(c) / _MEMORY_RATE
    return rates.start + max(times) + rates.hidden * min(times)


def _products(c: Contraction, rates: Rates) -> float:
    """Microseconds of the products, in the tiles and parts of the terms that take least."""
    batch, m, n, k = (hint(x) for x in (c.B, c.M, c.N, c.K))
    width = bit_width(c.lhs.element) // 8
    depth = _LINE // width
    tall, wide = (rates.inside if _begins_inside_of_sectors(o) else 1.0 for o in (c.lhs, c.rhs))
    best = inf
    for parts in rates.parts:
        if parts > 1 and k * width < rates.long * parts:
            break
        clocks = inf
        for tile_m, tile_n, share in rates.tiles:
            rounds = ceil(m / tile_m) * ceil(n / tile_n) * batch * parts / _MULTIPROCESSORS
            rounds = ceil(rounds) if rounds <= 4 else rounds + 0.5
            step = max(tile_m * tile_n * depth / rates.products / share, (tall * tile_m + wide * tile_n) * _LINE / rates.copied)
            clocks = min(clocks, rounds * ceil(ceil(k / depth) / parts) * step + tile_m * tile_n * width / rates.stored)
        joined = rates.joined + 8 * parts * batch * m * n / _L2_RATE if parts > 1 else 0
        best = min(best, clocks / CLOCK + joined)
    return best


def _begins_inside_of_sectors(o: Operand) -> bool:
    return any(hint(s) * bit_width(a.element) // 8 % SECTOR for a in o.reads for s in a.strides if s not in (0, 1))

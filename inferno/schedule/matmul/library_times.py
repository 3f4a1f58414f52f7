"""What a call of cuBLASLt is estimated to take on Hopper, and the kernel behind it."""

from dataclasses import dataclass
from math import ceil, inf

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.cost import CLOCK, accessed_bytes, moved_bytes
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.cublaslt import Found
from inferno.symbolic import hint
from inferno.target import SECTOR

SIXTEEN_BITS = ("bf16", "f16")


@dataclass(frozen=True)
class Rates:
    """Of the library's kernels for one type: microseconds until the first products, and ``joined`` to add up shared terms; ``products``, which are
    multiply-adds, and bytes ``copied`` and ``stored``, a clock and multiprocessor; ``hidden`` is left of the shorter one of products' time and
    memory's.  ``tiles``: rows, columns and the share of ``products`` that they reach.  A factor whose rows begin inside of a sector takes ``inside`` times as
    long, all products ``narrow`` times where rows begin inside of 16 bytes, a step ``least`` clocks, and of the ends of tiles but the last one ``shown`` is
    not hidden."""

    start: float
    joined: float
    products: float
    copied: float
    stored: float
    hidden: float
    tiles: tuple[tuple[int, int, float], ...]
    inside: float = 1.0
    narrow: float = 1.0
    least: float = 0.0
    shown: float = 0.0
    parts: tuple[int, ...] = (1, 2, 4, 8, 16)


def _tiles(largest: int, **shares: float) -> tuple[tuple[int, int, float], ...]:
    """Tiles of powers of 2, whose shorter side says what share they reach."""
    sides = (16, 32, 64, 128, 256)
    return tuple((m, n, shares[f"of_{min(m, n)}"]) for m in sides for n in sides if 512 <= m * n <= largest and max(m, n) <= 4 * min(m, n))


_MULTIPROCESSORS = 132  # of an H200
# What a call takes of 16-bit products: the library has kernels of nearly any tile, which share out the terms where tiles are few, so it takes the time of
# the tiles that fill the multiprocessors best, and of what memory takes what that does not hide.  Fitted to 234 times of F.linear on an H200, bf16, of 96
# to 8192 rows and the layers of Llama, Qwen2.5, BERT and GPT-2 (7% off in the mean; the rates alone 12%).  ``inside``: 128x4104x4096 17.6 us, 512x4104x4096
# 31.5; 35 products.
_HALF = Rates(3.05, 3.5, 0.924 * 2048, 77, 24, 0.205, tuple(sorted({
    (*tile, 1.0) for m in (64, 128, 192, 256, 320) for n in range(32, 257, 8) if m * n <= 320 * 128 and (m <= 128 or n >= 64) for tile in ((m, n), (n, m))
})), 1.55, parts=(1, 2, 4, 8))
# The same of others, whose tiles are fewer, fitted to what the calls take on an H200, in us, `x @ w` and linear, also of batches.  float64, 55 products, 4%
# off in the mean: 512^3 8.8, 1000^3 42.8, 1001^3 46.9, 2048^3 295, 64x4096x4096 51, 512x8192x512 85.9.  TF32, 80, 10%: 1024^3 13.5, 4096^3 349,
# 64x4100x4100 24.0 and 27.8, 64x4098x4098 42, 1001^3 32.  float32 by CUDA cores, 60, 10%: 1024^3 56.8, 4096x37x4096 52, 96 of 197x197x64 19.4, 1000 of
# 50x50x50 18.1, 64 of 128x37x128 6.8, 64x4097x4097 58 and 70.
_DOUBLE = Rates(2.86, 5.34, 138, 52, 28, 0.23, _tiles(128 * 128, of_16=0.8, of_32=0.885, of_64=1.0, of_128=1.0), 1.33, 1.28, 54, 1.0)
_TF32 = Rates(3.08, 1.7, 980, 46, 18.4, 0.18, _tiles(128 * 256, of_16=0.05, of_32=0.21, of_64=1.0, of_128=1.0), 1.18, 2.6, 330, 1.0)
_SINGLE = Rates(2.46, 2.9, 110, 61, 15, 0.3, _tiles(128 * 128, of_16=0.26, of_32=0.565, of_64=0.88, of_128=1.0), 1.0, 1.0, 47)
_MEMORY_RATE, _MEMORY_RATE_OF_HALF, _L2_RATE = 3.9e6, 4.2e6, 8e6  # bytes a microsecond
_LINE, _SHARED = 128, 1024  # bytes of a row that a step has, and of what a block has at least that has a part of the terms
# A kernel behind the call: besides, and bytes a microsecond, half of which L2 has, until what it reads and writes is more than L2 keeps (GELU behind
# 8192x3584x3584 40 us, behind 2048x4096x4096 12.6, as much as a kernel of torch's takes).
_AFTER, _AFTER_RATE, _KEPT = 2.2, 8.8e6, 2e7


def estimate(c: Contraction, found: Found) -> float:
    """Microseconds of the call that a contraction is, and of the kernel of ours behind it."""
    time = call_time(c, found.call.compute)
    if found.after is None:
        return time
    sums = hint(c.B * c.M * c.N) * element_bytes(c.destinations[0].access.element)
    others = moved_bytes(c) - sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads))
    return time + _AFTER + (sums + others) / _AFTER_RATE + max(0, sums + others - _KEPT) / _MEMORY_RATE_OF_HALF


def call_time(c: Contraction, compute: str) -> float:
    """Of the call alone, which computes sums in this way (``LibraryMatmul``)."""
    rates = _HALF if str(c.lhs.element) in SIXTEEN_BITS else {"f64": _DOUBLE, "tf32": _TF32}.get(compute, _SINGLE)
    times = _products(c, rates), moved_bytes(c) / (_MEMORY_RATE_OF_HALF if rates is _HALF else _MEMORY_RATE)
    return rates.start + max(times) + rates.hidden * min(times)


def _products(c: Contraction, rates: Rates) -> float:
    """Microseconds of the products, in the tiles and parts of the terms that take least."""
    batch, m, n, k = (hint(x) for x in (c.B, c.M, c.N, c.K))
    width = element_bytes(c.lhs.element)
    depth, factors = _LINE // width, (c.lhs, c.rhs)
    tall, wide = (rates.inside if _begins_inside(o, SECTOR) else 1.0 for o in factors)
    slow = rates.narrow if any(_begins_inside(o, 16) for o in factors) else 1.0
    best = inf
    for parts in rates.parts:
        if parts > 1 and k * width < _SHARED * parts:
            break
        clocks = inf
        for tile_m, tile_n, share in rates.tiles:
            rounds = ceil(m / tile_m) * ceil(n / tile_n) * batch * parts / _MULTIPROCESSORS
            rounds = ceil(rounds) if rounds <= 4 else rounds + 0.5
            step = max(tile_m * tile_n * depth / rates.products / share, (tall * tile_m + wide * tile_n) * _LINE / rates.copied, rates.least) * slow
            end = tile_m * tile_n * width / rates.stored
            clocks = min(clocks, rounds * ceil(ceil(k / depth) / parts) * step + end * (1 + rates.shown * (rounds - 1)))
        joined = rates.joined + 2 * max(4, width) * parts * batch * m * n / _L2_RATE if parts > 1 else 0
        best = min(best, clocks / CLOCK + joined)
    return best


def _begins_inside(o: Operand, bytes_: int) -> bool:
    """Whether rows of a factor begin inside of so many bytes."""
    return any(hint(s) * element_bytes(a.element) % bytes_ for a in o.reads for s in a.strides if s not in (0, 1))

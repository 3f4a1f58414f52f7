"""What a call of cuBLASLt is estimated to take on Hopper, and the kernel behind it."""

from math import ceil, inf

from inferno.schedule.contraction import Contraction, Operand
from inferno.schedule.cost import CLOCK, accessed_bytes, bit_width, moved_bytes
from inferno.schedule.cublaslt import Found
from inferno.schedule.shared_tiles import SECTOR
from inferno.symbolic import hint

SIXTEEN_BITS = ("bf16", "f16")
_MULTIPROCESSORS, _LONG = 132, 512  # of an H200; terms that a part has at least
# What a call takes of 16-bit products: the library has kernels of nearly any tile, which share out the terms where tiles are few, so it takes the time of
# the tiles that fill the multiprocessors best, and of what memory takes what that does not hide.  Fitted to 234 times of F.linear on an H200, bf16, of 96
# to 8192 rows and the layers of Llama, Qwen2.5, BERT and GPT-2 (7% off in the mean; the rates alone 12%): _START and _JOINED, which adds up shared terms,
# in microseconds; _SHARE of the tensor cores' rate; _COPIED and _STORED in bytes a clock and multiprocessor; _HIDDEN is left of the shorter time.
_START, _JOINED, _SHARE, _COPIED, _STORED, _HIDDEN = 3.05, 3.5, 0.924, 77, 24, 0.205
_TILES = sorted({
    tile for m in (64, 128, 192, 256, 320) for n in range(32, 257, 8) if m * n <= 320 * 128 and (m <= 128 or n >= 64) for tile in ((m, n), (n, m))
})
_RATES = {"f32": 5e7, "f64": 5e7}  # operations a microsecond that an H200 does of others, roughly
_INSIDE = 1.55  # times longer a factor takes whose rows begin inside of a sector (128x4104x4096 17.6 us, 512x4104x4096 31.5; 35 products)
_MEMORY_RATE, _L2_RATE = 4.2e6, 8e6  # bytes a microsecond
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
    multiply = _products(c) if str(c.lhs.element) in SIXTEEN_BITS else 2 * hint(c.B * c.M * c.N * c.K) / _RATES.get(str(c.lhs.element), 1e8)
    times = multiply, moved_bytes(c) / _MEMORY_RATE
    return _START + max(times) + _HIDDEN * min(times)


def _products(c: Contraction) -> float:
    """Microseconds of the products, in the tiles and parts of the terms that take least."""
    batch, m, n, k = (hint(x) for x in (c.B, c.M, c.N, c.K))
    tall, wide = (_INSIDE if _begins_inside_of_sectors(o) else 1.0 for o in (c.lhs, c.rhs))
    best = inf
    for parts in (1, 2, 4, 8):
        if parts > 1 and k < _LONG * parts:
            break
        clocks = inf
        for tile_m, tile_n in _TILES:
            rounds = ceil(m / tile_m) * ceil(n / tile_n) * batch * parts / _MULTIPROCESSORS
            rounds = ceil(rounds) if rounds <= 4 else rounds + 0.5
            step = max(tile_m * tile_n / 32 / _SHARE, (tall * tile_m + wide * tile_n) * 128 / _COPIED)
            clocks = min(clocks, rounds * ceil(ceil(k / 64) / parts) * step + tile_m * tile_n * 2 / _STORED)
        joined = _JOINED + 8 * parts * batch * m * n / _L2_RATE if parts > 1 else 0
        best = min(best, clocks / CLOCK + joined)
    return best


def _begins_inside_of_sectors(o: Operand) -> bool:
    return any(hint(s) * bit_width(a.element) // 8 % SECTOR for a in o.reads for s in a.strides if s not in (0, 1))

"""What an epilogue costs beside writing the tile: reading what is added to it, and arithmetic.

Both are hidden where two consumers have a tile each (``pingpong``) and one multiplies meanwhile, and otherwise not.
"""

from collections.abc import Sequence

from inferno.element_sizes import bit_width, element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Contraction

# Clocks fitted to 11 kernels of whole models on an H200, which took so much longer than without: 100352x64x256 with a tensor that is added 55 us
# (28 without), 25088x128x512 27.3 (16.9), 6272x256x1024 14.6 (10.0), 6304x768x768 18.4 (15.3); GELU of 6304x768x3072 64.5 us (49.8), 4096x768x3072
# 36.9 (32.4), and of one round of 512x768x3072 with one consumer 8.5 (6.7).  The first round's tensors are on their way while it multiplies.
_READ_RATE = 10  # bytes a clock and multiprocessor
_LANES = {1: 64, 2: 96}  # operations a clock and multiprocessor, of so many consumers
# Arc cosines and log1p took 4.9 and 5.8 us more than 4096x256x1000 to float32, cosines 23.6: libdevice's branch for large numbers, one after the other.
_WORK = {
    "math.erf": 9, "math.tanh": 6, "math.exp": 3, "arith.divf": 3, "math.acos": 25, "math.asin": 25, "math.atan": 25, "math.atan2": 40, "math.log1p": 30,
    "math.log": 12, "math.powf": 60, "math.sin": 150, "math.cos": 150, "math.tan": 150,
}
# The same where results have more than 16 bits, which SiLU showed when it was computed so for all (H100, batch norm and SiLU, 32x64x64x64 to 256: 49.6 us,
# 26 instructions for each of 33.5 million results, and 28 us of memory).
_EXACT_WORK = {**_WORK, "math.exp": 8, "arith.divf": 7}
# Operations for each element beside the body's, and clocks of waits and barriers for each tile, where products are too short to hide them (estimates).
_EACH, _TILE = 3, 400
_FREE = ("arith.extf", "arith.truncf", "arith.constant", "arith.sitofp", "linalg.yield", "linalg.index")


def are_long(c: Contraction) -> bool:
    """Whether the ends of tiles read tensors of the result's size, or compute functions.  What others take, such as a bias and ReLU, is in the estimates
    of products, which were fitted with them."""
    ops = [] if c.epilogue is None else [o.operation.name for o in c.epilogue.block.operations]
    return bool(whole_tensors(c)) or any(name in _WORK and name != "arith.divf" for name in ops)


def whole_tensors(c: Contraction) -> list[Access]:
    """The tensors that have an element for each of the result's."""
    return [a for a in c.extras if all(any(a.strides[d] for d in g.dims) for g in (c.m, c.n))]


def read_clocks(c: Contraction, tile_m: int, tile_n: int, brought: Sequence[Access] = ()) -> float:
    """Clocks of reading the tensors that have an element for each of the tile's, but for those that are brought."""
    return tile_m * tile_n * sum(element_bytes(a.element) for a in whole_tensors(c) if a not in brought) / _READ_RATE


def work_clocks(c: Contraction, tile_m: int, tile_n: int, consumers: int, short: bool = False) -> float:
    """Clocks of the arithmetic on a tile's elements by so many consumers; ``short``: no products hide the rest of what a tile's end takes."""
    ops = [] if c.epilogue is None else [o.operation.name for o in c.epilogue.block.operations]
    work = _WORK if all(bit_width(d.access.element) == 16 for d in c.destinations) else _EXACT_WORK
    each = sum(work.get(name, 1) for name in ops if name not in _FREE) + (_EACH if short else 0)
    return tile_m * tile_n * each / _LANES[min(consumers, 2)] + (_TILE if short else 0)

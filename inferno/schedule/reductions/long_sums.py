"""Products of a matrix and a vector with few results, whose terms many blocks have to share, as sums of products: the schedule of a reduction.

So are sums of scaled rows that a user wrote as such, whose results are float32: tensor cores lose bits of them (of 700x64 in bf16 8.6e-7, where torch's loses
none of 1.2e-7).
"""

from inferno.element_sizes import bit_width
from inferno.mlir import func, walk
from inferno.passes.contraction import is_exact
from inferno.schedule.matmul import vectors
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.split_products import is_tall
from inferno.target import Target

# Terms and blocks at least, and how many times the reduction's estimate the others' are.  Of products with one vector an H100 took (us, by other generators
# and as sums) 64 results of 65536 terms in bf16 10.5 and 6.1, along the terms 10.1 and 4.8, 1024 of 9585 10.0 and 7.7, 100 of 5000 4.8 and 3.0, 64 of 4096 4.3
# and 3.6; in float32 38.8 and 6.4, 11.4 and 6.3, 16.7 and 12.0, 6.7 and 6.4, 4.1 and 3.0; 16 of a million 116 and 16.1, 1029 and 27.1.  But 512 results of 2048
# terms 3.0 and 3.6, 128 3.2 and 3.4, 64 of 1024 3.0 and 4.2, and by 8 blocks 16 of 4096 4.6 and 5.4.
_TERMS, _BLOCKS, _CLEARLY = 4096, 16, 1.15


def choose(kernel: func.FuncOp, target: Target) -> reductions.Reductions | None:
    """The reduction's schedule, of a product with one vector whose sums it cuts, where every other generator is estimated to take clearly longer, or that must
    not lose bits; else None."""
    c = parse_contraction(kernel) if target.kind == "nvptx" else None
    if c is None or c.varies or c.is_reduction:
        return None
    if 1 not in (c.M, c.N):
        return few_results(kernel, c, target)
    exact = loses_bits(kernel, c)
    if not exact and c.K < max(_TERMS, c.M * c.N):
        return None
    read = reductions.read(kernel, target)
    found = None if read is None else reductions.pick(read, target)
    if exact or found is None:
        return found
    if found.chunks == 1 or found.tiles(read) * found.chunks < _BLOCKS:
        return None
    others = [time for time, _ in vectors.candidates(c, target)] + [time for time, _ in vectors.tiles(kernel, c, target, is_narrow=False)]
    time = reductions.estimate(found, read, target)
    return found if all(time * _CLEARLY < other for other in others) else None


def few_results(kernel: func.FuncOp, c: Contraction, target: Target) -> reductions.Reductions | None:
    """The same of the products of two tall matrices, which are few sums that tiles of results leave to a block or two."""
    if c.B != 1 or not is_tall(c.M * c.N, c.K):
        return None
    read = reductions.read(kernel, target)
    found = None if read is None else reductions.pick(read, target)
    return found if found is not None and found.chunks > 1 else None


def loses_bits(kernel: func.FuncOp, c: Contraction) -> bool:
    """Whether tensor cores would take a sum that a user wrote, and give it back as they have it."""
    narrow = all(bit_width(x.element) == 16 for x in (c.lhs, c.rhs))
    return narrow and any(map(is_exact, walk(kernel, "linalg.generic"))) and any(bit_width(d.access.element) > 16 for d in c.destinations)

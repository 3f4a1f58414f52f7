"""Products with one vector that are sums of scaled rows, ``(x * s[:, None]).sum(0)``: reductions of columns, of which tiles would be mostly empty.

Their sums are in float64; those of tensor cores lose bits: of 700x64 in bf16, summed in float32, they are 8.6e-7 away from torch's, where 1.2e-7 is the bound.
"""

from inferno.mlir import func
from inferno.schedule import reductions
from inferno.schedule.contraction import Contraction
from inferno.schedule.cost import bit_width
from inferno.target import Target


def sums_columns(kernel: func.FuncOp, c: Contraction, target: Target) -> bool:
    """Whether ``reductions`` takes a product of 16 bits with one vector, whose results lie side by side and are as wide as its sums.

    On an H100 those of 9585x64 in bf16 took 4.1 us, by tiles 5.2, of 9585x1024 8.3 and 10.7, of 47000x128 5.9 and 9.6, of 300000x16 13.7 and 37.8, of
    4096x4096 9.2 and 9.3, of 512x2048 3.4 and 3.1, of 1000x64 4.5 and 3.3.
    """
    if c.varies or c.B != 1 or 1 not in (c.M, c.N) or any(bit_width(a.element) != 16 for x in (c.lhs, c.rhs) for a in x.reads):
        return False
    found = reductions.read(kernel, target)
    return found is not None and not found.along

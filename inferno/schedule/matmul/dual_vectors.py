"""The schedule of two products with few vectors that share an operand and meet elementwise, on CUDA cores: one kernel that reads both factors.

For float32, which is added as exactly as eager adds it; 16 bits have tensor cores (``dual``), whatever the number of rows.
"""

from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from inferno.mlir import func
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.matmul import vectors
from inferno.schedule.matmul.dual import Pair, parse_pair
from inferno.schedule.matmul.simt import supported
from inferno.schedule.matmul.vectors import Vectors
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.target import Target

# Rows, where factors lie along the terms and where columns are together: a thread has twice the sums.  H200, 4x4096x11008: 91.9 us, and 132.4 as
# two kernels; columns together 112.5 and 105; 8x2048x5632 41.6 and 37.7.
_MOST = {True: 4, False: 2}


@dataclass(frozen=True)
class DualVectors(Vectors):
    """As ``Vectors``, for results that have two sums: a thread has as many columns of either factor."""

    generator: ClassVar[str] = "dual_vectors"


def takes(kernel: func.FuncOp, pair: Pair) -> bool:
    """Whether it is of float32 and known sizes, and the second factor can be read like the first."""
    c, second = pair.contraction, pair.second
    both = (c.accumulator, c.lhs.element, c.rhs.element, second.element)
    alike = (c.rhs.access and second.access) is not None and (c.rhs.access.strides, c.rhs.access.offset) == (second.access.strides, second.access.offset)
    plain = all(str(x) == "f32" for x in both) and precision(kernel, c) is None and not c.varies
    return plain and alike and supported(c) and supported(replace(c, rhs=second))


def choose(kernel: func.FuncOp, target: Target) -> DualVectors | None:
    """The schedule with the lowest estimate if ``kernel`` is such a pair with few rows, else None."""
    pair = parse_pair(kernel) if target.kind == "nvptx" else None
    found = candidates(kernel, pair, target) if pair is not None else []
    return fastest(found)[1]


def candidates(kernel: func.FuncOp, pair: Pair, target: Target) -> list[tuple[float, DualVectors]]:
    """Schedules with their estimates in microseconds; none where ``vectors`` has none for one of the contractions by itself."""
    if not takes(kernel, pair):
        return []
    found = []
    for _, s in vectors.candidates(pair.contraction, target, swapped=False):
        if s.rows > _MOST[s.along_k] or s.threads > 256:
            continue
        # As many sums a thread as one contraction's: half of the columns of each.
        s = replace(s, columns=s.columns // 2) if s.along_k else s
        time = vectors.estimate(s, pair.contraction, target, second=pair.second)
        found.append((time, DualVectors(**asdict(s))))
    return found

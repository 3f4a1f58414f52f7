"""The schedule of convolutions on Hopper's tensor cores: contractions whose lhs the copy engine brings window by window (implicit GEMM).

A tile's rows are neighbouring pixels of the result, of one image and the next; a step along k is a chunk of the channels of one tap of the filter.
All else is as in ``wgmma``, and so are the estimates: of a tap's last chunk the part that lies behind the channels is multiplied for nothing.
"""

from dataclasses import asdict, dataclass
from math import inf
from typing import ClassVar

from inferno.mlir import func, ir, walk
from inferno.passes.contraction import pads_convolutions
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.cost import At, bit_width, tensor_bytes
from inferno.schedule.split_padding import without_padding
from inferno.schedule.wgmma import MEMORY_RATE, ROW, Wgmma, candidates
from inferno.symbolic import hint, product
from inferno.target import Target

_LAUNCH = 2.0  # microseconds of a kernel that only copies, beside what memory takes (as wgmma's estimates have it)


@dataclass(frozen=True)
class Im2col(Wgmma):
    """As ``Wgmma``; the lhs has k innermost, and the sides stay where they are."""

    generator: ClassVar[str] = "im2col"
    pads: ClassVar[bool] = True  # what lies outside of the image is zeros


def choose(kernel: func.FuncOp, target: Target) -> Im2col | None:
    """The schedule with the lowest estimate if ``kernel`` is a convolution for Hopper's tensor cores, and of so many channels, or with so few pixels in
    a row, that it is not faster as a contraction of windows that overlap in memory, with its padding there."""
    c = taken(kernel, target)
    if c is None or c.varies:
        return None
    found = at_size(kernel, c, target)
    time, schedule = min(found, key=lambda item: item[0], default=(inf, None))
    return schedule if schedule is not None and time <= _side_by_side(kernel, c, target) else None


def _side_by_side(kernel: func.FuncOp, c: Contraction, target: Target) -> float:
    """Microseconds of the kernel where the terms along a row of its window are one loop, and of a kernel that pads the image first."""
    width = bit_width(c.lhs.element) // 8
    if c.lhs.unfolded.shape[-1] * width >= ROW:
        return inf
    with kernel.context, kernel.location:
        module = ir.Module.create()
        module.body.append(kernel.operation.clone(ip=False))
        plain, before = module.body.operations[0], 0.0
        if pads := walk(plain, "tensor.pad"):
            if not all(map(pads_convolutions, pads)):
                return inf
            padded = pads[0].results[0].type
            before = _LAUNCH + (product(c.lhs.access.shape) * width + tensor_bytes(padded)) / MEMORY_RATE
            plain = without_padding(plain, "plain")
        found = parse_contraction(plain)
        return min((time for time, _ in candidates(plain, found, target)), default=inf) + before if found is not None else inf


def at_size(kernel: func.FuncOp, c: Contraction, target: Target, at: At = hint, most: int | None = None) -> list[tuple[float, Im2col]]:
    """Schedules with their estimates in microseconds; ``at`` and ``most`` are as ``wgmma``'s."""
    return [(time, im2col(s)) for time, s in candidates(kernel, c, target, at, most)]


def taken(kernel: func.FuncOp, target: Target) -> Contraction | None:
    """As ``parse_unfolded``, None where only generators may be chosen that a GPU has run."""
    return parse_unfolded(kernel, target) if takes_unmeasured(kernel.operation) else None


def parse_unfolded(kernel: func.FuncOp, target: Target) -> Contraction | None:
    """What ``kernel`` computes, if that is a contraction of windows of images, the lhs, with more than one feature; only the number of images may vary."""
    c = parse_contraction(kernel, unfolded=True) if target.hopper else None
    return c if c is not None and c.lhs.unfolded is not None and c.n.dims and isinstance(c.N, int) and isinstance(c.K, int) else None


def im2col(s: Wgmma) -> Im2col:
    """The schedule of a contraction as that of windows."""
    return Im2col(**asdict(s))

"""The schedule of independent small kernels in one launch, whose blocks are dealt out to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from inferno.mlir import func, ir
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.analysis.written_parts import writes_parts
from inferno.schedule.attributes import ATTRIBUTE, from_attribute

GENERATORS = ("elementwise", "rows", "reductions")
"""Those whose kernels are bundled."""
MOST = 16
"""Kernels of one launch: every thread finds out which of them is its block's."""
# Bytes that a kernel moves: those of about 2 us.  A launch behind others costs about one, whatever it does; large kernels have the GPU to themselves.
_SMALL = 8 << 20
# Threads of a block of which a multiprocessor has no more than half of those that many need: three copies of 3 MB beside a sum of eight numbers by 32 threads
# took an H200 25.9 us.
_HALF, _MANY = 32, 128


@dataclass(frozen=True)
class Bundle:
    """``parts``: the schedule of each kernel, in order, all with blocks of one size."""

    generator: ClassVar[str] = "bundle"

    parts: tuple[Any, ...]


def fits(kernel: func.FuncOp) -> bool:
    """Whether a kernel may be one of a bundle: a small one, by the example's sizes, in one launch of blocks that are no cluster."""
    if ATTRIBUTE not in kernel.attributes or not all(isinstance(t, ir.RankedTensorType | ir.IndexType) for t in kernel.type.inputs):
        return False
    s = from_attribute(kernel.attributes[ATTRIBUTE])
    whole = (s.chunks == 1 and not s.transposed) if s.generator == "reductions" else getattr(s, "cluster", 1) == 1
    return s.generator in GENERATORS and whole and not writes_parts(kernel) and count_bytes(kernel) <= _SMALL


def choose(kernels: Sequence[func.FuncOp]) -> Bundle | None:
    """The schedule of a function that holds what these do, in order; None where their blocks cannot be of one size."""
    return join([from_attribute(k.attributes[ATTRIBUTE]) for k in kernels])


def join(own: Sequence[Any]) -> Bundle | None:
    """The same of the schedules that they have."""
    own = _of_one_size(own)
    rigid = {s.threads for s in own if not _flexible(s)}
    if len(rigid) > 1:
        return None
    threads = rigid.pop() if rigid else max(s.threads for s in own)
    if threads <= _HALF and any(_flexible(s) and s.threads >= _MANY for s in own):
        return None
    return Bundle(tuple(replace(s, threads=threads) if _flexible(s) else s for s in own))


def _of_one_size(own: Sequence[Any]) -> list[Any]:
    """The same, where sums have half the threads for their terms if that makes all blocks equal: twice the terms for each are less than a launch."""
    least = min((s.threads for s in own if not _flexible(s)), default=0)
    return [replace(s, along=s.along // 2) if s.generator == "reductions" and s.threads == 2 * least and s.along > 1 and not s.rows else s for s in own]


def _flexible(s: Any) -> bool:
    """Whether any number of threads is a block."""
    return s.generator == "elementwise" and not s.tile

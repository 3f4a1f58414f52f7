"""Estimates of the time of calls in ``@main``, for passes that compare kernels before schedules are chosen."""

from inferno.mlir import func, ir
from inferno.passes.programs import callee
from inferno.schedule.analysis.cost import MEMORY_RATE, count_bytes
from inferno.schedule.analysis.unchanged import unchanged
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.matmul.product_times import contraction_time
from inferno.symbolic import Undecided
from inferno.target import Target

_START = 2.0  # microseconds of an elementwise kernel, beside its bytes


def elementwise_time(kernel: func.FuncOp) -> float:
    """Microseconds of a kernel that takes as long as memory."""
    return _START + count_bytes(kernel) / MEMORY_RATE


class CallTimes:
    """Of ``kernels``, by name, which may become more; a kernel is estimated once, at the example's sizes."""

    def __init__(self, kernels: dict[str, func.FuncOp], target: Target) -> None:
        self._kernels, self._target = kernels, target
        self._found: dict[str, tuple[bool, float] | None] = {}
        self._pointwise: dict[str, bool] = {}

    def find(self, call: ir.Operation) -> tuple[bool, float] | None:
        """Whether a kernel is a contraction and not elementwise, and its microseconds; None where it is neither, or not known."""
        name = callee(call)
        if name not in self._kernels:
            return None
        if name not in self._found:
            try:
                self._found[name] = self._estimate(self._kernels[name])
            except Undecided:
                self._found[name] = None
        return self._found[name]

    def of(self, call: ir.Operation) -> float:
        """Microseconds of a call that is known."""
        return self.find(call)[1]

    def is_contraction(self, call: ir.Operation) -> bool:
        return (found := self.find(call)) is not None and found[0]

    def is_elementwise(self, call: ir.Operation) -> bool:
        """Without an estimate of what is not: of a contraction that takes longer than most passes."""
        name = callee(call)
        if name not in self._kernels:
            return False
        if name not in self._pointwise:
            self._pointwise[name] = parse_pointwise(self._kernels[name]) is not None and self.find(call) is not None
        return self._pointwise[name]

    def _estimate(self, kernel: func.FuncOp) -> tuple[bool, float] | None:
        with unchanged(kernel):
            if parse_pointwise(kernel) is not None:
                return False, elementwise_time(kernel)
            time = contraction_time(kernel, self._target)
            return None if time is None else (True, time)
